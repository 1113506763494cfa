#include "sim/chaos.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "sim/chaos_swarm.h"
#include "sim/checker.h"
#include "sim/faults.h"
#include "sim/serial_reference.h"

namespace tributary::sim {
namespace {

Duration task_time(const ChaosSwarm& swarm, const swarm::Task& task) {
  switch (task.kind) {
    case swarm::TaskKind::kForward:
      return milliseconds(20);
    case swarm::TaskKind::kBackward:
      return milliseconds(40);
    case swarm::TaskKind::kHead:
      return milliseconds(15);
    case swarm::TaskKind::kReadState:
    case swarm::TaskKind::kWriteState:
      return swarm.state_time;
    case swarm::TaskKind::kSave:
    case swarm::TaskKind::kLoad:
      return milliseconds(30);
    default:
      return milliseconds(1);
  }
}

SymbolicOptions symbolic_options(const ChaosSwarm& swarm) {
  SymbolicOptions options;
  options.seed = swarm.seed;
  options.stages = swarm.run.stages;
  options.state_sizes = swarm.run.state_sizes;
  options.not_finite = [&swarm](Iteration i, MicrobatchId m, PartId p, bool backward) {
    return swarm.not_finite(i, m, p, backward);
  };
  return options;
}

WorldOptions world_options(const ChaosSwarm& swarm, const ChaosOptions& options) {
  WorldOptions world;
  world.seed = swarm.seed;
  world.bugs = options.bugs;
  world.shared_disk = swarm.shared_disk;
  world.encode_messages = swarm.seed % 8 == 0;
  world.latency = [&swarm](NodeId a, NodeId b) { return swarm.latency(a, b); };
  world.bandwidth = [&swarm](NodeId, NodeId) { return swarm.bandwidth_bytes_per_s; };
  world.task_time = [&swarm](const swarm::Task& task) { return task_time(swarm, task); };
  if (options.model) {
    world.make_compute = [model = options.model](NodeId, std::shared_ptr<Disk> disk) {
      return model->make_compute(std::move(disk));
    };
    return world;
  }
  world.make_compute = [&swarm, symbolic = symbolic_options(swarm)](NodeId id, std::shared_ptr<Disk> disk) {
    auto own = symbolic;
    if (swarm.rounding) own.rounding = mix64(swarm.seed, id.value() + 1);
    return std::make_unique<SymbolicCompute>(own, std::move(disk));
  };
  return world;
}

CheckerOptions checker_options(const ChaosSwarm& swarm, const ChaosModel* model) {
  CheckerOptions options;
  options.run = swarm.run;
  options.most_kept_bytes = std::uint64_t{4} * (model ? model->most_payload_bytes : 8) * 2 * swarm.run.microbatches;
  // Two deadlines of a peer not measured yet, and the decision's own way through the log.
  options.detection_bound = seconds(8 + 40 * swarm.base_latency_s);
  if (swarm.rounding) return options;
  SerialOptions serial;
  serial.stages = swarm.run.stages;
  serial.microbatches = swarm.run.microbatches;
  serial.evaluate_batches = swarm.run.evaluate_batches;
  serial.make_compute = [model, symbolic = symbolic_options(swarm)](StageId) -> std::unique_ptr<swarm::Compute> {
    if (model) return model->make_compute(std::make_shared<Disk>());
    return std::make_unique<SymbolicCompute>(symbolic, std::make_shared<Disk>());
  };
  serial.step = [run = swarm.run](Iteration iteration, double sum_squares, std::uint32_t used) {
    return swarm::step_parameters(run.step, iteration, sum_squares, used, run.microbatches);
  };
  const auto reference = std::make_shared<SerialReference>(std::move(serial));
  options.hash_after = [reference](Iteration iteration, StageId stage) {
    return reference->hash_after(iteration, stage);
  };
  options.held_out_before = [reference](Iteration iteration) { return reference->held_out_before(iteration); };
  return options;
}

// Runs until the swarm is done, or a rule is broken, or nothing moves although nothing disturbs it any more.
class Runner {
 public:
  Runner(World& world, Checker& checker, const ChaosSwarm& swarm, bool log)
      : world_(world),
        checker_(checker),
        swarm_(swarm),
        log_(log),
        // Follows from the detector's settings and the links.
        calm_bound_(seconds(40 + 60 * swarm.base_latency_s * (swarm.run.stages + 2))),
        progress_at_(swarm.horizon) {}

  std::string run() {
    while (checker_.violation().empty() && !over()) {
      look();
      if (!world_.step()) return "nothing is left to happen, and the run is not over";
      if (stalled()) return stall();
    }
    if (!checker_.violation().empty()) return checker_.violation();
    look();
    return checker_.newest() < swarm_.run.iterations ? "ended before the last iteration" : "";
  }
  double recovery_s() const { return recovery_s_; }
  double calm_bound_s() const { return to_seconds(calm_bound_); }

