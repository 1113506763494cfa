#include "flow/planned.h"

#include <algorithm>

#include "base/random.h"
#include "flow/layered.h"
#include "flow/routers.h"

namespace tributary::flow {
namespace {

constexpr std::size_t kMostEvicted = 6;

// The flows of the interchangeable problem, each back to the data node that it left.
void lead_home(const Network& network, const Layered& net, FlowSet& flows) {
  std::vector<std::uint32_t> place(network.size());
  for (const auto& layer : net.nodes)
    for (std::uint32_t k = 0; k < layer.size(); ++k) place[layer[k]] = k;
  for (const auto& path : interchangeable_paths(network)) {
    Hops hops;
    for (const std::uint32_t node : path) hops.push_back(place[node]);
    hops.back() = hops.front();
    if (net.cost(net.stages, hops[net.stages], hops.front()) < kFar) flows.add(hops);
  }
}

void recombine_all(FlowSet& flows) {
  for (bool gained = true; gained;) {
    gained = false;
    for (std::size_t a = 0; a < flows.size(); ++a)
      for (std::size_t b = a + 1; b < flows.size(); ++b) gained |= flows.recombine(a, b);
  }
}

class Eviction {
 public:
  Eviction(const Layered& net, FlowSet& flows, std::uint64_t seed) : net_(net), flows_(flows), random_(seed) {}

  // `bound`: no more flows than that are possible. Leaves the best set found.
  void run(std::int64_t rounds, std::size_t bound, double heat) {
    FlowSet::State best = flows_.state(), before = best;
    for (std::int64_t round = 0; round < rounds && flows_.size() > 0; ++round) {
      evict_and_insert();
      if (flows_.size() < bound) insert_more();
      const double left = 1 - static_cast<double>(round) / static_cast<double>(rounds);
      const auto allowed = static_cast<Cost>(heat * left * left * random_.uniform());
      const FlowSet::State& now = flows_.state();
      const bool kept = now.size > before.size || (now.size == before.size && now.cost <= before.cost + allowed);
      if (!kept) {
        flows_.set_state(before);
        continue;
      }
      if (now.better_than(best)) best = now;
      before = now;
    }
    flows_.set_state(best);
  }

  void insert_more() {
    for (std::uint32_t data = 0; data < net_.width(0); ++data)
      while (const Hops* hops = flows_.cheapest(data)) flows_.add(*hops);
  }

 private:
  // Some flows, half of the time such as share a relay with the first.
  void evict_and_insert() {
    const std::size_t count = std::min(flows_.size(), 1 + random_.below(kMostEvicted));
    const std::size_t first = random_.below(flows_.size());
    const bool related = random_.chance(0.5);
    anchor_.assign(flows_.at(first), flows_.at(first) + net_.stages + 2);
    evicted_.assign(1, anchor_[0]);
    flows_.remove(first);
    for (std::size_t tries = 0; evicted_.size() < count && tries < 8 * count && flows_.size() > 0; ++tries) {
      const std::size_t flow = random_.below(flows_.size());
      const std::size_t layer = 1 + random_.below(net_.stages);
      if (related && tries < 4 * count && flows_.at(flow)[layer] != anchor_[layer]) continue;
      evicted_.push_back(flows_.at(flow)[0]);
      flows_.remove(flow);
    }
    random_.shuffle(evicted_);
    const std::size_t old = flows_.size();
    // Often the data nodes may change too: more could be launched than relays can carry.
    const bool any = random_.chance(0.5);
    for (const std::uint32_t data : evicted_)
      if (const Hops* hops = any ? cheapest_of_any() : flows_.cheapest(data)) flows_.add(*hops);
    for (std::size_t a = old; a < flows_.size(); ++a)
      for (std::size_t b = 0; b < flows_.size(); ++b)
        if (a != b) flows_.recombine(a, b);
  }

  const Hops* cheapest_of_any() {
    Cost least = kFar;
    for (std::uint32_t data = 0; data < net_.width(0); ++data)
      if (const Hops* hops = flows_.cheapest(data))
        if (const Cost cost = flows_.cost_of(hops->data()); cost < least) {
          least = cost;
          choice_ = *hops;
        }
    return least < kFar ? &choice_ : nullptr;
  }

  const Layered& net_;
  FlowSet& flows_;
  Random random_;
  Hops choice_;
  Hops anchor_;
  std::vector<std::uint32_t> evicted_;  // their data nodes
};

}  // namespace

Result<Solution> PlannedRouter::solve(const Network& network, std::uint64_t seed) const {
  if (network.data_nodes.size() == 1) return OptimalRouter().solve(network, seed);
  const Layered net(network);
  FlowSet flows(net);
  lead_home(network, net, flows);
  recombine_all(flows);
  const auto bound = static_cast<std::size_t>(interchangeable_bound(network).count);
  const std::size_t widest = std::max_element(net.nodes.begin(), net.nodes.end(), [](const auto& a, const auto& b) {
                               return a.size() < b.size();
                             })->size();
  const auto step = static_cast<std::int64_t>(kMostEvicted / 2 * net.stages * (widest * widest + 4 * flows.size() + 1));
  const double heat = 0.12 * static_cast<double>(network.mean_cost());
  Eviction eviction(net, flows, seed);
  eviction.insert_more();
  eviction.run(std::min(options_.rounds, options_.steps / step + 1), bound, heat);
  recombine_all(flows);
  return flows.solution();
}

}  // namespace tributary::flow
