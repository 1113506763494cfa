#include "flow/dtfm_placement.h"

#include <algorithm>

#include "base/random.h"
#include "flow/dtfm_groups.h"

namespace tributary::flow {
namespace {

struct Genome {
  std::vector<Group> groups;
  std::vector<std::uint32_t> order;  // of the tour: places 1.. are groups 0..
  DtfmCost cost;
};

class PlacementSearch {
 public:
  PlacementSearch(const PredictWorld& world, std::uint64_t seed) : world_(world), parts_(world), random_(seed) {
    const std::uint32_t stages = world.stages();
    sizes_.assign(stages, 0);
    for (std::uint32_t node = 0; node < world.nodes.size(); ++node) {
      if (world.nodes[node].stage == 0) continue;
      relays_.push_back(node);
      ++sizes_[world.nodes[node].stage - 1];
    }
  }

  Genome present() {
    Genome genome;
    genome.groups.resize(sizes_.size());
    for (const auto node : relays_) genome.groups[world_.nodes[node].stage - 1].push_back(node);
    rate(genome);
    return genome;
  }
  Genome random_genome() {
    auto all = relays_;
    random_.shuffle(all);
    Genome genome;
    auto at = all.begin();
    for (const auto size : sizes_) {
      genome.groups.emplace_back(at, at + static_cast<std::ptrdiff_t>(size));
      at += static_cast<std::ptrdiff_t>(size);
    }
    rate(genome);
    return genome;
  }

  // Groups of the second parent take the numbers of those of the first which they share most with; then pieces of both,
  // between five cuts of the list of relays, and balance.
  Genome child(const Genome& a, const Genome& b) {
    const auto of_a = group_by_node(a.groups);
    const auto of_b = group_by_node(aligned(a.groups, b.groups));
    std::vector<std::size_t> cuts;
    for (int k = 0; k < 5; ++k) cuts.push_back(random_.below(relays_.size() + 1));
    std::sort(cuts.begin(), cuts.end());
    Genome made;
    made.groups.resize(sizes_.size());
    std::size_t cut = 0;
    for (std::size_t k = 0; k < relays_.size(); ++k) {
      while (cut < cuts.size() && cuts[cut] <= k) ++cut;
      const auto node = relays_[k];
      made.groups[cut % 2 == 0 ? of_a[node] : of_b[node]].push_back(node);
    }
    balance(made.groups);
    if (random_.chance(0.5)) exchange_two(made.groups);
    rate(made);
    improve(made);
    return made;
  }

  std::int64_t steps() const { return parts_.steps(); }

 private:
  std::vector<std::size_t> group_by_node(const std::vector<Group>& groups) const {
    std::vector<std::size_t> of(world_.nodes.size(), 0);
    for (std::size_t g = 0; g < groups.size(); ++g)
      for (const auto node : groups[g]) of[node] = g;
    return of;
  }
  std::vector<Group> aligned(const std::vector<Group>& to, const std::vector<Group>& groups) const {
    const auto of = group_by_node(groups);
    std::vector<Group> out(groups.size());
    std::vector<bool> taken(groups.size(), false);
    for (std::size_t g = 0; g < to.size(); ++g) {
      std::vector<std::size_t> shared(groups.size(), 0);
      for (const auto node : to[g]) ++shared[of[node]];
      std::size_t best = groups.size();
      for (std::size_t h = 0; h < groups.size(); ++h)
        if (!taken[h] && groups[h].size() == to[g].size() && (best == groups.size() || shared[h] > shared[best]))
          best = h;
      taken[best] = true;
      out[g] = groups[best];
    }
    return out;
  }
  void balance(std::vector<Group>& groups) {
    std::vector<std::uint32_t> surplus;
    for (std::size_t g = 0; g < groups.size(); ++g)
      while (groups[g].size() > sizes_[g]) {
        const auto at = groups[g].begin() + static_cast<std::ptrdiff_t>(random_.below(groups[g].size()));
        surplus.push_back(*at);
        groups[g].erase(at);
      }
    random_.shuffle(surplus);
    for (std::size_t g = 0; g < groups.size(); ++g)
      while (groups[g].size() < sizes_[g]) {
        groups[g].push_back(surplus.back());
        surplus.pop_back();
      }
  }
  void exchange_two(std::vector<Group>& groups) {
    if (groups.size() < 2) return;
    const std::size_t a = random_.below(groups.size()), b = random_.below(groups.size());
    std::swap(groups[a][random_.below(groups[a].size())], groups[b][random_.below(groups[b].size())]);
  }

