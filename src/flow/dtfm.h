// The central baseline after DT-FM: a genetic search, here over which capacity serves at each stage; neighbouring
// stages are joined by bottleneck matchings (the dearest link used is as cheap as can be), and what is minimised is the
// sum of these dearest links, not the sum of all costs. Placements and the order of stages are given by the network, so
// the open tour over stages has one order here. docs/methods.md
#pragma once
#include "flow/router.h"

namespace tributary::flow {

struct DtfmOptions {
  std::size_t population = 100;
  std::int64_t trials = 4000;
  std::int64_t steps = 300'000'000;  // elementary ones, in all: fewer trials where networks are large
};

class DtfmRouter final : public Router {
 public:
  explicit DtfmRouter(const DtfmOptions& options = {}) : options_(options) {}
  Result<Solution> solve(const Network& network, std::uint64_t seed) const override;

 private:
  const DtfmOptions options_;
};

}  // namespace tributary::flow
