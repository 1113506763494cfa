// How long a flow stands still when a relay on it dies: from the death to the first payload that a stand-in hands on
// for a microbatch of the dead one, in the simulated world. bench_sim_recovery [DEATHS]; the bound is 0.5 s + 4 round
// trips.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <vector>

#include "sim/symbolic_compute.h"
#include "sim/world.h"

namespace {

using namespace tributary;

constexpr std::uint16_t kStages = 3;
constexpr std::uint32_t kReplicas = 2;
constexpr std::uint32_t kMicrobatches = 12;

enum class Death { kKilled, kBlackHoled };

struct Case {
  Duration round_trip;
  Death death;
  std::uint64_t seed;
};

swarm::RunOptions run_options() {
  swarm::RunOptions run;
  run.stages = kStages;
  run.state_sizes.assign(kStages + 1, 12);
  run.block = 4;
  run.microbatches = kMicrobatches;
  run.iterations = 6;
  run.wait_at_start = seconds(1);
  run.voters = {NodeId(0)};
  return run;
}

// A relay's microbatches that it has been sent and has not finished, as of the death.
class Flow {
 public:
  Flow(const Case& c, const swarm::RunOptions& run) : case_(c), run_(run), random_(mix64(c.seed, 17)) {
    victim_ = NodeId(1 + static_cast<std::uint32_t>(random_.below(kStages * kReplicas)));
    sim::WorldOptions options;
    options.seed = c.seed;
    options.latency = [half = c.round_trip / 2](NodeId, NodeId) { return half; };
    options.task_time = [](const swarm::Task& task) {
      return milliseconds(task.kind == swarm::TaskKind::kBackward  ? 40
                          : task.kind == swarm::TaskKind::kForward ? 20
                                                                   : 1);
    };
    sim::SymbolicOptions symbolic;
    symbolic.seed = c.seed;
    symbolic.stages = run.stages;
    symbolic.state_sizes = run.state_sizes;
    options.make_compute = [symbolic](NodeId, std::shared_ptr<sim::Disk> disk) {
      return std::make_unique<sim::SymbolicCompute>(symbolic, std::move(disk));
    };
    world_.emplace(std::move(options));
    world_->on_send = [this](NodeId from, NodeId to, const wire::Message& message) { sent(from, to, message); };
  }

  // Empty: the victim had nothing unfinished.
  std::optional<Duration> measure() {
    for (std::uint32_t id = 0; id <= kStages * kReplicas; ++id) {
      swarm::NodeOptions o;
      o.run = run_;
      o.self = NodeId(id);
      o.data_node = id == 0;
      o.stage = StageId(id == 0 ? 0 : static_cast<std::uint16_t>(1 + (id - 1) / kReplicas));
      o.any_stage = false;
      world_->start({o, 1});
    }
    while (!moved_ && world_->now() < Time(seconds(120)) && world_->step()) {
    }
    if (!moved_) return std::nullopt;
    return *moved_ - died_;
  }

 private:
  void sent(NodeId from, NodeId to, const wire::Message& message) {
    const auto* forward = std::get_if<wire::Forward>(&message.body);
    const auto* backward = std::get_if<wire::Backward>(&message.body);
    if (!forward && !backward) return;
    const auto stamp = forward ? forward->stamp : backward->stamp;
    const auto microbatch = forward ? forward->microbatch : backward->microbatch;
    if (stamp.iteration != Iteration(3)) return;
    if (died_ == Time{}) {
      if (to == victim_) unfinished_[microbatch] = true;
      if (from == victim_ && backward) unfinished_[microbatch] = false;
      if (to == victim_ && !scheduled_ && unfinished_.size() > 1) {
        scheduled_ = true;
        world_->at(world_->now() + case_.round_trip / 2 + milliseconds(random_.between(1, 60)), [this] { die(); });
      }
      return;
    }
    const auto stage = (victim_.value() - 1) / kReplicas;
    const bool stand_in = from != victim_ && from.value() > 0 && (from.value() - 1) / kReplicas == stage;
    const auto at = unfinished_.find(microbatch);
    if (!moved_ && stand_in && at != unfinished_.end() && at->second) moved_ = world_->now();
  }
  void die() {
    died_ = world_->now();
    if (case_.death == Death::kKilled) return world_->crash(victim_);
    for (std::uint32_t id = 0; id <= kStages * kReplicas; ++id) {
      if (NodeId(id) == victim_) continue;
      world_->block(NodeId(id), victim_, true);
      world_->block(victim_, NodeId(id), true);
    }
  }

  const Case case_;
  const swarm::RunOptions run_;
  Random random_;
  NodeId victim_;
  std::optional<sim::World> world_;
  std::map<MicrobatchId, bool> unfinished_;
  bool scheduled_ = false;
  Time died_{};
  std::optional<Time> moved_;
};

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t deaths = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 200;
  const auto run = run_options();
  bool within = true;
  std::printf("%-12s %10s %8s %10s %10s %10s\n", "death", "round trip", "deaths", "median", "95 %", "bound");
  for (const auto death : {Death::kKilled, Death::kBlackHoled}) {
    for (const int round_trip_ms : {0, 50, 200}) {
      std::vector<double> times;
      for (std::uint64_t seed = 1; seed <= deaths; ++seed) {
        const auto time = Flow({milliseconds(round_trip_ms), death, seed}, run).measure();
        if (time) times.push_back(to_seconds(*time));
      }
      if (times.empty()) return 1;
      std::sort(times.begin(), times.end());
      const double bound = 0.5 + 4 * round_trip_ms * 1e-3;
      const double median = times[times.size() / 2];
      std::printf("%-12s %7d ms %8zu %8.3f s %8.3f s %8.3f s\n", death == Death::kKilled ? "killed" : "black hole",
                  round_trip_ms, times.size(), median, times[times.size() * 95 / 100], bound);
      within = within && median < bound && times.size() * 10 >= deaths * 5;
    }
  }
  std::printf(within ? "every median is within its bound\n" : "a median is over its bound, or deaths were missed\n");
  return within ? 0 : 1;
}
