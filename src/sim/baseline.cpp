#include "sim/baseline.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>

#include "base/check.h"
#include "base/random.h"
#include "flow/planned.h"
#include "sim/baseline_policies.h"
#include "sim/dealing.h"

namespace tributary::sim {
namespace {

constexpr double kPublishedTimeOut = 20;  // s
constexpr double kLeastDetection = 0.5;   // s; ours: three mean round trips, at least this
constexpr int kSearchTrials = 2500;
constexpr int kWarmUp = 3;

class Baseline {
 public:
  Baseline(const Scenario& scenario, const BaselineOptions& options)
      : scenario_(scenario), options_(options), random_(options.seed) {
    const auto most = static_cast<std::int32_t>(scenario.microbatches_per_data_node);
    ours_ = options.policy == "ours";
    for (std::int32_t launched = ours_ ? 1 : most; launched <= most; ++launched)
      worlds_.push_back(std::make_unique<flow::PredictWorld>(predict_world(scenario, launched)));
    for (const auto& world : worlds_) predictors_.push_back(std::make_unique<flow::Predictor>(*world));
    away_until_.assign(world().nodes.size(), 0);
    double sum = 0;
    for (const double latency : world().latency_s) sum += latency;
    const auto pairs = static_cast<double>(world().latency_s.size());
    detection_s_ = ours_ ? std::max(kLeastDetection, 3 * 2 * sum / pairs) : kPublishedTimeOut;
    if (ours_) planned_ = std::make_unique<PlanPolicy>(world());
    if (options.policy == "gwtf") flows_ = std::make_unique<FlowPolicy>(world());
    const std::map<std::string, SwarmKind> kinds = {{"swarm", SwarmKind::kGreedy},
                                                    {"swarm-refusing", SwarmKind::kRefusing},
                                                    {"swarm-round-robin", SwarmKind::kRoundRobin}};
    if (const auto kind = kinds.find(options.policy); kind != kinds.end())
      swarm_ = std::make_unique<SwarmPolicy>(world(), kind->second, mix64(options.seed, 1));
    make_plan();
  }

  BaselineRun run() {
    BaselineRun result;
    for (int k = 0; k < kWarmUp; ++k) result.crash_free_s = iterate({}).duration_s;
    double now = 0;
    for (std::uint64_t k = 0; k < options_.iterations; ++k) {
      std::vector<std::uint32_t> dead;
      for (std::uint32_t id = 0; id < away_until_.size(); ++id)
        if (away_until_[id] > now) dead.push_back(id);
      flow::PredictFaults faults = draw_crashes(dead, result.crash_free_s);
      const BaselineIteration iteration = iterate(faults);
      if (options_.trace) result.traces.push_back(last_);
      for (const auto& crash : faults.crashes)
        if (crash.at_s < iteration.duration_s) away_until_[crash.node] = now + crash.at_s + absence(crash.node);
      now += iteration.duration_s;
      result.iterations.push_back(iteration);
      if (!std::isfinite(iteration.duration_s)) break;
    }
    return result;
  }

 private:
  const flow::PredictWorld& world() const { return *worlds_.back(); }

  // Exponential, then the state over its best link.
  double absence(std::uint32_t id) {
    double best = 0;
    for (std::uint32_t from = 0; from < world().nodes.size(); ++from)
      if (from != id) best = std::max(best, world().bandwidth(from, id));
    return random_.exponential(scenario_.churn.away_mean_s) + (best > 0 ? scenario_.state_bytes / best : 0);
  }

  flow::PredictFaults draw_crashes(const std::vector<std::uint32_t>& dead, double crash_free_s) {
    flow::PredictFaults faults;
    faults.dead = dead;
    std::vector<int> live(world().stages() + 1, 0);
    for (std::uint32_t id = 0; id < world().nodes.size(); ++id) {
      if (std::find(dead.begin(), dead.end(), id) != dead.end()) continue;
      ++live[world().nodes[id].stage];
      if (world().nodes[id].stage > 0 && random_.chance(options_.churn))
        faults.crashes.push_back({crash_free_s * random_.uniform(), id});
    }
    std::sort(faults.crashes.begin(), faults.crashes.end(),
              [](const auto& a, const auto& b) { return a.at_s != b.at_s ? a.at_s < b.at_s : a.node < b.node; });
    std::erase_if(faults.crashes, [&](const auto& crash) {
      int& left = live[world().nodes[crash.node].stage];
      return left == 1 || (--left, false);
    });
    return faults;
  }

