#include "swarm/predicted_paths.h"

#include <algorithm>
#include <map>

#include "base/random.h"
#include "flow/predict.h"

namespace tributary::swarm {
namespace {

// Steps of the prediction's event queue that one plan may cost: some milliseconds.
constexpr std::size_t kMostSteps = 120'000;
constexpr std::size_t kMostMachines = 400;  // beyond, a prediction's tables are too large for a handler
constexpr double kWorthIt = 0.995;          // of the previous plan's time, to be left for a new one
constexpr double kFallbackRate = 1e8;       // bytes/s of links while none is measured
constexpr double kFallbackDelay = 1e-3;     // s
constexpr double kDefaultBackwardRatio = 2;

struct World {
  flow::PredictWorld predict;
  std::vector<NodeId> nodes;  // by index
  std::map<NodeId, std::uint32_t> index;
  std::vector<std::vector<std::uint32_t>> stages;
};

// Means of what was measured stand in for what was not: of the sender's links, else of all.
void lay_links(const std::vector<const Candidate*>& all, World& world) {
  const auto n = all.size();
  struct Mean {
    double sum = 0;
    int count = 0;
    void add(double value) { sum += value, ++count; }
    double or_else(double other) const { return count > 0 ? sum / count : other; }
  };
  Mean delay, rate;
  std::vector<Mean> own_delay(n), own_rate(n);
  for (std::size_t i = 0; i < n; ++i) {
    for (const auto& [to, round_trip] : all[i]->round_trip) {
      delay.add(to_seconds(round_trip) / 2);
      own_delay[i].add(to_seconds(round_trip) / 2);
    }
    for (const auto& [to, bytes_per_s] : all[i]->bytes_per_s) {
      rate.add(bytes_per_s);
      own_rate[i].add(bytes_per_s);
    }
  }
  auto& predict = world.predict;
  predict.latency_s.assign(n * n, 0);
  predict.bandwidth_Bps.assign(n * n, 0);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      if (i == j) continue;
      // A round trip is the same from both ends; a link's speed often is.
      auto round_trip = all[i]->round_trip.find(world.nodes[j]);
      bool known = round_trip != all[i]->round_trip.end();
      if (!known) {
        round_trip = all[j]->round_trip.find(world.nodes[i]);
        known = round_trip != all[j]->round_trip.end();
      }
      auto speed = all[i]->bytes_per_s.find(world.nodes[j]);
      bool measured = speed != all[i]->bytes_per_s.end();
      if (!measured) {
        speed = all[j]->bytes_per_s.find(world.nodes[i]);
        measured = speed != all[j]->bytes_per_s.end();
      }
      predict.latency_s[i * n + j] =
          known ? to_seconds(round_trip->second) / 2 : own_delay[i].or_else(delay.or_else(kFallbackDelay));
      predict.bandwidth_Bps[i * n + j] =
          measured ? std::max(1.0, speed->second) : own_rate[i].or_else(rate.or_else(kFallbackRate));
    }
}

World make_world(const RunOptions& run, const PlanStages& stages, std::uint16_t in_flight) {
  World world;
  std::vector<const Candidate*> all;
  double forward = 0, backward = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    world.stages.emplace_back();
    for (const auto* candidate : stages[s]) {
      world.index[candidate->member.node] = static_cast<std::uint32_t>(world.nodes.size());
      world.stages[s].push_back(static_cast<std::uint32_t>(world.nodes.size()));
      world.nodes.push_back(candidate->member.node);
      all.push_back(candidate);
      if (s > 0 && candidate->backward > Duration::zero() && candidate->forward > Duration::zero()) {
        forward += to_seconds(candidate->forward);
        backward += to_seconds(candidate->backward);
      }
    }
  }
  auto& predict = world.predict;
  predict.backward_ratio = forward > 0 ? std::clamp(backward / forward, 0.1, 10.0) : kDefaultBackwardRatio;
  for (std::size_t s = 0; s < stages.size(); ++s)
    for (const auto* candidate : stages[s]) {
      flow::PredictNode node;
      node.stage = static_cast<std::uint32_t>(s);
      const double measured = to_seconds(candidate->forward);
      const double back = to_seconds(candidate->backward);
      (s == 0 ? node.head_s : node.forward_s) =
          s > 0 && back > 0 ? (measured + back) / (1 + predict.backward_ratio) : measured;
      node.capacity = s == 0 ? in_flight : candidate->member.slots;
      predict.nodes.push_back(node);
    }
  predict.message_bytes = static_cast<double>(run.payload_bytes);
  std::uint64_t largest = 0;
  for (std::size_t s = 1; s < run.state_sizes.size(); ++s) largest = std::max(largest, run.state_sizes[s]);
  predict.aggregation_bytes = 8.0 * run.state_scale * static_cast<double>(largest);
  lay_links(all, world);
  return world;
}

