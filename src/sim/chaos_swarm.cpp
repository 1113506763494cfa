#include "sim/chaos_swarm.h"

#include <algorithm>

namespace tributary::sim {
namespace {

void draw_run(Random& random, std::uint64_t iterations, ChaosSwarm& swarm) {
  auto& run = swarm.run;
  run.stages = static_cast<std::uint16_t>(random.between(1, 5));
  run.microbatches = static_cast<std::uint32_t>(random.between(1, 12));
  run.iterations = iterations ? iterations : static_cast<std::uint64_t>(random.between(4, 12));
  run.checkpoint_every = random.chance(0.7) ? static_cast<std::uint64_t>(random.between(1, 4)) : 0;
  swarm.shared_disk = random.chance(0.5);
  run.block = 4;
  for (int i = 0; i <= run.stages; ++i) run.state_sizes.push_back(static_cast<std::uint64_t>(random.between(5, 24)));
  run.wait_at_start = seconds(1);
  run.step = {.learning_rate = 0.01, .min_learning_rate = 0.001, .warmup = 2, .iterations = run.iterations};
  run.most_excluded = 1;
  run.switches.move_relays = swarm.seed % 16 == 0;  // the search for places costs more than all the rest
  static constexpr const char* kLocalRouters[] = {"gwtf", "labels", "swarm"};
  if (swarm.seed % 8 == 5) run.router = kLocalRouters[swarm.seed / 8 % 3];
  Random own(mix64(swarm.seed, 0x6576616c));
  if (own.chance(0.5)) {
    run.evaluate_every = static_cast<std::uint64_t>(own.between(1, 3));
    run.evaluate_batches = static_cast<std::uint32_t>(own.between(1, 4));
  }
}

void draw_nodes(Random& random, ChaosSwarm& swarm) {
  const auto add = [&](bool data_node, std::uint16_t stage) {
    NodeSpec spec;
    auto& o = spec.options;
    o.self = NodeId(static_cast<std::uint32_t>(swarm.nodes.size()));
    o.data_node = data_node;
    o.stage = StageId(stage);
    o.any_stage = random.chance(0.7);
    o.slots = static_cast<std::uint16_t>(random.between(1, 4));
    o.chunk_elements = static_cast<std::uint64_t>(random.between(1, 9));
    spec.slowness = random.chance(0.3) ? 1 + 3 * random.uniform() : 1;
    swarm.nodes.push_back(spec);
  };
  const auto data_nodes = random.chance(0.6) ? 1 : random.between(2, 3);
  const bool big = random.chance(0.05);
  for (int i = 0; i < data_nodes; ++i) add(true, 0);
  for (std::uint16_t stage = 1; stage <= swarm.run.stages; ++stage) {
    const auto replicas = big ? random.between(4, 11) : random.between(1, 4);
    for (int i = 0; i < replicas; ++i) add(false, stage);
  }
}

void draw_voters(Random& random, ChaosSwarm& swarm) {
  std::vector<NodeId> ids;
  for (const auto& spec : swarm.nodes) ids.push_back(spec.options.self);
  random.shuffle(ids);
  const std::size_t voters = ids.size() >= 5 && random.chance(0.3) ? 5 : ids.size() >= 3 && random.chance(0.6) ? 3 : 1;
  swarm.run.voters.assign(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(voters));
  std::sort(swarm.run.voters.begin(), swarm.run.voters.end());
}

}  // namespace

ChaosSwarm draw_swarm(std::uint64_t seed, std::uint64_t iterations, const ChaosModel* model) {
  Random random(mix64(seed, 0x6368616f73));
  ChaosSwarm swarm;
  swarm.seed = seed;
  draw_run(random, iterations, swarm);
  if (model) {
    swarm.run.stages = model->stages;
    swarm.run.microbatches = model->microbatches;
    swarm.run.state_sizes = model->state_sizes;
    swarm.run.block = swarm::RunOptions().block;
  }
  draw_nodes(random, swarm);
  draw_voters(random, swarm);
  for (auto& spec : swarm.nodes) spec.options.run = swarm.run;
  swarm.sites = static_cast<std::uint32_t>(random.between(1, 4));
  swarm.base_latency_s = random.chance(0.3) ? 0.0002 : 0.002 + 0.1 * random.uniform();
  swarm.horizon = seconds(static_cast<double>(random.between(3, 12)));
  swarm.fault_rate = 0.1 + 2 * random.uniform();
  swarm.poison = random.chance(0.3) ? 0.05 : 0;
  swarm.rounding = random.chance(0.35);
  // Slow enough that a death cuts a series of messages in two, and that training goes on while state is fetched.
  if (random.chance(0.4)) swarm.bandwidth_bytes_per_s = 5e5;
  swarm.state_time = random.chance(0.5) ? milliseconds(random.between(5, 50)) : milliseconds(1);
  if (model) {
    swarm.poison = 0;
    swarm.rounding = false;
    swarm.bandwidth_bytes_per_s = 1e9;
    for (auto& spec : swarm.nodes) spec.options.chunk_elements = 4096;
  }
  return swarm;
}

void cut_swarm(const ChaosCut& cut, ChaosSwarm& swarm) {
  swarm.cut = cut;
  swarm.cut.without.clear();
  for (const auto id : cut.without) {
    if (id.value() >= swarm.nodes.size()) continue;
    const auto& voters = swarm.run.voters;
    if (std::find(voters.begin(), voters.end(), id) != voters.end()) continue;
    const auto& options = swarm.nodes[id.value()].options;
    const auto others = std::count_if(swarm.nodes.begin(), swarm.nodes.end(), [&](const auto& spec) {
      return spec.options.self != id && spec.options.stage == options.stage &&
             !swarm.cut.without.contains(spec.options.self);
    });
    if (others > 0) swarm.cut.without.insert(id);
  }
  if (cut.iterations == 0 || cut.iterations >= swarm.run.iterations) return;
  swarm.run.iterations = cut.iterations;
  for (auto& spec : swarm.nodes) spec.options.run.iterations = cut.iterations;
}

Duration ChaosSwarm::latency(NodeId a, NodeId b) const {
  return seconds(a.value() % sites == b.value() % sites ? base_latency_s / 10 : base_latency_s);
}

bool ChaosSwarm::not_finite(Iteration iteration, MicrobatchId microbatch, PartId part, bool backward) const {
  const auto draw = mix64(mix64(seed, iteration.value()), microbatch.value());
  if (static_cast<double>(draw % 10000) >= poison * 10000) return false;
  const bool only_backward = (draw >> 60) % 2 == 1;
  return (draw >> 32) % (run.stages + 2u) == part.value() && (backward || !only_backward);
}

}  // namespace tributary::sim