  void make_plan() {
    std::uint32_t id = 0;
    for (std::uint32_t k = 0; k < scenario_.microbatches_per_data_node; ++k)
      for (std::uint32_t d = 0; d < world().nodes.size(); ++d)
        if (world().nodes[d].stage == 0) plan_.microbatches.push_back({id++, d, {}});
    replacements_.resize(world().stages() + 1);
    for (std::uint32_t node = 0; node < world().nodes.size(); ++node)
      if (const auto stage = world().nodes[node].stage; stage > 0) replacements_[stage].push_back(node);
    for (auto& microbatch : plan_.microbatches)
      for (std::uint32_t s = 1; s <= world().stages(); ++s)
        microbatch.path.push_back(replacements_[s][microbatch.id % replacements_[s].size()]);
    if (!ours_) return;
    plan_.shares = flow::AggregationShares::kUneven;
    plan_.aggregate_per_stage = true;
  }

  std::vector<std::uint32_t> live_relays(std::uint32_t stage, const std::vector<std::uint32_t>& dead) const {
    std::vector<std::uint32_t> live;
    for (const std::uint32_t id : replacements_[stage])
      if (std::find(dead.begin(), dead.end(), id) == dead.end()) live.push_back(id);
    return live;
  }

  BaselineIteration iterate(flow::PredictFaults faults) {
    faults.detection_s = detection_s_;
    faults.recovery = swarm_ ? flow::BackwardRecovery::kRestart : flow::BackwardRecovery::kRepair;
    faults.exactly_once = ours_;
    faults.replacements = replacements_;
    if (flows_) flows_->set_flows(solve_flows(faults.dead), plan_.microbatches.size());
    std::size_t world_index = worlds_.size() - 1;
    if (ours_) world_index = search(faults);
    flow::PredictPolicy* policy = nullptr;
    if (swarm_) policy = swarm_.get();
    if (flows_) policy = flows_.get();
    if (ours_) policy = planned_.get();
    last_ = {};
    const flow::Prediction& prediction = predictors_[world_index]->run(plan_, faults, &last_.steps, policy);
    BaselineIteration iteration = count(prediction, faults);
    iteration.time = where_time_goes(world(), plan_, prediction, last_.steps, iteration.duration_s);
    return iteration;
  }

  // GWTF's flows: most, then least sum of costs, solved anew and free of charge (flattering).
  std::vector<std::vector<std::uint32_t>> solve_flows(const std::vector<std::uint32_t>& dead) const {
    flow::Network network;
    std::vector<std::uint32_t> ids;  // by the network's numbers
    std::vector<std::vector<std::uint32_t>> layers(world().stages() + 1);
    std::int64_t narrowest = INT64_MAX;
    for (std::uint32_t s = 0; s <= world().stages(); ++s) {
      std::int64_t sum = 0;
      for (std::uint32_t id = 0; id < world().nodes.size(); ++id) {
        if (world().nodes[id].stage != s || std::find(dead.begin(), dead.end(), id) != dead.end()) continue;
        layers[s].push_back(static_cast<std::uint32_t>(ids.size()));
        ids.push_back(id);
        network.capacity.push_back(world().nodes[id].capacity);
        sum += world().nodes[id].capacity;
      }
      if (s > 0) narrowest = std::min(narrowest, sum);
    }
    const auto data = static_cast<std::int64_t>(layers[0].size());
    for (const std::uint32_t d : layers[0])
      network.capacity[d] = static_cast<std::int32_t>((narrowest + data - 1) / data);
    network.links.resize(ids.size());
    for (std::uint32_t s = 0; s <= world().stages(); ++s)
      for (const std::uint32_t i : layers[s])
        for (const std::uint32_t j : layers[(s + 1) % layers.size()])
          network.links[i].push_back({j, static_cast<flow::Cost>(1000 * link_cost(ids[i], ids[j]))});
    network.data_nodes = layers[0];
    network.stages.assign(layers.begin() + 1, layers.end());
    const auto solved = flow::PlannedRouter({.rounds = 2000, .steps = 20'000'000}).solve(network, 1);
    TRIBUTARY_CHECK(solved.ok(), "a network of live relays can be routed");
    std::vector<std::vector<std::uint32_t>> flows;
    for (const auto& path : solved->flows) {
      auto& flow = flows.emplace_back();
      for (std::size_t k = 0; k + 1 < path.size(); ++k) flow.push_back(ids[path[k].value()]);
    }
    return flows;
  }
  // The paper's d(i, j), in seconds.
  double link_cost(std::uint32_t i, std::uint32_t j) const {
    const auto compute = [&](std::uint32_t id) {
      const auto& node = world().nodes[id];
      return node.stage == 0 ? node.head_s : node.forward_s * (1 + world().backward_ratio);
    };
    return (compute(i) + compute(j)) / 2 + (world().latency(i, j) + world().latency(j, i)) / 2 +
           2 * world().message_bytes / (world().bandwidth(i, j) + world().bandwidth(j, i));
  }

