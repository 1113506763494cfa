// DT-FM's placement (Yuan et al. 2022), as published where that is known: relays are parted into groups by a genetic
// search with local search; a group's cost is that of its data-parallel exchange; groups are put into order by a tour
// whose steps cost the bottleneck of a matching between two groups. docs/methods.md says what was reconstructed.
// Only communication counts there, neither slots nor speeds. Pure and deterministic.
#pragma once
#include <cstdint>
#include <vector>

#include "flow/predict.h"

namespace tributary::flow {

// Seconds.
struct DtfmCost {
  double data_parallel_s = 0;  // of the group that takes longest
  double pipeline_s = 0;       // there and back over the dearest link of each step, from the data nodes round to them
  double total_s() const { return data_parallel_s + pipeline_s; }
};
// Of the world as its nodes stand. Requires world.check().
DtfmCost dtfm_cost(const PredictWorld& world);

struct DtfmPlacementOptions {
  std::size_t population = 100;
  std::int64_t trials = 4000;
  std::int64_t steps = 400'000'000;  // elementary ones, in all: fewer trials where worlds are large
};
struct DtfmPlacement {
  std::vector<std::uint32_t> stage;  // by node; data nodes stay
  DtfmCost cost;
  std::int64_t trials = 0;  // made
};
// Groups have the sizes of the world's stages. The present placement is one of the first population, so that the answer
// costs no more. Requires world.check().
DtfmPlacement dtfm_place(const PredictWorld& world, std::uint64_t seed, const DtfmPlacementOptions& options = {});

}  // namespace tributary::flow
