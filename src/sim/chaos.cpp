#include "sim/chaos.h"

#include <algorithm>
#include <cstdio>

#include "sim/checker.h"

namespace tributary::sim {
namespace {

struct Swarm {
  swarm::RunOptions run;
  std::vector<NodeSpec> nodes;
  std::uint64_t seed = 0;
  Duration horizon{};     // faults happen before
  double fault_rate = 0;  // a second
  double base_latency_s = 0;
  double poison = 0;  // chance that a microbatch is not finite
  std::uint32_t sites = 1;
};

Swarm draw(const ChaosOptions& options) {
  Random random(mix64(options.seed, 0x6368616f73));
  Swarm s;
  s.seed = options.seed;
  auto& run = s.run;
  run.stages = static_cast<std::uint16_t>(random.between(1, 5));
  run.microbatches = static_cast<std::uint32_t>(random.between(1, 12));
  run.iterations = options.iterations ? options.iterations : static_cast<std::uint64_t>(random.between(4, 12));
  run.checkpoint_every = random.chance(0.7) ? static_cast<std::uint64_t>(random.between(1, 4)) : 0;
  run.shared_checkpoints = random.chance(0.5);
  run.block = 4;
  for (int i = 0; i <= run.stages; ++i) run.state_sizes.push_back(static_cast<std::uint64_t>(random.between(5, 24)));
  run.wait_at_start = seconds(1);
  run.step = {.learning_rate = 0.01, .min_learning_rate = 0.001, .warmup = 2, .iterations = run.iterations};
  run.most_excluded = 1;

  const auto data_nodes = random.chance(0.6) ? 1 : random.between(2, 3);
  const bool big = random.chance(0.05);
  std::uint32_t next = 0;
  const auto add = [&](bool data_node, std::uint16_t stage) {
    NodeSpec spec;
    auto& o = spec.options;
    o.self = NodeId(next++);
    o.data_node = data_node;
    o.stage = StageId(stage);
    o.any_stage = random.chance(0.7);
    o.slots = static_cast<std::uint16_t>(random.between(1, 4));
    o.chunk_elements = static_cast<std::uint64_t>(random.between(3, 9));
    spec.slowness = random.chance(0.3) ? 1 + 3 * random.uniform() : 1;
    s.nodes.push_back(spec);
  };
  for (int i = 0; i < data_nodes; ++i) add(true, 0);
  for (std::uint16_t stage = 1; stage <= run.stages; ++stage) {
    const auto replicas = big ? random.between(4, 11) : random.between(1, 4);
    for (int i = 0; i < replicas; ++i) add(false, stage);
  }
  std::vector<NodeId> ids;
  for (const auto& spec : s.nodes) ids.push_back(spec.options.self);
  random.shuffle(ids);
  const std::size_t voters = ids.size() >= 5 && random.chance(0.3) ? 5 : ids.size() >= 3 && random.chance(0.6) ? 3 : 1;
  run.voters.assign(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(voters));
  std::sort(run.voters.begin(), run.voters.end());
  for (auto& spec : s.nodes) spec.options.run = run;

  s.sites = static_cast<std::uint32_t>(random.between(1, 4));
  s.base_latency_s = random.chance(0.3) ? 0.0002 : 0.002 + 0.1 * random.uniform();
  s.horizon = seconds(random.between(3, 12));
  s.fault_rate = options.faults ? 0.1 + 2 * random.uniform() : 0;
  s.poison = random.chance(0.25) ? 0.02 : 0;
  return s;
}

// Draws and schedules what happens to machines before the horizon.
class Faults {
 public:
  Faults(World& world, const Swarm& swarm, bool log)
      : world_(world), swarm_(swarm), random_(mix64(swarm.seed, 0x6661756c74)), log_(log) {
    for (double t = 0.2; swarm.fault_rate > 0;) {
      t += random_.exponential(1 / swarm.fault_rate);
      if (seconds(t) >= swarm.horizon) break;
      world_.at(Time(seconds(t)), [this] { strike(); });
    }
    world_.at(Time(swarm.horizon), [this] { heal(); });
  }
  std::uint64_t crashes() const { return crashes_; }

