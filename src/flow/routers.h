// The routers behind make_router(). Internal to src/flow.
#pragma once
#include "flow/router.h"

namespace tributary::flow {

// Exact, central; one data node only.
class OptimalRouter final : public Router {
 public:
  Result<Solution> solve(const Network& network, std::uint64_t seed) const override;
};

// The baseline: microbatches choose hop by hop, by a moving average of the delay seen; a full relay refuses.
class SwarmRouter final : public Router {
 public:
  Result<Solution> solve(const Network& network, std::uint64_t seed) const override;
};

}  // namespace tributary::flow
