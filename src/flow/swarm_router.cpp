// SWARM's wiring as a static problem: in every pass the data nodes send their microbatches in turns, and each hop takes
// the next-stage peer of the least expected delay that has room. Expected delays are moving averages, 0.6 of the old
// and 0.4 of what was seen (the link and the queue there), and start low, so that every peer is tried. The last pass
// counts.
#include <algorithm>

#include "base/random.h"
#include "flow/routers.h"

namespace tributary::flow {
namespace {

constexpr int kPasses = 20;
constexpr double kOld = 0.6, kStart = 0.5;  // the start is in mean links

struct State {
  const Network& network;
  std::vector<std::vector<double>> expected;  // by node and link, in mean links
  std::vector<std::int64_t> load;
  double mean;
  std::int64_t refusals = 0, asked = 0;
};

// One microbatch from data node d; empty if it finds every peer full on its way.
std::vector<NodeId> send_one(State& state, std::uint32_t d, Random& random) {
  const Network& network = state.network;
  std::vector<NodeId> path{NodeId(d)};
  for (std::size_t hop = 0; hop < network.stages.size(); ++hop) {
    const std::uint32_t at = path.back().value();
    const auto& links = network.links[at];
    auto& expected = state.expected[at];
    std::vector<std::size_t> order(links.size());
    for (std::size_t k = 0; k < order.size(); ++k) order[k] = k;
    random.shuffle(order);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return expected[a] < expected[b]; });
    bool found = false;
    for (const std::size_t k : order) {
      const std::uint32_t next = links[k].to;
      // The last relay must have the way home.
      if (hop + 1 == network.stages.size() && !network.cost(next, d)) continue;
      ++state.asked;
      if (state.load[next] >= network.capacity[next]) {
        ++state.refusals;
        continue;
      }
      const double queue = static_cast<double>(state.load[next]) / network.capacity[next];
      const double seen = static_cast<double>(links[k].cost) / state.mean + queue;
      expected[k] = kOld * expected[k] + (1 - kOld) * seen;
      path.push_back(NodeId(next));
      found = true;
      break;
    }
    if (!found) return {};
  }
  path.push_back(NodeId(d));
  return path;
}

}  // namespace

Result<Solution> SwarmRouter::solve(const Network& network, std::uint64_t seed) const {
  State state{network, {}, {}, static_cast<double>(std::max<Cost>(1, network.mean_cost()))};
  for (const auto& links : network.links) state.expected.emplace_back(links.size(), kStart);
  Random random(seed);
  Solution solution;
  for (int pass = 0; pass < kPasses; ++pass) {
    state.load.assign(network.size(), 0);
    solution.flows.clear();
    std::vector<std::uint32_t> active = network.data_nodes;
    while (!active.empty()) {
      std::vector<std::uint32_t> still;
      for (const std::uint32_t d : active) {
        if (state.load[d] >= network.capacity[d]) continue;
        auto path = send_one(state, d, random);
        if (path.empty()) continue;
        for (std::size_t k = 0; k + 1 < path.size(); ++k) ++state.load[path[k].value()];
        solution.flows.push_back(std::move(path));
        still.push_back(d);
      }
      active = std::move(still);
    }
  }
  for (const auto& flow : solution.flows)
    for (std::size_t k = 0; k + 1 < flow.size(); ++k)
      solution.cost += *network.cost(flow[k].value(), flow[k + 1].value());
  solution.count = static_cast<std::int64_t>(solution.flows.size());
  solution.messages = state.asked + state.refusals;
  solution.rounds = kPasses;
  return solution;
}

}  // namespace tributary::flow
