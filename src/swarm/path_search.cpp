#include "swarm/path_search.h"

#include <utility>

namespace tributary::swarm {

PathSearch::PathSearch(const PlanWorld& world, std::uint64_t seed)
    : world_(world), predictor_(world.predict), random_(seed) {
  plan_.shares = flow::AggregationShares::kUneven;
  plan_.aggregate_per_stage = true;
}

PathSearch::Time PathSearch::take(const Paths& paths) {
  Microbatches microbatches;
  for (std::uint32_t m = 0; m < paths.size(); ++m) {
    flow::PredictMicrobatch microbatch;
    microbatch.id = m;
    microbatch.data_node = world_.index.at(paths[m].front());
    for (std::size_t p = 1; p + 1 < paths[m].size(); ++p) microbatch.path.push_back(world_.index.at(paths[m][p]));
    microbatches.push_back(std::move(microbatch));
  }
  return take(microbatches);
}

PathSearch::Time PathSearch::take(const Microbatches& microbatches) {
  plan_.microbatches = microbatches;
  return time_ = evaluate();
}

void PathSearch::improve(std::size_t trials) {
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

Paths PathSearch::paths() const {
  Paths out;
  for (const auto& microbatch : plan_.microbatches) {
    out.push_back({world_.nodes[microbatch.data_node]});
    for (const auto relay : microbatch.path) out.back().push_back(world_.nodes[relay]);
    out.back().push_back(world_.nodes[microbatch.data_node]);
  }
  return out;
}

PathSearch::Time PathSearch::evaluate() {
  const auto& predicted = predictor_.run(plan_);
  double sum = 0;
  for (const double done : predicted.done_s) sum += done;
  return {predicted.iteration_end_s, sum};
}

}  // namespace tributary::swarm
