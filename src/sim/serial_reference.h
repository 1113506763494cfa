// The run that nothing disturbs: the same tasks in one process, one microbatch after the other. What a swarm's weights
// must equal after every iteration. Works with any swarm::Compute, so with real tensors too.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "swarm/compute.h"

namespace tributary::sim {

struct SerialOptions {
  std::uint16_t stages = 1;
  std::uint32_t microbatches = 1;
  std::uint32_t evaluate_batches = 0;  // of held-out text
  std::function<std::unique_ptr<swarm::Compute>(StageId)> make_compute;
  // The optimizer's step of an iteration in which `used` microbatches counted.
  std::function<swarm::StepParameters(Iteration, double sum_squares, std::uint32_t used)> step;
};

class SerialReference {
 public:
  explicit SerialReference(SerialOptions options);
  // The hash of the stage's weights after `iteration`; computes the iterations up to it that are missing.
  std::uint64_t hash_after(Iteration iteration, StageId stage);
  // The held-out loss with the weights before `iteration`.
  double held_out_before(Iteration iteration);

 private:
  void advance();
  double evaluate();
  bool microbatch(Iteration iteration, MicrobatchId microbatch);
  swarm::Compute& at(StageId stage) { return *computes_[stage.value()]; }
  StageId stage_of(std::uint16_t part) const { return StageId(part > options_.stages ? 0 : part); }

  const SerialOptions options_;
  std::vector<std::unique_ptr<swarm::Compute>> computes_;  // by stage
  std::vector<std::vector<std::uint64_t>> hashes_;         // by iteration, by stage
  std::vector<double> held_out_;                           // before each iteration
};

}  // namespace tributary::sim
