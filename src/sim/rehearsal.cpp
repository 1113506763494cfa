#include "sim/rehearsal.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "flow/router.h"
#include "sim/checker.h"
#include "sim/conditions.h"
#include "sim/idle.h"
#include "sim/rehearsal_churn.h"
#include "sim/serial_reference.h"
#include "sim/symbolic_compute.h"

namespace tributary::sim {
namespace {

using swarm::TaskKind;

constexpr std::uint64_t kElements = 240;  // of a stage's symbolic vector; only its cuts matter
constexpr std::uint64_t kChunk = 16;
constexpr double kCalm = 3600;  // virtual seconds without a commit after which a rehearsal is given up

bool is_pipeline(TaskKind kind) {
  return kind == TaskKind::kForward || kind == TaskKind::kHead || kind == TaskKind::kBackward;
}

swarm::RunOptions run_options(const Scenario& scenario, const RehearsalOptions& options) {
  swarm::RunOptions run;
  run.stages = scenario.stages();
  run.state_sizes.assign(run.stages + 1u, kElements);
  run.block = 1;
  run.microbatches = scenario.microbatches();
  run.iterations = scenario.iterations + options.warm_up;
  run.payload_bytes = static_cast<std::uint64_t>(scenario.message_bytes);
  run.state_scale = scenario.aggregation_bytes / (8.0 * kElements);
  run.router = scenario.router;
  run.switches = scenario.switches;
  const std::uint32_t voters = scenario.data_nodes() >= 3 ? 3 : 1;
  for (std::uint32_t i = 0; i < voters; ++i) run.voters.push_back(NodeId(i));
  std::map<std::uint16_t, std::uint16_t> relays;
  for (const auto& machine : scenario.machines) relays[machine.stage] += machine.start_at_s <= 0;
  run.replicas_at_start = relays[1];
  for (const auto& [stage, count] : relays)
    if (stage > 0) run.replicas_at_start = std::min(run.replicas_at_start, count);
  run.replicas_at_start = std::max<std::uint16_t>(1, run.replicas_at_start);
  run.wait_at_start = seconds(3);
  run.step = {.learning_rate = 0.01, .min_learning_rate = 0.001, .warmup = 1, .iterations = run.iterations};
  return run;
}

// The detection factor is of deadlines alone, not of the pace of pings and reports.
swarm::PaceOptions pace_options(const Scenario& scenario) {
  swarm::PaceOptions pace;
  const double factor = scenario.detection_factor, floors = factor * scenario.ping_s / to_seconds(pace.ping);
  for (auto* duration : {&pace.suspect_floor, &pace.stuck_floor, &pace.retry_floor, &pace.retry_first})
    *duration = seconds(to_seconds(*duration) * floors);
  pace.ping = seconds(scenario.ping_s);
  pace.report = seconds(scenario.report_s);
  pace.suspect_round_trips *= factor;
  pace.suspect_deviations *= factor;
  return pace;
}

std::int64_t nanoseconds(Time time) { return time.time_since_epoch().count(); }
double since_start(Time time) { return to_seconds(time.time_since_epoch()); }

class Play {
 public:
  Play(const Scenario& scenario, const RehearsalOptions& options)
      : scenario_(scenario),
        options_(options),
        run_(run_options(scenario, options)),
        conditions_(scenario, options.seed),
        world_(world_options()),
        churn_(scenario, specs_, options.seed, world_, conditions_) {
    for (std::uint32_t i = 0; i < scenario.machines.size(); ++i) {
      const auto& machine = scenario.machines[i];
      NodeSpec spec;
      spec.options.run = run_;
      spec.options.self = NodeId(i);
      spec.options.data_node = machine.stage == 0;
      spec.options.stage = StageId(machine.stage);
      spec.options.slots = machine.slots;
      spec.options.chunk_elements = kChunk;
      spec.options.pace = pace_options(scenario);
      spec.slowness = machine.compute_s;
      spec.clock_rate = 1 + machine.clock_ppm * 1e-6;
      spec.store_time = seconds(machine.store_s);
      specs_.push_back(spec);
    }
    if (options.check) {
      checker_.emplace(checker_options());
      checker_->watch(world_);
    }
    churn_.on_crash = [this] { ++current_.crashes; };
    world_.on_applied = [this, check = world_.on_applied](NodeId id, const swarm::Applied& applied) {
      check(id, applied);
      committed(applied.commit);
    };
    world_.on_task = [this](NodeId node, const swarm::Task& task, Time begin, Time end) {
      task_ran(node, task, begin, end);
    };
    world_.on_transfer = [this](NodeId from, NodeId to, const wire::Message& message, Time begin, Time end,
                                Time arrival) { transferred(from, to, message, begin, end, arrival); };
    if (!options.trace) return;
    world_.on_end = [this](NodeId node, const swarm::Node&) {
      const auto now = nanoseconds(world_.now());
      out_.bars.push_back({node, false, kProcessEnds, now, now});
    };
  }

