// Training in one process: the tasks of a swarm, one after the other, with the payloads, folds and commits that a swarm
// has, so that in reproducible runs the weights are a swarm's in every bit. One thread.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "app/workload.h"
#include "swarm/compute.h"
#include "swarm/step.h"

namespace tributary::app {

struct IterationReport {
  double loss = 0;  // mean over the microbatches that count
  double gradient_norm = 0;
  double learning_rate = 0;
  std::uint64_t tokens = 0;
  std::uint32_t excluded = 0;  // microbatches whose result was not finite
};

class SingleProcess {
 public:
  // `compute` must hold all stages.
  SingleProcess(swarm::Compute& compute, const RunConfig& config, std::uint16_t stages);

  Result<void> initialise();
  // Checkpoint c is the state after c iterations.
  Result<void> load(Iteration checkpoint);
  Result<void> save(Iteration checkpoint);
  // Errors: every microbatch failed, or the step did.
  Result<IterationReport> run(Iteration iteration);
  // Where the time of all run()s went, by kind of work, as "backward 51 %, forward 27 %, ...".
  std::string time_shares() const;

 private:
  struct Microbatch {
    double loss = 0;
    std::uint64_t tokens = 0;
  };
  Result<swarm::TaskResult> task(swarm::Task task);
  Result<Microbatch> compute_microbatch(Iteration iteration, MicrobatchId microbatch);
  Result<void> settle(Iteration iteration, MicrobatchId microbatch, swarm::TaskKind kind);
  Result<double> reduce(Iteration iteration);

  swarm::Compute& compute_;
  const RunConfig& config_;
  const std::uint16_t stages_;
  std::uint64_t next_id_ = 1;
  std::map<swarm::TaskKind, double> seconds_;
};

}  // namespace tributary::app
