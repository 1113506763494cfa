#include "flow/joining.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/random.h"
#include "flow/routers.h"

namespace tributary::flow {
namespace {

constexpr double kRebalanceHeat = 3, kRebalanceCooling = 0.992;

std::vector<std::vector<std::uint32_t>> placed(const JoinProblem& problem, const Placement& placement) {
  auto stages = problem.stages;
  for (std::size_t k = 0; k < placement.size(); ++k)
    if (placement[k] > 0) stages[placement[k] - 1].push_back(problem.candidates[k]);
  return stages;
}

// Data nodes and those on a stage, numbered anew in the order of the layers.
Network to_network(const JoinProblem& problem, const std::vector<std::vector<std::uint32_t>>& stages) {
  Network network;
  std::vector<std::uint32_t> ids;
  const auto add = [&](const std::vector<std::uint32_t>& layer) {
    std::vector<std::uint32_t> numbers;
    for (const std::uint32_t id : layer) {
      numbers.push_back(static_cast<std::uint32_t>(ids.size()));
      ids.push_back(id);
      network.capacity.push_back(problem.capacity[id]);
    }
    return numbers;
  };
  network.data_nodes = add(problem.data_nodes);
  for (const auto& stage : stages) network.stages.push_back(add(stage));
  network.links.resize(ids.size());
  const auto connect = [&](const std::vector<std::uint32_t>& from, const std::vector<std::uint32_t>& to) {
    for (const std::uint32_t i : from)
      for (const std::uint32_t j : to) network.links[i].push_back({j, problem.link(ids[i], ids[j])});
  };
  connect(network.data_nodes, network.stages.front());
  for (std::size_t s = 0; s + 1 < network.stages.size(); ++s) connect(network.stages[s], network.stages[s + 1]);
  connect(network.stages.back(), network.data_nodes);
  return network;
}

JoinValue evaluate_stages(const JoinProblem& problem, const std::vector<std::vector<std::uint32_t>>& stages) {
  const Network network = to_network(problem, stages);
  JoinValue value;
  std::vector<Cost> dearest(stages.size() + 1, 0);
  for (const auto& path : interchangeable_paths(network)) {
    ++value.flows;
    for (std::size_t hop = 0; hop + 1 < path.size(); ++hop)
      dearest[hop] = std::max(dearest[hop], *network.cost(path[hop], path[hop + 1]));
  }
  for (const Cost cost : dearest) value.dearest += cost;
  for (const auto& stage : stages)
    for (std::size_t a = 0; a < stage.size(); ++a)
      for (std::size_t b = a + 1; b < stage.size(); ++b)
        value.aggregation = std::max(value.aggregation, problem.link(stage[a], stage[b]));
  return value;
}

// The layer before and the one after a stage.
std::vector<std::uint32_t> neighbours(const JoinProblem& problem, const std::vector<std::vector<std::uint32_t>>& stages,
                                      std::size_t stage) {
  auto list = stage == 0 ? problem.data_nodes : stages[stage - 1];
  const auto& after = stage + 1 == stages.size() ? problem.data_nodes : stages[stage + 1];
  list.insert(list.end(), after.begin(), after.end());
  return list;
}
double mean_link(const JoinProblem& problem, std::uint32_t node, const std::vector<std::uint32_t>& to) {
  double sum = 0;
  for (const std::uint32_t other : to) sum += static_cast<double>(problem.link(node, other));
  return sum / static_cast<double>(to.size());
}

// Remembers what placements are worth; equal ones are asked for again and again.
class Search {
 public:
  explicit Search(const JoinProblem& problem) : problem_(problem) {}
  double worth(const Placement& placement) {
    const auto [at, fresh] = known_.try_emplace(placement, 0);
    if (fresh) at->second = evaluate(problem_, placement).per_microbatch();
    return at->second;
  }
  // Every candidate in turn where the cost is least then.
  Placement greedy(const std::vector<std::size_t>& order) {
    Placement placement(problem_.candidates.size(), 0);
    for (const std::size_t k : order) try_stages(placement, k, std::numeric_limits<double>::infinity());
    return placement;
  }
  void descend(Placement& placement) {
    const std::size_t count = placement.size();
    double best = worth(placement);
    for (bool gained = true; gained;) {
      gained = false;
      for (std::size_t k = 0; k < count; ++k) gained |= improve(best, try_stages(placement, k, best));
      for (std::size_t a = 0; a < count; ++a)
        for (std::size_t b = a + 1; b < count; ++b) gained |= improve(best, try_pair(placement, a, b, best));
    }
  }

 private:
  static bool improve(double& best, double found) {
    if (!(found < best)) return false;
    best = found;
    return true;
  }
  // Leaves the candidate on its best stage if that is below `best`, else where it is; returns the least cost.
  double try_stages(Placement& placement, std::size_t k, double best) {
    const std::uint32_t before = placement[k];
    std::uint32_t chosen = before;
    for (std::uint32_t s = 1; s <= problem_.stages.size(); ++s) {
      placement[k] = s;
      if (const double value = worth(placement); value < best || chosen == 0) {
        best = value;
        chosen = s;
      }
    }
    placement[k] = chosen;
    return best;
  }
  // Both at once, over all stages: two stages that limit together are only relieved together.
  double try_pair(Placement& placement, std::size_t a, std::size_t b, double best) {
    const auto before = std::pair(placement[a], placement[b]);
    auto chosen = before;
    for (std::uint32_t s = 1; s <= problem_.stages.size(); ++s)
      for (std::uint32_t t = 1; t <= problem_.stages.size(); ++t) {
        placement[a] = s;
        placement[b] = t;
        if (!improve(best, worth(placement))) continue;
        chosen = {s, t};
      }
    placement[a] = chosen.first;
    placement[b] = chosen.second;
    return best;
  }

