// Computation without tensors that still has exact results: weights, activations and gradients are words mixed from all
// that they depend on. One microbatch counted twice, missing, or computed from stale weights changes every later hash,
// so a run can be compared with a serial reference bit by bit, at a few microseconds a task.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "swarm/compute.h"

namespace tributary::sim {

// A node's disk: survives its crashes.
struct Disk {
  std::map<std::pair<StageId, Iteration>, std::vector<std::uint32_t>> checkpoints;
};

struct SymbolicOptions {
  std::uint64_t seed = 0;
  std::uint16_t stages = 1;
  std::vector<std::uint64_t> state_sizes;
  // Whether the result of (iteration, microbatch) at a part is not finite, on the way forward or (only) backward.
  std::function<bool(Iteration, MicrobatchId, PartId, bool backward)> not_finite = [](auto, auto, auto, auto) {
    return false;
  };
  // Not 0: sums come out with a last bit of this machine's own, as rounding does on unlike machines.
  std::uint64_t rounding = 0;
};

class SymbolicCompute : public swarm::Compute {
 public:
  SymbolicCompute(SymbolicOptions options, std::shared_ptr<Disk> disk);
  swarm::TaskResult run(const swarm::Task& task) override;
  std::uint64_t state_size(StageId stage) const override { return options_.state_sizes[stage.value()]; }

 private:
  struct State {
    StageId stage;
    std::vector<std::uint32_t> words;  // weights, first moments, second moments
  };
  using Vector = std::vector<std::uint64_t>;

  void init(StageId stage);
  std::uint64_t weights_hash() const;
  std::uint64_t range_hash(const swarm::Range& range) const;
  std::uint64_t mixed(const swarm::Task& task) const;
  Vector contribution(const swarm::Task& task) const;
  void apply(const swarm::Task& task);

  const SymbolicOptions options_;
  std::shared_ptr<Disk> disk_;
  State state_;
  std::map<std::tuple<Iteration, MicrobatchId, PartId>, Vector> pending_;
  std::map<Iteration, Vector> sums_;
  std::map<Iteration, std::vector<std::uint32_t>> results_;
};

}  // namespace tributary::sim
