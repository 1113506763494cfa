#include "flow/dtfm.h"

#include <algorithm>

#include "base/random.h"
#include "flow/layered.h"

namespace tributary::flow {
namespace {

using Units = std::vector<std::int32_t>;  // by place of a layer: how many serve
struct Genome {
  std::vector<Units> serve;  // [layer 0..S]; each sums to the number of flows
  Cost fitness = 0;
};
// Units from place to place of the next layer.
struct Matching {
  Cost dearest = kFar;
  std::vector<std::int32_t> units;  // [from * width + to]
  std::int64_t matched = 0;
};

class Search {
 public:
  Search(const Layered& net, std::int64_t flows, std::uint64_t seed) : net_(net), flows_(flows), random_(seed) {}

  Genome random_genome() {
    Genome genome;
    for (std::size_t layer = 0; layer <= net_.stages; ++layer) {
      std::vector<std::uint32_t> all;
      for (std::uint32_t place = 0; place < net_.width(layer); ++place)
        all.insert(all.end(), static_cast<std::size_t>(net_.capacity[layer][place]), place);
      random_.shuffle(all);
      auto& serve = genome.serve.emplace_back(net_.width(layer), 0);
      for (std::int64_t k = 0; k < flows_; ++k) ++serve[all[static_cast<std::size_t>(k)]];
    }
    rate(genome);
    return genome;
  }
  // The first layers of one, the last of the other, and some units moved within their layer.
  Genome child(const Genome& a, const Genome& b) {
    Genome made = a;
    const std::size_t cut = random_.below(net_.stages + 2);
    for (std::size_t layer = cut; layer <= net_.stages; ++layer) made.serve[layer] = b.serve[layer];
    for (std::size_t k = random_.below(4); k > 0; --k) {
      const std::size_t layer = random_.below(net_.stages + 1);
      const std::size_t from = random_.below(net_.width(layer)), to = random_.below(net_.width(layer));
      Units& serve = made.serve[layer];
      if (serve[from] == 0 || serve[to] == net_.capacity[layer][to]) continue;
      --serve[from];
      ++serve[to];
    }
    rate(made);
    return made;
  }
  void rate(Genome& genome) const {
    genome.fitness = 0;
    for (std::size_t layer = 0; layer < net_.stages; ++layer)
      genome.fitness += match(layer, genome.serve[layer], genome.serve[layer + 1]).dearest;
    Cost dearest = 0;
    for (std::uint32_t last = 0; last < net_.width(net_.stages); ++last)
      if (genome.serve[net_.stages][last] > 0)
        for (std::uint32_t data = 0; data < net_.width(0); ++data)
          if (genome.serve[0][data] > 0) dearest = std::max(dearest, net_.cost(net_.stages, last, data));
    genome.fitness += dearest;
  }

