// What a node holds of one stage beside the mathematics: weights and moments, contributions set aside, the iteration's
// sums, its result, and the optimizer's step. One thread at a time. Internal to src/node.
#pragma once
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "model/checkpoint.h"
#include "model/stage.h"
#include "node/torch_compute.h"

namespace tributary::node {

// Sorted, disjoint, merged ranges.
class RangeSet {
 public:
  void add(swarm::Range range);
  bool covers(std::uint64_t size) const;

 private:
  std::map<std::uint64_t, std::uint64_t> ends_;  // begin -> end
};

class StageStore {
 public:
  StageStore(const ComputeOptions& options, StageId stage);

  const model::StageLayout& layout() const { return layout_; }
  model::StageState& state() { return state_; }
  const model::StageState& state() const { return state_; }
  void initialise(std::uint64_t seed);

  // Errors: a gradient that is not finite, or in fixed point too large.
  Result<void> check(const model::Gradients& gradients) const;
  void hold(Iteration iteration, MicrobatchId microbatch, PartId part, model::Gradients gradients);
  // Errors: no such contribution is held.
  Result<void> fold(Iteration iteration, MicrobatchId microbatch, PartId part);
  void discard(Iteration iteration, MicrobatchId microbatch, PartId part);
  void subtract(Iteration iteration, const model::Gradients& gradients);

  Result<void> check(swarm::Range range) const;
  // Each fills the parts of the result that its task has.
  void partial(const swarm::Task& task, swarm::TaskResult& result) const;
  Result<void> sum_share(const swarm::Task& task, swarm::TaskResult& result) const;
  Result<void> set_result(const swarm::Task& task);
  Result<void> finish_result(Iteration iteration, swarm::TaskResult& result) const;
  Result<void> apply(const swarm::Task& task, swarm::TaskResult& result);
  void forget(Iteration last);
  void read_state(swarm::Range range, swarm::TaskResult& result) const;
  Result<void> write_state(const swarm::Task& task);

 private:
  struct Sum {
    std::vector<std::int64_t> fixed;  // one of the two, by options.reproducible
    std::vector<float> floating;
  };
  struct IterationResult {
    std::vector<float> gradient;
    RangeSet ranges;
  };
  Sum& sum(Iteration iteration);
  void add(Iteration iteration, const model::Gradients& gradients, bool subtract);
  // Of one gradient in reproducible runs: 2^18 / M; sums of M of them stay within int64.
  float limit() const;

  const ComputeOptions& options_;
  const model::StageLayout layout_;
  model::StageState state_;
  std::map<std::tuple<Iteration, MicrobatchId, PartId>, model::Gradients> held_;
  std::map<Iteration, Sum> sums_;
  std::map<Iteration, IterationResult> results_;
};

}  // namespace tributary::node