  Rehearsal play() {
    for (std::size_t i = 0; i < specs_.size(); ++i) {
      const double start = scenario_.machines[i].start_at_s;
      if (start <= 0) {
        world_.start(specs_[i]);
      } else {
        world_.at(Time(seconds(start)), [this, i] { world_.start(specs_[i]); });
      }
    }
    churn_.schedule_fixed();
    while (done_ < run_.iterations && !time_is_up() && !broken() && world_.step())
      if (since_start(world_.now()) > last_end_ + kCalm) break;
    if (broken()) {
      out_.trouble = checker_->violation();
    } else if (done_ < run_.iterations && !time_is_up()) {
      out_.trouble = "no iteration was finished for " + std::to_string(static_cast<int>(kCalm)) +
                     " virtual seconds after iteration " + std::to_string(done_);
      for (const auto id : world_.nodes())
        if (const auto why = world_.node(id)->why_waiting(); !why.empty())
          out_.trouble += "; node " + to_string(id) + " waits for " + why;
    }
    out_.virtual_s = since_start(world_.now());
    out_.messages = world_.messages();
    out_.events = world_.events();
    out_.trace_hash = world_.trace_hash();
    out_.counters = world_.counters();
    return std::move(out_);
  }

 private:
  struct Way {  // of one microbatch in the running iteration
    double done_s = 0, compute_s = 0, transfer_s = 0;
  };

  bool time_is_up() const { return scenario_.duration_s > 0 && last_end_ >= scenario_.duration_s; }
  bool broken() const { return checker_ && !checker_->violation().empty(); }

  SymbolicOptions symbolic_options() const {
    SymbolicOptions symbolic;
    symbolic.seed = options_.seed;
    symbolic.stages = run_.stages;
    symbolic.state_sizes = run_.state_sizes;
    return symbolic;
  }

  // Every result is compared with that of one process that nothing disturbs.
  CheckerOptions checker_options() const {
    CheckerOptions options;
    options.run = run_;
    options.most_kept_bytes = std::uint64_t{4} * 8 * 2 * run_.microbatches;
    const double latency = *std::max_element(scenario_.latency_s.begin(), scenario_.latency_s.end());
    options.detection_bound =
        seconds((8 + 40 * latency) * scenario_.detection_factor * std::max(1.0, 10 * scenario_.ping_s) +
                4 * scenario_.churn.delay_s);
    SerialOptions serial;
    serial.stages = run_.stages;
    serial.microbatches = run_.microbatches;
    serial.make_compute = [symbolic = symbolic_options()](StageId) -> std::unique_ptr<swarm::Compute> {
      return std::make_unique<SymbolicCompute>(symbolic, std::make_shared<Disk>());
    };
    serial.step = [run = run_](Iteration iteration, double sum_squares, std::uint32_t used) {
      return swarm::step_parameters(run.step, iteration, sum_squares, used, run.microbatches);
    };
    options.hash_after = [reference = std::make_shared<SerialReference>(std::move(serial))](
                             Iteration iteration, StageId stage) { return reference->hash_after(iteration, stage); };
    return options;
  }

  WorldOptions world_options() {
    WorldOptions world;
    world.bugs = options_.bugs;
    world.seed = options_.seed;
    world.jitter = scenario_.jitter;
    world.latency = [this](NodeId a, NodeId b) { return conditions_.latency(a, b, world_.now()); };
    world.bandwidth = [this](NodeId a, NodeId b) { return conditions_.bandwidth(a, b, world_.now()); };
    world.task_takes = [this](NodeId node, Time begin, Duration work) {
      return conditions_.task_takes(node, begin, work);
    };
    world.beyond_uplink = [this](NodeId from, NodeId to, double bytes, Time begin, Time end) {
      return conditions_.beyond_uplink(from, to, bytes, begin, end);
    };
    world.message_bytes = [this](const wire::Message& message) { return bytes_of(message); };
    world.task_time = [this](const swarm::Task& task) {
      switch (task.kind) {
        case TaskKind::kForward:
        case TaskKind::kHead:
          return seconds(1);
        case TaskKind::kBackward:
          return seconds(scenario_.backward_ratio);
        case TaskKind::kRetract:
          return seconds(task.stage == StageId(0) ? 1 : 1 + scenario_.backward_ratio);
        default:
          return Duration::zero();
      }
    };
    world.make_compute = [symbolic = symbolic_options()](NodeId, std::shared_ptr<Disk> disk) {
      return std::make_unique<SymbolicCompute>(symbolic, std::move(disk));
    };
    return world;
  }