  const JoinProblem& problem_;
  std::map<Placement, double> known_;
};

}  // namespace

double JoinValue::per_microbatch() const {
  if (flows == 0) return std::numeric_limits<double>::infinity();
  return static_cast<double>(2 * dearest + aggregation) / static_cast<double>(flows);
}

JoinValue evaluate(const JoinProblem& problem, const Placement& placement) {
  return evaluate_stages(problem, placed(problem, placement));
}

Placement join_gwtf(const JoinProblem& problem) {
  Placement placement(problem.candidates.size(), 0);
  for (std::size_t round = 0; round < placement.size(); ++round) {
    const auto stages = placed(problem, placement);
    const auto now = evaluate_stages(problem, stages);
    std::vector<std::int64_t> room;
    for (const auto& stage : stages) {
      std::int64_t sum = 0;
      for (const std::uint32_t relay : stage) sum += problem.capacity[relay];
      room.push_back(sum);
    }
    // Used most: with F flows through every stage, the one with the least capacity.
    const auto narrow = static_cast<std::size_t>(std::min_element(room.begin(), room.end()) - room.begin());
    std::int64_t second = INT64_MAX;
    for (std::size_t s = 0; s < room.size(); ++s)
      if (s != narrow) second = std::min(second, room[s]);
    const auto beside = neighbours(problem, stages, narrow);
    const double p = static_cast<double>(now.dearest), stage_share = 2 * p / static_cast<double>(stages.size());
    std::size_t best = placement.size();
    double most = 0;
    for (std::size_t k = 0; k < placement.size(); ++k) {
      if (placement[k] > 0) continue;
      const std::uint32_t id = problem.candidates[k];
      Cost dearest = now.aggregation;
      for (const std::uint32_t relay : stages[narrow]) dearest = std::max(dearest, problem.link(id, relay));
      const auto flows = static_cast<double>(std::min(second, room[narrow] + problem.capacity[id]));
      const double link = mean_link(problem, id, beside);
      const double time = 2 * (p - stage_share + std::max(stage_share, 2 * link)) + static_cast<double>(dearest);
      const double gain = now.per_microbatch() - time / flows;
      if (best == placement.size() || gain > most) {
        best = k;
        most = gain;
      }
    }
    placement[best] = static_cast<std::uint32_t>(narrow + 1);
  }
  return placement;
}

Placement join_planned(const JoinProblem& problem, std::uint64_t seed, std::size_t orders) {
  Search search(problem);
  Random random(seed);
  std::vector<std::size_t> order(problem.candidates.size());
  for (std::size_t k = 0; k < order.size(); ++k) order[k] = k;
  // The largest first: what it leaves is easier to fill.
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const auto left = problem.capacity[problem.candidates[a]], right = problem.capacity[problem.candidates[b]];
    return left != right ? left > right : a < b;
  });
  Placement best;
  for (std::size_t k = 0; k < std::max<std::size_t>(1, orders); ++k) {
    Placement placement = search.greedy(order);
    search.descend(placement);
    if (best.empty() || search.worth(placement) < search.worth(best)) best = placement;
    random.shuffle(order);
  }
  return best;
}

std::optional<Placement> join_exhaustively(const JoinProblem& problem, std::size_t most) {
  std::size_t count = 1;
  for (std::size_t k = 0; k < problem.candidates.size(); ++k) {
    count *= problem.stages.size();
    if (count > most) return std::nullopt;
  }
  Placement placement(problem.candidates.size(), 1), best;
  double least = 0;
  for (std::size_t done = 0; done < count; ++done) {
    const double value = evaluate(problem, placement).per_microbatch();
    if (best.empty() || value < least) {
      least = value;
      best = placement;
    }
    for (std::size_t k = 0; k < placement.size() && ++placement[k] > problem.stages.size(); ++k) placement[k] = 1;
  }
  return best;
}

std::size_t rebalance_gwtf(JoinProblem& problem, std::uint64_t seed, std::size_t tries) {
  Random random(seed);
  double heat = kRebalanceHeat;
  std::size_t made = 0;
  if (problem.stages.size() < 2) return 0;
  for (std::size_t k = 0; k < tries; ++k, heat *= kRebalanceCooling) {
    const auto s = random.below(problem.stages.size()), t = random.below(problem.stages.size());
    if (s == t) continue;
    auto& a = problem.stages[s][random.below(problem.stages[s].size())];
    auto& b = problem.stages[t][random.below(problem.stages[t].size())];
    const auto larger = [&] {
      return std::max(mean_link(problem, a, neighbours(problem, problem.stages, s)),
                      mean_link(problem, b, neighbours(problem, problem.stages, t)));
    };
    const double before = larger();
    std::swap(a, b);
    const double loss = larger() - before;
    if (loss < 0 || random.chance(std::exp(-loss / heat))) {
      ++made;
    } else {
      std::swap(a, b);
    }
  }
  return made;
}

}  // namespace tributary::flow