  // Local search: exchanges of a relay of the group that takes longest, or of any group, with one of another, while one
  // of a handful helps.
  void improve(Genome& genome) {
    if (genome.groups.size() < 2) return;
    for (bool better = true; better;) {
      better = false;
      for (int k = 0; k < 8 && !better; ++k) {
        Genome tried = genome;
        const std::size_t a = k % 2 == 0 ? slowest(genome) : random_.below(genome.groups.size());
        std::size_t b = random_.below(genome.groups.size() - 1);
        b += b >= a;
        std::swap(tried.groups[a][random_.below(tried.groups[a].size())],
                  tried.groups[b][random_.below(tried.groups[b].size())]);
        rate(tried);
        if (tried.cost.total_s() >= genome.cost.total_s() * (1 - 1e-12)) continue;
        genome = std::move(tried);
        better = true;
      }
    }
  }
  std::size_t slowest(const Genome& genome) const {
    std::size_t worst = 0;
    double most = -1;
    for (std::size_t g = 0; g < genome.groups.size(); ++g)
      if (const double takes = parts_.exchange_s(genome.groups[g]); takes > most) most = takes, worst = g;
    return worst;
  }

  void rate(Genome& genome) const {
    const std::size_t n = genome.groups.size() + 1;
    genome.cost = {};
    for (const auto& group : genome.groups)
      genome.cost.data_parallel_s = std::max(genome.cost.data_parallel_s, parts_.exchange_s(group));
    std::vector<double> step(n * n, 0);
    const auto group = [&](std::size_t place) -> const Group& {
      return place == 0 ? parts_.data_nodes() : genome.groups[place - 1];
    };
    for (std::size_t a = 0; a < n; ++a)
      for (std::size_t b = a + 1; b < n; ++b) step[a * n + b] = step[b * n + a] = parts_.matching_s(group(a), group(b));
    genome.order = DtfmGroups::tour(step, n);
    std::size_t at = 0;
    for (const auto next : genome.order) {
      genome.cost.pipeline_s += step[at * n + next];
      at = next;
    }
    genome.cost.pipeline_s += step[at * n];
  }

  const PredictWorld& world_;
  const DtfmGroups parts_;
  Random random_;
  std::vector<std::uint32_t> relays_;
  std::vector<std::size_t> sizes_;  // by group
};

}  // namespace

DtfmCost dtfm_cost(const PredictWorld& world) {
  const DtfmGroups parts(world);
  std::vector<Group> groups(world.stages() + 1u);
  for (std::uint32_t node = 0; node < world.nodes.size(); ++node) groups[world.nodes[node].stage].push_back(node);
  DtfmCost cost;
  for (std::size_t s = 1; s < groups.size(); ++s) {
    cost.data_parallel_s = std::max(cost.data_parallel_s, parts.exchange_s(groups[s]));
    cost.pipeline_s += parts.matching_s(groups[s - 1], groups[s]);
  }
  cost.pipeline_s += parts.matching_s(groups.back(), groups.front());
  return cost;
}

DtfmPlacement dtfm_place(const PredictWorld& world, std::uint64_t seed, const DtfmPlacementOptions& options) {
  PlacementSearch search(world, seed);
  Random random(mix64(seed, 1));
  std::vector<Genome> population{search.present()};
  DtfmPlacement placement;
  while (population.size() < std::max<std::size_t>(2, options.population) && search.steps() < options.steps)
    population.push_back(search.random_genome());
  const auto worse = [](const Genome& a, const Genome& b) { return a.cost.total_s() < b.cost.total_s(); };
  for (; placement.trials < options.trials && search.steps() < options.steps; ++placement.trials) {
    const std::size_t a = random.below(population.size()), b = random.below(population.size());
    Genome made = search.child(population[a], population[b]);
    auto& worst = *std::max_element(population.begin(), population.end(), worse);
    if (worse(made, worst)) worst = std::move(made);
  }
  const auto& best = *std::min_element(population.begin(), population.end(), worse);
  placement.cost = best.cost;
  placement.stage.assign(world.nodes.size(), 0);
  for (std::uint32_t stage = 1; stage <= best.order.size(); ++stage)
    for (const auto node : best.groups[best.order[stage - 1] - 1]) placement.stage[node] = stage;
  return placement;
}

}  // namespace tributary::flow