 private:
  const NodeSpec& spec_of(NodeId id) const { return swarm_.nodes[id.value()]; }
  void say(const char* what, NodeId id) const {
    if (log_) std::printf("%9.4f s  %-8s node %u\n", to_seconds(world_.now().time_since_epoch()), what, id.value());
  }

  void crash(NodeId id) {
    say("crash", id);
    world_.crash(id);
    ++crashes_;
    // Soon enough to be back within the detection time, or much later, or only when all is healed.
    const double away = random_.chance(0.3) ? 0.05 + 0.3 * random_.uniform() : random_.exponential(2);
    if (random_.chance(0.8))
      world_.at(world_.now() + seconds(away), [this, id] {
        if (!world_.running(id) && !world_.exits().contains(id)) {
          say("restart", id);
          world_.start(spec_of(id));
        }
      });
  }

  void strike() {
    const auto ids = world_.nodes();
    if (ids.empty()) return;
    const auto id = random_.pick(ids);
    switch (random_.below(10)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return crash(id);
      case 4: {  // two at once, often neighbours in the pipeline
        crash(id);
        const auto rest = world_.nodes();
        if (!rest.empty()) crash(random_.pick(rest));
        return;
      }
      case 5: {
        say("freeze", id);
        world_.freeze(id);
        world_.at(world_.now() + seconds(0.1 + random_.exponential(1.5)), [this, id] {
          say("thaw", id);
          world_.thaw(id);
        });
        return;
      }
      case 6: {  // asymmetric: one direction of one pair
        const auto other = random_.pick(ids);
        if (other == id) return;
        say("block", id);
        world_.block(id, other, random_.chance(0.3));
        world_.at(world_.now() + seconds(random_.exponential(2)), [this] { world_.heal_all(); });
        return;
      }
      case 7: {  // a partition of the swarm
        std::vector<NodeId> side;
        for (const auto node : ids)
          if (random_.chance(0.4)) side.push_back(node);
        say("partition", id);
        for (const auto a : ids)
          for (const auto b : ids) {
            const bool inside_a = std::find(side.begin(), side.end(), a) != side.end();
            const bool inside_b = std::find(side.begin(), side.end(), b) != side.end();
            if (inside_a != inside_b) world_.block(a, b, false);
          }
        world_.at(world_.now() + seconds(random_.exponential(2)), [this] { world_.heal_all(); });
        return;
      }
      case 8: {
        const auto& voters = swarm_.run.voters;
        if (std::find(voters.begin(), voters.end(), id) != voters.end()) return crash(id);
        say("leave", id);
        return world_.ask_to_leave(id);
      }
      default: {  // whoever leads
        for (const auto node : ids)
          if (world_.node(node)->leading()) return crash(node);
        return;
      }
    }
  }

  void heal() {
    world_.heal_all();
    for (const auto& spec : swarm_.nodes) {
      const auto id = spec.options.self;
      if (world_.frozen(id)) world_.thaw(id);
      const auto exit = world_.exits().find(id);
      const bool over = exit != world_.exits().end() && exit->second == "finished";
      if (!world_.running(id) && !over) {
        say("restart", id);
        world_.start(spec);
      }
    }
  }