  double bytes_of(const wire::Message& message) {
    const auto part = [](std::uint64_t begin, std::uint64_t end) {
      return static_cast<double>(end - begin) / static_cast<double>(kElements);
    };
    if (const auto* partial = std::get_if<wire::Partial>(&message.body))
      return partial->stage == StageId(0) ? 0 : part(partial->begin, partial->end) * scenario_.aggregation_bytes;
    if (const auto* gathered = std::get_if<wire::Gathered>(&message.body))
      return gathered->stage == StageId(0) ? 0 : part(gathered->begin, gathered->end) * scenario_.aggregation_bytes;
    if (const auto* chunk = std::get_if<wire::StateChunk>(&message.body))
      return part(chunk->begin, chunk->end) * scenario_.state_bytes;
    if (message.payload) return scenario_.message_bytes;
    const auto size = static_cast<double>(wire::encoded_size(message.body));
    out_.control_bytes += size;
    return size;
  }

  bool counts() const { return done_ >= options_.warm_up; }

  void task_ran(NodeId node, const swarm::Task& task, Time begin, Time end) {
    if (options_.trace && end > begin) {
      std::string name = task.kind == TaskKind::kForward ? "F" : task.kind == TaskKind::kHead ? "H" : "B";
      out_.bars.push_back({node, false, name + to_string(task.microbatch), nanoseconds(begin), nanoseconds(end)});
    }
    busy_.push_back({since_start(begin), since_start(end)});
    if (task.kind == TaskKind::kEmbedBackward && task.iteration == Iteration(done_))
      ways_[task.microbatch].done_s = since_start(end);
    if (!is_pipeline(task.kind)) return;
    const double took = to_seconds(end - begin);
    if (counts()) out_.compute_s += took;
    if (task.iteration != Iteration(done_)) return;
    if (computed_.insert({task.microbatch, task.stage, task.kind}).second) {
      ways_[task.microbatch].compute_s += took;
    } else {
      current_.redone_s += took;
    }
  }

  void transferred(NodeId from, NodeId to, const wire::Message& message, Time begin, Time end, Time arrival) {
    const auto* forward = std::get_if<wire::Forward>(&message.body);
    const auto* backward = std::get_if<wire::Backward>(&message.body);
    if (message.payload) out_.payload_bytes += bytes_of(message);
    if (options_.trace && end > begin && message.payload) {
      const auto what = forward    ? "activation " + to_string(forward->microbatch)
                        : backward ? "gradient " + to_string(backward->microbatch)
                                   : std::string(wire::name_of(message.body));
      out_.bars.push_back({from, true, what + " to " + to_string(to), nanoseconds(begin), nanoseconds(end)});
    }
    if (message.payload && !std::holds_alternative<wire::StateChunk>(message.body))
      busy_.push_back({since_start(begin), since_start(arrival)});
    if (!forward && !backward) return;
    const auto& stamp = forward ? forward->stamp : backward->stamp;
    if (stamp.iteration != Iteration(done_)) return;
    const auto microbatch = forward ? forward->microbatch : backward->microbatch;
    const auto part = forward ? forward->part : backward->part;
    if (moved_.insert({microbatch, part, backward != nullptr}).second)
      ways_[microbatch].transfer_s += to_seconds(arrival - begin);
  }

  void committed(const wire::Commit& commit) {
    if (commit.iteration != Iteration(done_)) return;
    const double now = since_start(world_.now());
    if (counts()) record(now, commit);
    if (done_ + 1 == options_.warm_up || options_.warm_up == 0) out_.crash_free_s = now - last_end_;
    ++done_;
    last_end_ = now;
    current_ = {};
    ways_.clear();
    computed_.clear();
    moved_.clear();
    busy_.clear();
    options_.on_progress(done_, run_.iterations);
    if (!counts() || done_ == run_.iterations) return;
    if (done_ == std::max<std::uint64_t>(1, options_.warm_up)) churn_.begin();
    churn_.iteration_begins(out_.crash_free_s);
  }