 private:
  // Looks whether something was committed after all trouble.
  void look() {
    if (recovered_ || world_.now() < Time(swarm_.horizon)) {
      if (!recovered_) commits_ = checker_.commits();
      return;
    }
    if (checker_.commits() == commits_) return;
    recovered_ = true;
    recovery_s_ = to_seconds(world_.now() - Time(swarm_.horizon));
  }
  bool over() {
    if (world_.now() < Time(swarm_.horizon)) return false;
    // Once most voters have finished there is nobody to tell those who were cut off; that is no fault of the protocol.
    std::size_t finished = 0;
    for (const auto voter : swarm_.run.voters) {
      const auto exit = world_.exits().find(voter);
      finished += exit != world_.exits().end() && exit->second == "finished";
    }
    const bool most = finished > swarm_.run.voters.size() / 2;
    if (!most) finished_at_ = world_.now();
    if (most && world_.now() >= finished_at_ + seconds(10)) return true;
    return checker_.newest() >= swarm_.run.iterations && world_.nodes().empty();
  }
  bool stalled() {
    const auto progress = checker_.newest() + checker_.commits() + world_.exits().size();
    if (progress != progress_ || world_.now() < Time(swarm_.horizon)) {
      progress_ = progress;
      progress_at_ = std::max(world_.now(), Time(swarm_.horizon));
    }
    return world_.now() > progress_at_ + calm_bound_;
  }
  std::string stall() const {
    auto text = "no commit within " + std::to_string(to_seconds(calm_bound_)) + " s after the faults stopped";
    for (const auto id : world_.nodes()) {
      const auto why = world_.node(id)->why_waiting();
      if (!why.empty()) text += "; node " + to_string(id) + " waits for " + why;
      if (log_) std::printf("%s", world_.node(id)->describe().c_str());
    }
    return text;
  }

  World& world_;
  Checker& checker_;
  const ChaosSwarm& swarm_;
  const bool log_;
  const Duration calm_bound_;
  Time progress_at_;
  std::uint64_t progress_ = 0;
  Time finished_at_{};
  std::uint64_t commits_ = 0;
  bool recovered_ = false;
  double recovery_s_ = 0;
};

}  // namespace

ChaosResult run_chaos(const ChaosOptions& options) {
  auto drawn = draw_swarm(options.seed, options.iterations, options.model);
  cut_swarm(options.cut, drawn);
  return run_chaos(options, drawn);
}

ChaosResult run_chaos(const ChaosOptions& options, const ChaosSwarm& swarm) {
  World world(world_options(swarm, options));
  Checker checker(checker_options(swarm, options.model));
  checker.watch(world);
  if (options.log) {
    world.on_applied = [&world, check = world.on_applied](NodeId id, const swarm::Applied& applied) {
      check(id, applied);
      std::printf("%9.4f s  commit    iteration %llu at node %u stage %u\n", to_seconds(world.now().time_since_epoch()),
                  static_cast<unsigned long long>(applied.commit.iteration.value()), id.value(), applied.stage.value());
    };
  }
  Random random(mix64(swarm.seed, 0x7374617274));
  for (const auto& spec : swarm.nodes) {
    const auto at = seconds(options.faults ? 0.3 * random.uniform() : 0);
    if (!swarm.cut.without.contains(spec.options.self)) world.at(Time(at), [&world, &spec] { world.start(spec); });
  }
  Faults faults(world, swarm, {options.faults, options.log});
  world.on_send = [&faults](NodeId from, NodeId, const wire::Message& message) { faults.sent(from, message); };
  world.on_exit = [&faults](NodeId id, const swarm::Exit& exit) { faults.ended(id, exit); };

  ChaosResult result;
  Runner runner(world, checker, swarm, options.log);
  result.violation = runner.run();
  result.recovery_s = runner.recovery_s();
  result.calm_bound_s = runner.calm_bound_s();
  result.strikes = faults.strikes();
  result.nodes = swarm.nodes.size();
  result.trace_hash = world.trace_hash();
  result.events = world.events();
  result.messages = world.messages();
  result.virtual_s = to_seconds(world.now().time_since_epoch());
  result.iterations = checker.newest();
  result.evaluations = checker.evaluations();
  result.crashes = faults.crashes();
  result.counters = world.counters();
  return result;
}

std::string replay_command(std::uint64_t seed) {
  return "tributary sim chaos --seed " + std::to_string(seed) + " --log";
}

std::string replay_command(std::uint64_t seed, const ChaosCut& cut) {
  if (!cut.own_draws) return replay_command(seed);
  const auto list = [](const auto& items, auto&& number) {
    std::string out;
    for (const auto& item : items) out += (out.empty() ? "" : ",") + std::to_string(number(item));
    return out;
  };
  auto command = "tributary sim chaos --seed " + std::to_string(seed) + " --strikes ";
  const auto strikes = cut.strikes ? list(*cut.strikes, [](std::uint32_t number) { return number; }) : "all";
  command += strikes.empty() ? "none" : strikes;
  if (!cut.without.empty()) command += " --without " + list(cut.without, [](NodeId id) { return id.value(); });
  if (cut.iterations > 0) command += " --iterations " + std::to_string(cut.iterations);
  return command + " --log";
}

Result<ChaosCut> parse_cut(const std::string& strikes, const std::string& without, std::uint64_t iterations) {
  ChaosCut cut;
  cut.iterations = iterations;
  cut.own_draws = !strikes.empty();
  const auto numbers = [](const std::string& text, auto&& take) {
    for (std::size_t at = 0; at <= text.size();) {
      const auto comma = std::min(text.find(',', at), text.size());
      std::uint32_t number = 0;
      const auto parsed = std::from_chars(text.data() + at, text.data() + comma, number);
      if (parsed.ec != std::errc() || parsed.ptr != text.data() + comma) return false;
      take(number);
      at = comma + 1;
    }
    return true;
  };
  if (cut.own_draws && strikes != "all") {
    auto& only = cut.strikes.emplace();
    if (strikes != "none" && !numbers(strikes, [&](std::uint32_t number) { only.insert(number); }))
      return Error{"--strikes must be all, none, or numbers with commas between them, as in 2,5"};
  }
  if (!without.empty() && !numbers(without, [&](std::uint32_t number) { cut.without.insert(NodeId(number)); }))
    return Error{"--without must be numbers of nodes with commas between them, as in 3,4"};
  if (!cut.own_draws && (!cut.without.empty() || iterations > 0))
    return Error{"--without and --iterations need --strikes: all, none, or a list"};
  return cut;
}

}  // namespace tributary::sim