  World& world_;
  const Swarm& swarm_;
  Random random_;
  bool log_;
  std::uint64_t crashes_ = 0;
};

}  // namespace

ChaosResult run_chaos(const ChaosOptions& options) {
  const auto swarm = draw(options);
  SymbolicOptions symbolic{options.seed, swarm.run.stages, swarm.run.state_sizes, {}};
  symbolic.not_finite = [&swarm](Iteration i, MicrobatchId m, PartId p) {
    const auto draw = mix64(mix64(swarm.seed, i.value()), m.value());
    return static_cast<double>(draw % 10000) < swarm.poison * 10000 &&
           (draw >> 32) % (swarm.run.stages + 2u) == p.value();
  };
  WorldOptions world_options;
  world_options.seed = options.seed;
  world_options.bugs = options.bugs;
  world_options.shared_disk = swarm.run.shared_checkpoints;
  world_options.encode_messages = options.seed % 8 == 0;
  world_options.latency = [&swarm](NodeId a, NodeId b) {
    const bool near = a.value() % swarm.sites == b.value() % swarm.sites;
    return seconds(near ? swarm.base_latency_s / 10 : swarm.base_latency_s);
  };
  world_options.task_time = [](const swarm::Task& task) {
    switch (task.kind) {
      case swarm::TaskKind::kForward:
        return milliseconds(20);
      case swarm::TaskKind::kBackward:
        return milliseconds(40);
      case swarm::TaskKind::kHead:
        return milliseconds(15);
      case swarm::TaskKind::kSave:
      case swarm::TaskKind::kLoad:
        return milliseconds(30);
      default:
        return milliseconds(1);
    }
  };
  world_options.make_compute = [&](NodeId id, std::shared_ptr<Disk> disk) -> std::unique_ptr<swarm::Compute> {
    if (options.make_compute) return options.make_compute(id, disk);
    return std::make_unique<SymbolicCompute>(symbolic, std::move(disk));
  };

  World world(world_options);
  Checker checker(swarm.run, symbolic);
  world.on_event = [&](NodeId id, const swarm::Node& node) { checker.after_event(id, node); };
  world.on_applied = [&](NodeId id, const swarm::Applied& applied) {
    checker.applied(id, applied);
    if (options.log)
      std::printf("%9.4f s  commit   iteration %llu at node %u stage %u\n", to_seconds(world.now().time_since_epoch()),
                  static_cast<unsigned long long>(applied.commit.iteration.value()), id.value(), applied.stage.value());
  };
  Random random(mix64(options.seed, 0x7374617274));
  for (const auto& spec : swarm.nodes)
    world.at(Time(seconds(0.3 * random.uniform())), [&world, &spec] { world.start(spec); });
  Faults faults(world, swarm, options.log);

  // After the faults, progress within a bound that follows from the detector's settings and the links; then the end.
  const double calm_bound_s = 40 + 60 * swarm.base_latency_s * (swarm.run.stages + 2);
  Time progress_at(swarm.horizon);
  std::uint64_t progress = 0;
  Time finished_at{};
  const auto over = [&] {
    // Once most voters have finished there is nobody to tell those who were cut off; that is no fault of the protocol.
    std::size_t finished = 0;
    for (const auto voter : swarm.run.voters) {
      const auto exit = world.exits().find(voter);
      finished += exit != world.exits().end() && exit->second == "finished";
    }
    const bool told = finished > swarm.run.voters.size() / 2 && world.now() >= finished_at + seconds(10);
    if (finished <= swarm.run.voters.size() / 2) finished_at = world.now();
    return world.now() >= Time(swarm.horizon) && (told || world.nodes().empty());
  };
  ChaosResult result;
  result.nodes = swarm.nodes.size();
  while (!over() && checker.violation().empty()) {
    if (!world.step()) {
      result.violation = "nothing is left to happen, and the run is not over";
      break;
    }
    const auto now_progress = checker.newest() + checker.commits() + world.exits().size();
    if (now_progress != progress || world.now() < Time(swarm.horizon)) {
      progress = now_progress;
      progress_at = std::max(world.now(), Time(swarm.horizon));
    }
    if (world.now() > progress_at + seconds(calm_bound_s)) {
      result.violation = "no commit within " + std::to_string(calm_bound_s) + " s after the faults stopped";
      for (const auto id : world.nodes()) {
        const auto why = world.node(id)->why_waiting();
        if (!why.empty()) result.violation += "; node " + to_string(id) + " waits for " + why;
        if (options.log) std::printf("%s", world.node(id)->describe().c_str());
      }
    }
    if (!result.violation.empty()) break;
  }
  if (!checker.violation().empty()) result.violation = checker.violation();
  if (result.violation.empty() && checker.newest() < swarm.run.iterations)
    result.violation = "ended before the last iteration";
  result.trace_hash = world.trace_hash();
  result.events = world.events();
  result.messages = world.messages();
  result.virtual_s = to_seconds(world.now().time_since_epoch());
  result.iterations = checker.newest();
  result.crashes = faults.crashes();
  result.counters = world.counters();
  return result;
}

}  // namespace tributary::sim