  // Our plan: local search over paths for the least predicted iteration, from the last plan on, on what is known at the
  // start. Returns which world (microbatches launched at a time) is best.
  std::size_t search(const flow::PredictFaults& faults) {
    const flow::PredictFaults known{.crashes = {},
                                    .dead = faults.dead,
                                    .detection_s = faults.detection_s,
                                    .recovery = faults.recovery,
                                    .exactly_once = false,
                                    .replacements = replacements_};
    std::vector<std::vector<std::uint32_t>> live{{}};
    for (std::uint32_t s = 1; s <= world().stages(); ++s) live.push_back(live_relays(s, faults.dead));
    std::vector<int> load(world().nodes.size(), 0);
    for (auto& microbatch : plan_.microbatches)
      for (std::uint32_t s = 1; s <= world().stages(); ++s) {
        std::uint32_t& relay = microbatch.path[s - 1];
        if (std::find(live[s].begin(), live[s].end(), relay) == live[s].end())
          relay = *std::min_element(live[s].begin(), live[s].end(), [&](auto a, auto b) { return load[a] < load[b]; });
        ++load[relay];
      }
    std::size_t best_world = 0;
    double best = std::numeric_limits<double>::infinity();
    const auto consider = [&](std::size_t index) {
      const double end = predictors_[index]->run(plan_, known).iteration_end_s;
      if (end > best) return false;
      best = end;
      best_world = index;
      return true;
    };
    for (std::size_t k = 0; k < worlds_.size(); ++k) consider(k);
    for (int trial = 0; trial < kSearchTrials; ++trial) {
      auto& a = plan_.microbatches[random_.below(plan_.microbatches.size())];
      auto& b = plan_.microbatches[random_.below(plan_.microbatches.size())];
      const auto s = static_cast<std::uint32_t>(1 + random_.below(world().stages()));
      const auto before_a = a.path, before_b = b.path;
      if (random_.chance(0.5)) {
        a.path[s - 1] = random_.pick(live[s]);
      } else {
        std::swap(a.path[s - 1], b.path[s - 1]);
      }
      if (a.path == before_a && b.path == before_b) continue;
      const std::size_t index = random_.chance(0.1) ? random_.below(worlds_.size()) : best_world;
      if (consider(index)) continue;
      a.path = before_a;
      b.path = before_b;
    }
    return best_world;
  }

