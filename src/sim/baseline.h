// The published methods in an event model, to compare with: they lose the work of the dead and wait for fixed
// time-outs, which the protocol cannot be told to do. "ours" is our policy in the same model, so that like is compared
// with like. The model is flow::predict; docs/methods.md says what was reconstructed. Pure and deterministic.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "sim/scenario.h"

namespace tributary::sim {

struct BaselineOptions {
  std::string policy = "swarm";  // of baseline_names()
  double churn = 0;              // each relay crashes in an iteration with this probability
  std::uint64_t seed = 1;
  std::uint64_t iterations = 11;
};

struct BaselineIteration {
  double duration_s = 0;
  double accepted = 0;  // microbatches with all their stages in the update
  double parts = 0;     // the same, by mean share of stages
  std::uint32_t crashes = 0;
};
struct BaselineRun {
  double crash_free_s = 0;
  std::vector<BaselineIteration> iterations;
  double mean_s() const;
  double per_accepted_s() const;  // time by accepted microbatches; infinite if there were none
  double per_parts_s() const;
};

// "swarm", "swarm-refusing", "swarm-round-robin", "gwtf", "ours".
const std::vector<std::string>& baseline_names();

// Errors: the policy's name; a scenario that the model cannot hold.
Result<BaselineRun> run_baseline(const Scenario& scenario, const BaselineOptions& options);

}  // namespace tributary::sim