  // The bottleneck matching: the least threshold at which all units can be joined, by bisection.
  Matching match(std::size_t layer, const Units& from, const Units& to) const {
    std::vector<Cost> levels(net_.costs[layer]);
    std::sort(levels.begin(), levels.end());
    levels.erase(std::unique(levels.begin(), levels.end()), levels.end());
    std::size_t low = 0, high = levels.size() - 1;
    Matching best = join(layer, from, to, levels[high]);
    if (best.matched < flows_) return best;
    while (low < high) {
      const std::size_t middle = (low + high) / 2;
      Matching tried = join(layer, from, to, levels[middle]);
      if (tried.matched == flows_) {
        best = std::move(tried);
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return best;
  }

 private:
  // As many units as links of at most `threshold` can join, by augmenting paths.
  Matching join(std::size_t layer, Units from, Units to, Cost threshold) const {
    const std::size_t width = to.size();
    Matching matching{threshold, std::vector<std::int32_t>(from.size() * width, 0), 0};
    if (threshold >= kFar) matching.dearest = kFar;
    std::vector<bool> seen;
    const auto usable = [&](std::size_t a, std::size_t b) {
      const Cost cost = net_.costs[layer][a * width + b];
      return cost <= threshold && cost < kFar;
    };
    const auto augment = [&](auto&& self, std::size_t a) -> bool {
      for (std::size_t b = 0; b < width; ++b) {
        if (seen[b] || !usable(a, b)) continue;
        seen[b] = true;
        if (to[b] > 0) {
          --to[b];
          ++matching.units[a * width + b];
          return true;
        }
        for (std::size_t other = 0; other < from.size(); ++other) {
          if (other == a || matching.units[other * width + b] == 0 || !self(self, other)) continue;
          --matching.units[other * width + b];
          ++matching.units[a * width + b];
          return true;
        }
      }
      return false;
    };
    for (std::size_t a = 0; a < from.size(); ++a)
      for (; from[a] > 0; --from[a]) {
        seen.assign(width, false);
        if (!augment(augment, a)) break;
        ++matching.matched;
      }
    return matching;
  }

  const Layered& net_;
  const std::int64_t flows_;
  Random random_;
};

// The flows of a genome: matchings joined in turn, and home.
void lay(const Layered& net, const Search& search, const Genome& genome, FlowSet& flows) {
  std::vector<Hops> open;
  for (std::uint32_t data = 0; data < net.width(0); ++data)
    for (std::int32_t k = 0; k < genome.serve[0][data]; ++k) open.push_back({data});
  for (std::size_t layer = 0; layer < net.stages; ++layer) {
    auto matching = search.match(layer, genome.serve[layer], genome.serve[layer + 1]);
    const std::size_t width = net.width(layer + 1);
    std::vector<Hops> still;
    for (auto& hops : open)
      for (std::uint32_t to = 0; to < width; ++to) {
        std::int32_t& units = matching.units[hops.back() * width + to];
        if (units == 0) continue;
        --units;
        hops.push_back(to);
        still.push_back(std::move(hops));
        break;
      }
    open = std::move(still);
  }
  for (auto& hops : open) {
    hops.push_back(hops.front());
    if (net.cost(net.stages, hops[net.stages], hops.front()) < kFar) flows.add(hops);
  }
}

}  // namespace

Result<Solution> DtfmRouter::solve(const Network& network, std::uint64_t seed) const {
  const Layered net(network);
  std::int64_t count = INT64_MAX, pairs = 0;
  for (std::size_t layer = 0; layer <= net.stages; ++layer) {
    std::int64_t sum = 0;
    for (const std::int32_t capacity : net.capacity[layer]) sum += capacity;
    count = std::min(count, sum);
    pairs += static_cast<std::int64_t>(net.width(layer) * net.width(layer + 1));
  }
  FlowSet flows(net);
  if (count == 0) return flows.solution();
  Search search(net, count, seed);
  Random random(mix64(seed, 1));
  const std::int64_t trials = std::clamp<std::int64_t>(options_.steps / (pairs * 40 + 1), 10, options_.trials);
  std::vector<Genome> population;
  for (std::int64_t k = 0; k < std::min(trials, static_cast<std::int64_t>(options_.population)); ++k)
    population.push_back(search.random_genome());
  // Parents by tournaments of two; a child that is better takes the place of the worse of two others.
  const auto pick = [&](bool better) {
    const std::size_t a = random.below(population.size()), b = random.below(population.size());
    return (population[a].fitness < population[b].fitness) == better ? a : b;
  };
  for (std::int64_t trial = static_cast<std::int64_t>(population.size()); trial < trials; ++trial) {
    Genome made = search.child(population[pick(true)], population[pick(true)]);
    Genome& loser = population[pick(false)];
    if (made.fitness <= loser.fitness) loser = std::move(made);
  }
  const auto best = std::min_element(population.begin(), population.end(),
                                     [](const Genome& a, const Genome& b) { return a.fitness < b.fitness; });
  lay(net, search, *best, flows);
  return flows.solution();
}

}  // namespace tributary::flow