class Search {
 public:
  Search(const World& world, std::uint64_t seed) : world_(world), predictor_(world.predict), random_(seed) {
    plan_.shares = flow::AggregationShares::kUneven;
    plan_.aggregate_per_stage = true;
  }

  struct Time {
    double end = 0, sum = 0;
    bool operator<(const Time& other) const {
      // The last one counts; among equals, the sooner all are done the less a disturbance costs.
      return end < other.end * (1 - 1e-9) || (end <= other.end * (1 + 1e-9) && sum < other.sum * (1 - 1e-9));
    }
  };

  Time take(const Paths& paths) {
    plan_.microbatches.clear();
    for (std::uint32_t m = 0; m < paths.size(); ++m) {
      flow::PredictMicrobatch microbatch;
      microbatch.id = m;
      microbatch.data_node = world_.index.at(paths[m].front());
      for (std::size_t p = 1; p + 1 < paths[m].size(); ++p) microbatch.path.push_back(world_.index.at(paths[m][p]));
      plan_.microbatches.push_back(std::move(microbatch));
    }
    return time_ = evaluate();
  }

  void improve(std::size_t trials) {
    const auto stages = world_.stages.size();
    auto& list = plan_.microbatches;
    for (std::size_t i = 0; i < trials; ++i) {
      const auto s = 1 + random_.below(stages - 1);
      const auto& relays = world_.stages[s];
      if (relays.size() < 2) continue;
      auto& one = list[random_.below(list.size())].path[s - 1];
      auto& other = list[random_.below(list.size())].path[s - 1];
      const auto was = one, other_was = other;
      if (random_.chance(0.5) && one != other) {
        std::swap(one, other);
      } else {
        one = relays[random_.below(relays.size())];
        if (one == was) continue;
      }
      const auto now = evaluate();
      if (now < time_) {
        time_ = now;
      } else {
        one = was;
        other = other_was;
      }
    }
  }

  Time time() const { return time_; }
  Paths paths() const {
    Paths out;
    for (const auto& microbatch : plan_.microbatches) {
      out.push_back({world_.nodes[microbatch.data_node]});
      for (const auto relay : microbatch.path) out.back().push_back(world_.nodes[relay]);
      out.back().push_back(world_.nodes[microbatch.data_node]);
    }
    return out;
  }

 private:
  Time evaluate() {
    const auto& predicted = predictor_.run(plan_);
    double sum = 0;
    for (const double done : predicted.done_s) sum += done;
    return {predicted.iteration_end_s, sum};
  }

  const World& world_;
  flow::Predictor predictor_;
  Random random_;
  flow::PredictPlan plan_;
  Time time_;
};

}  // namespace

Paths predicted_paths(const RunOptions& run, const PlanStages& stages, std::uint16_t in_flight,
                      std::vector<Paths> starts, const Paths* previous, std::uint64_t seed) {
  TRIBUTARY_CHECK(!starts.empty(), "a search begins somewhere");
  const auto world = make_world(run, stages, in_flight);
  const std::size_t steps = run.microbatches * (6 * stages.size() + 6);
  if (world.nodes.size() > kMostMachines || steps > kMostSteps || !world.predict.check()) return starts.front();
  Search search(world, seed);
  const Paths* best = nullptr;
  Search::Time best_time;
  for (const auto& start : starts) {
    const auto time = search.take(start);
    if (best && !(time < best_time)) continue;
    best = &start;
    best_time = time;
  }
  std::optional<Search::Time> before;
  if (previous) before = search.take(*previous);
  search.take(before && !(best_time < *before) ? *previous : *best);
  search.improve(kMostSteps / steps);
  if (before && search.time().end > before->end * kWorthIt) return *previous;
  return search.paths();
}

}  // namespace tributary::swarm
