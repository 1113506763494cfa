// What a seed means: the swarm, its links and machines, and how it is to be troubled.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "sim/world.h"

namespace tributary::sim {

// What is computed, if it is not the symbolic mathematics: a model's cut and sizes, and the way to make a node's
// computation, whose checkpoints go where `disk` (one a machine, or one for all) leads to.
struct ChaosModel {
  std::uint16_t stages = 1;
  std::uint32_t microbatches = 1;
  std::vector<std::uint64_t> state_sizes;  // by stage, 0..S
  std::uint64_t most_payload_bytes = 0;    // of an activation or gradient
  std::function<std::unique_ptr<swarm::Compute>(std::shared_ptr<Disk> disk)> make_compute;
};

// What of a drawn swarm and its troubles is left out, to find the least that still fails.
struct ChaosCut {
  // Each strike draws from a generator of its own, so that the others stay as they are when one is left out. Off: all
  // from one, and nothing may be left out.
  bool own_draws = false;
  std::optional<std::set<std::uint32_t>> strikes;  // only these, by their place in time from 0; all if not given
  std::set<NodeId> without;                        // never start; not voters, not the last of a stage
  std::uint64_t iterations = 0;                    // at most; 0: as drawn
};

struct ChaosSwarm {
  std::uint64_t seed = 0;
  swarm::RunOptions run;
  std::vector<NodeSpec> nodes;  // node i has id i
  Duration horizon{};           // faults happen before
  double fault_rate = 0;        // a second
  double bandwidth_bytes_per_s = 1e9;
  Duration state_time{};      // reading or writing a chunk of state
  double base_latency_s = 0;  // one way, between sites; a tenth of it within one
  std::uint32_t sites = 1;
  bool shared_disk = false;  // all machines keep their checkpoints on one
  double poison = 0;         // chance that a microbatch has a result that is not finite
  bool rounding = false;     // sums differ in their last bits between machines: replicas must agree all the same
  ChaosCut cut;

  Duration latency(NodeId a, NodeId b) const;
  bool not_finite(Iteration iteration, MicrobatchId microbatch, PartId part, bool backward) const;
};

// A function of its arguments alone. `iterations` 0: drawn too. With a model, its cut and sizes are not drawn, and all
// results are finite and free of rounding.
ChaosSwarm draw_swarm(std::uint64_t seed, std::uint64_t iterations, const ChaosModel* model = nullptr);
// Leaves out what can be left out and says so in swarm.cut.
void cut_swarm(const ChaosCut& cut, ChaosSwarm& swarm);

}  // namespace tributary::sim