  // Who is in the update, and when the last stage has aggregated.
  BaselineIteration count(const flow::Prediction& prediction, const flow::PredictFaults& faults) {
    BaselineIteration iteration;
    const std::uint32_t stages = world().stages();
    const auto all = static_cast<double>(plan_.microbatches.size());
    std::vector<double> end = prediction.aggregated_s;
    if (!ours_)
      for (std::uint32_t s = 1; s <= stages; ++s) end[s - 1] = ring_end(s, prediction.pipeline_end_s, faults);
    iteration.duration_s = *std::max_element(end.begin(), end.end());
    last_.away = faults.dead;
    last_.crashes = faults.crashes;
    std::erase_if(last_.crashes, [&](const auto& crash) { return crash.at_s >= iteration.duration_s; });
    for (std::uint32_t s = 1; s <= stages; ++s)
      last_.aggregations.push_back({s, ours_ ? prediction.stage_end_s[s - 1] : prediction.pipeline_end_s, end[s - 1]});
    const auto lost = [&](std::uint32_t relay, double until) {
      return relay >= world().nodes.size() ||
             std::any_of(faults.crashes.begin(), faults.crashes.end(),
                         [&](const auto& crash) { return crash.node == relay && crash.at_s < until; });
    };
    for (std::size_t m = 0; m < plan_.microbatches.size(); ++m) {
      std::uint32_t there = stages;
      for (std::uint32_t s = 1; s <= stages && !prediction.gradient_at.empty(); ++s)
        there -= lost(prediction.gradient_at[m * stages + s - 1], end[s - 1]);
      iteration.parts += static_cast<double>(there) / stages;
      iteration.accepted += there == stages;
    }
    for (const auto& crash : faults.crashes) iteration.crashes += crash.at_s < iteration.duration_s;
    TRIBUTARY_CHECK(iteration.parts <= all, "no more than all");
    return iteration;
  }

  // A ring waits for a member that died until its time-out, and begins again without it.
  double ring_end(std::uint32_t stage, double start, const flow::PredictFaults& faults) const {
    auto members = live_relays(stage, faults.dead);
    double end = start + flow::ring_seconds(world(), members, world().aggregation_bytes);
    for (const auto& crash : faults.crashes) {  // by time
      if (world().nodes[crash.node].stage != stage || crash.at_s >= end) continue;
      std::erase(members, crash.node);
      start = std::max(start, crash.at_s + detection_s_);
      end = start + flow::ring_seconds(world(), members, world().aggregation_bytes);
    }
    return end;
  }

  const Scenario& scenario_;
  const BaselineOptions& options_;
  Random random_;
  bool ours_ = false;
  double detection_s_ = 0;
  std::vector<std::unique_ptr<flow::PredictWorld>> worlds_;  // by microbatches launched at a time; the last: all
  std::vector<std::unique_ptr<flow::Predictor>> predictors_;
  std::unique_ptr<SwarmPolicy> swarm_;
  std::unique_ptr<FlowPolicy> flows_;
  std::unique_ptr<PlanPolicy> planned_;
  flow::PredictPlan plan_;
  std::vector<std::vector<std::uint32_t>> replacements_;
  std::vector<double> away_until_;
  BaselineTrace last_;  // of the latest iteration
};

}  // namespace

double BaselineRun::mean_s() const {
  double sum = 0;
  for (const auto& each : iterations) sum += each.duration_s;
  return iterations.empty() ? 0 : sum / static_cast<double>(iterations.size());
}
double BaselineRun::per_accepted_s() const {
  double time = 0, accepted = 0;
  for (const auto& each : iterations) time += each.duration_s, accepted += each.accepted;
  return time / accepted;
}
double BaselineRun::per_parts_s() const {
  double time = 0, parts = 0;
  for (const auto& each : iterations) time += each.duration_s, parts += each.parts;
  return time / parts;
}

const std::vector<std::string>& baseline_names() {
  static const std::vector<std::string> names{"swarm", "swarm-refusing", "swarm-round-robin", "gwtf", "ours"};
  return names;
}

Result<BaselineRun> run_baseline(const Scenario& scenario, const BaselineOptions& options) {
  const auto& names = baseline_names();
  if (std::find(names.begin(), names.end(), options.policy) == names.end()) {
    std::string known;
    for (const auto& name : names) known += (known.empty() ? "" : ", ") + name;
    return Error{"no baseline is called \"" + options.policy + "\"; there are " + known};
  }
  if (auto good = predict_world(scenario, 1).check(); !good) return Error{scenario.name + ": " + good.error().message};
  if (scenario.microbatches_per_data_node == 0) return Error{scenario.name + ": no microbatches"};
  return Baseline(scenario, options).run();
}

}  // namespace tributary::sim
