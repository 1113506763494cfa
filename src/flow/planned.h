// Ours, central: for a planner that knows all links. With one data node exact, by network simplex. With several, flows
// of the problem with interchangeable data nodes are led back to their own by exchanges, then improved: some flows are
// evicted together, find their cheapest ways again in another order, and exchange relays with all others; what is worse
// is taken back, a little worse only early on. docs/methods.md
#pragma once
#include "flow/router.h"

namespace tributary::flow {

struct PlannedOptions {
  // Rounds of eviction at most, and elementary steps in all: what bounds its time.
  std::int64_t rounds = 20000;
  std::int64_t steps = 300'000'000;
};

class PlannedRouter final : public Router {
 public:
  explicit PlannedRouter(const PlannedOptions& options = {}) : options_(options) {}
  Result<Solution> solve(const Network& network, std::uint64_t seed) const override;

 private:
  const PlannedOptions options_;
};

}  // namespace tributary::flow