  void record(double now, const wire::Commit& commit) {
    auto& it = current_;
    it.start_s = last_end_;
    it.duration_s = now - last_end_;
    it.accepted = run_.microbatches - commit.excluded;
    double last = 0, sum = 0;
    for (const auto& [microbatch, way] : ways_) {
      const double done = way.done_s - last_end_;
      last = std::max(last, done);
      sum += done;
      it.compute_s += way.compute_s;
      it.transfer_s += way.transfer_s;
    }
    const auto count = static_cast<double>(std::max<std::size_t>(1, ways_.size()));
    it.compute_s /= count;
    it.transfer_s /= count;
    it.wait_s = sum / count - it.compute_s - it.transfer_s;
    it.last_s = last - sum / count;
    it.end_s = it.duration_s - last;
    const auto idle = longest_gap(std::move(busy_), last_end_, now);
    it.idle_s = idle.end_s - idle.begin_s;
    it.idle_from_s = idle.begin_s - last_end_;
    out_.iterations.push_back(it);
  }

  const Scenario& scenario_;
  const RehearsalOptions& options_;
  const swarm::RunOptions run_;
  Rehearsal out_;
  Conditions conditions_;
  World world_;
  std::vector<NodeSpec> specs_;
  RehearsalChurn churn_;
  std::optional<Checker> checker_;
  std::uint64_t done_ = 0;
  double last_end_ = 0;
  RehearsedIteration current_;
  std::map<MicrobatchId, Way> ways_;
  std::set<std::tuple<MicrobatchId, StageId, TaskKind>> computed_;
  std::set<std::tuple<MicrobatchId, PartId, bool>> moved_;
  std::vector<Span> busy_;  // of the running iteration
};

}  // namespace

double Rehearsal::mean_iteration_s() const {
  double sum = 0;
  for (const auto& iteration : iterations) sum += iteration.duration_s;
  return iterations.empty() ? 0 : sum / static_cast<double>(iterations.size());
}

double Rehearsal::accepted_per_10_s() const {
  double accepted = 0, time = 0;
  for (const auto& iteration : iterations) {
    accepted += iteration.accepted;
    time += iteration.duration_s;
  }
  return time == 0 ? 0 : 10 * accepted / time;
}

double Rehearsal::redone_share() const {
  double redone = 0;
  for (const auto& iteration : iterations) redone += iteration.redone_s;
  return compute_s == 0 ? 0 : redone / compute_s;
}

Result<Rehearsal> rehearse(const Scenario& scenario, const RehearsalOptions& options) {
  if (scenario.router != "earliest-finish" && scenario.router != "planned") {
    auto router = flow::make_router(scenario.router);
    if (!router) return Error{"router: " + router.error().message + ", or \"earliest-finish\""};
  }
  return Play(scenario, options).play();
}

std::string chrome_trace(const Scenario& scenario, const Rehearsal& rehearsal) {
  auto events = nlohmann::json::array();
  for (std::uint32_t i = 0; i < scenario.machines.size(); ++i) {
    const auto& machine = scenario.machines[i];
    const auto name = (machine.stage == 0 ? "data node " : "stage " + std::to_string(machine.stage) + " node ") +
                      std::to_string(i) + (machine.site.empty() ? "" : " (" + machine.site + ")");
    events.push_back({{"ph", "M"}, {"pid", i}, {"name", "process_name"}, {"args", {{"name", name}}}});
    events.push_back({{"ph", "M"}, {"pid", i}, {"tid", 0}, {"name", "thread_name"}, {"args", {{"name", "compute"}}}});
    events.push_back({{"ph", "M"}, {"pid", i}, {"tid", 1}, {"name", "thread_name"}, {"args", {{"name", "uplink"}}}});
  }
  for (const auto& bar : rehearsal.bars)
    events.push_back({{"ph", "X"},
                      {"pid", bar.node.value()},
                      {"tid", bar.uplink ? 1 : 0},
                      {"name", bar.name},
                      {"ts", static_cast<double>(bar.begin_ns) / 1e3},
                      {"dur", static_cast<double>(bar.end_ns - bar.begin_ns) / 1e3}});
  return nlohmann::json{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}}.dump();
}

}  // namespace tributary::sim
