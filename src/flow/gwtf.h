// "Go With The Flow", decentralised: every node is a state machine that knows its own links and flows, and exchanges
// messages with the nodes of its own stage and of the two beside it. Here they run in an event queue of their own, with
// seeded random delays. docs/methods.md says which rules are the published ones and which were added.
#pragma once
#include "flow/router.h"

namespace tributary::flow {

struct GwtfOptions {
  // Temperature at the start, in mean costs of a node's own links; the published value is absolute (1.7).
  double start_temperature = 0.2;
  // Proposals of each node until its temperature is zero; then it only takes what gains.
  int cooling_proposals = 300;
  // A node that has made so many is quiet for good, which bounds the rounds; a proposal takes one to three.
  int max_proposals = 3000;
  // The published moves alone: change and redirect, no exchange of places.
  bool published_moves_only = false;
};

class GwtfRouter final : public Router {
 public:
  explicit GwtfRouter(const GwtfOptions& options = {}) : options_(options) {}
  Result<Solution> solve(const Network& network, std::uint64_t seed) const override;

 private:
  const GwtfOptions options_;
};

}  // namespace tributary::flow
