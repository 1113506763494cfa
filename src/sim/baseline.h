// The published methods in an event model, to compare with: they lose the work of the dead and wait for fixed
// time-outs, which the protocol cannot be told to do. "ours" is our policy in the same model, so that like is compared
// with like. The model is flow::predict; docs/methods.md says what was reconstructed. Pure and deterministic.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "flow/predict.h"
#include "sim/baseline_account.h"
#include "sim/scenario.h"

namespace tributary::sim {

struct BaselineOptions {
  std::string policy = "swarm";  // of baseline_names()
  double churn = 0;              // each relay crashes in an iteration with this probability
  std::uint64_t seed = 1;
  std::uint64_t iterations = 11;
  bool trace = false;  // keep what happened in each iteration
};

struct BaselineIteration {
  double duration_s = 0;
  double accepted = 0;  // microbatches with all their stages in the update
  double parts = 0;     // the same, by mean share of stages
  std::uint32_t crashes = 0;
  WhereTimeGoes time;
};
// What happened in an iteration; seconds since its start.
struct BaselineTrace {
  flow::PredictTrace steps;
  std::vector<std::uint32_t> away;  // dead from before
  std::vector<flow::PredictCrash> crashes;
  struct Aggregation {
    std::uint32_t stage = 0;
    double begin_s = 0, end_s = 0;
  };
  std::vector<Aggregation> aggregations;
};
struct BaselineRun {
  double crash_free_s = 0;
  std::vector<BaselineIteration> iterations;
  std::vector<BaselineTrace> traces;  // by iteration, if asked for
  double mean_s() const;
  double per_accepted_s() const;  // time by accepted microbatches; infinite if there were none
  double per_parts_s() const;
};

// "swarm", "swarm-refusing", "swarm-round-robin", "gwtf", "ours".
const std::vector<std::string>& baseline_names();

// Errors: the policy's name; a scenario that the model cannot hold.
Result<BaselineRun> run_baseline(const Scenario& scenario, const BaselineOptions& options);

}  // namespace tributary::sim
