// The arithmetic of a commit: what a step's learning rate and gradient scale are. Pure; the sequencer of a swarm and a
// single process use the same lines, so that their weights can be the same in every bit.
#pragma once
#include <cstdint>

#include "base/ids.h"
#include "swarm/compute.h"

namespace tributary::swarm {

enum class Schedule {
  kCosine,
  kLinear,
  kConstantThenDecay,  // constant for the first four fifths, then linear
};

struct ScheduleOptions {
  double learning_rate = 1e-3;      // the highest
  double min_learning_rate = 1e-4;  // at the last iteration
  std::uint64_t warmup = 0;         // iterations of linear rise from 0
  std::uint64_t iterations = 1;     // of the whole run
  Schedule schedule = Schedule::kCosine;
  double clip = 1.0;  // of the global gradient norm; 0: none
};

double learning_rate(const ScheduleOptions& options, Iteration iteration);

// What the iteration's microbatches came to.
struct IterationTotals {
  double sum_squares = 0;          // of the summed gradient: over stages in order
  std::uint32_t used = 0;          // microbatches not excluded
  std::uint32_t microbatches = 0;  // M
  // Of the mean-loss gradient of the microbatches used.
  double gradient_norm() const;
};

StepParameters step_parameters(const ScheduleOptions& options, Iteration iteration, const IterationTotals& totals);

}  // namespace tributary::swarm
