// The routers behind make_router(). Internal to src/flow.
#pragma once
#include "flow/router.h"

namespace tributary::flow {

// Exact, central. One data node: network simplex. Several: an integer program, within a time limit; the answer itself
// does not depend on time, only whether there is one.
class OptimalRouter final : public Router {
 public:
  explicit OptimalRouter(int seconds = 60) : seconds_(seconds) {}
  Result<Solution> solve(const Network& network, std::uint64_t seed) const override;

 private:
  const int seconds_;
};

// optimal_several.cpp. Errors: out of time; the message says what is known by then.
Result<Solution> solve_several(const Network& network, std::uint64_t seed, int seconds);

// The flows behind interchangeable_bound(): from a data node to any data node.
std::vector<std::vector<std::uint32_t>> interchangeable_paths(const Network& network);

// The baseline: microbatches choose hop by hop, by a moving average of the delay seen. Three forms, swarm_router.cpp.
enum class SwarmForm { kGreedy, kRefusing, kRoundRobin };
class SwarmRouter final : public Router {
 public:
  explicit SwarmRouter(SwarmForm form) : form_(form) {}
  Result<Solution> solve(const Network& network, std::uint64_t seed) const override;

 private:
  const SwarmForm form_;
};

}  // namespace tributary::flow
