// The arithmetic of a commit: what the optimizer's step is, given the sums. Pure, the same in a swarm and in one
// process.
#pragma once
#include <cstdint>

#include "base/ids.h"
#include "swarm/compute.h"

namespace tributary::swarm {

enum class Schedule : std::uint8_t { kConstant, kCosine, kLinear, kConstantThenDecay };

struct StepOptions {
  double learning_rate = 1e-3;
  double min_learning_rate = 1e-4;
  std::uint64_t warmup = 0;        // iterations, linear from 0
  std::uint64_t iterations = 100;  // the schedule's length
  Schedule schedule = Schedule::kCosine;
  double decay_fraction = 0.2;  // kConstantThenDecay: the last part, linear to the minimum
  double clip = 1.0;            // of the global gradient norm; 0: none
};

double learning_rate(const StepOptions& options, Iteration iteration);

// `sum_squares` is that of the sum of the contributions of `used` of M microbatches, over all stages. The contributions
// are scaled for M; with some excluded the mean is over the rest. `norm`, if given, receives the gradient's norm.
StepParameters step_parameters(const StepOptions& options, Iteration iteration, double sum_squares, std::uint32_t used,
                               std::uint32_t microbatches, double* norm = nullptr);

}  // namespace tributary::swarm
