// SWARM's wiring as a static problem, in three forms. In every pass the data nodes send their microbatches in turns,
// and each hop chooses a next-stage peer by expected delays: moving averages, 0.6 of the old and 0.4 of what was seen
// (the link and the queue there), which start low, so that every peer is tried. The last pass counts.
//   greedy       the least expected delay, as the published code does. That a peer is full shows only as a delay: the
//                time-out enters the average, and the next best is asked.
//   refusing     the same, but a full peer refuses at once, which costs nothing and teaches nothing.
//   round robin  interleaved weighted round robin, as the paper says: each choice adds the peer's expected delay to its
//                account, and the least account is next. A full peer refuses.
#include <algorithm>
#include <optional>

#include "base/random.h"
#include "flow/routers.h"

namespace tributary::flow {
namespace {

constexpr int kPasses = 20;
constexpr double kOld = 0.6, kStart = 0.5;  // the start is in mean links
constexpr double kTimeOut = 2;              // the same: what a full peer costs a greedy microbatch

struct State {
  const Network& network;
  SwarmForm form;
  std::vector<std::vector<double>> expected;  // by node and link, in mean links
  std::vector<std::vector<double>> account;   // the same; round robin only
  std::vector<std::int64_t> load;
  double mean;
  std::int64_t refusals = 0, asked = 0;
};

// The peers to ask, the best first.
std::vector<std::size_t> order_of_peers(const State& state, std::uint32_t at, Random& random) {
  std::vector<std::size_t> order(state.network.links[at].size());
  for (std::size_t k = 0; k < order.size(); ++k) order[k] = k;
  random.shuffle(order);
  const auto& rank = state.form == SwarmForm::kRoundRobin ? state.account[at] : state.expected[at];
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return rank[a] < rank[b]; });
  return order;
}

// The next relay from `at` on the way of data node d, or nothing if those that it asked are full.
std::optional<std::uint32_t> next_hop(State& state, std::uint32_t at, std::uint32_t d, bool last, Random& random) {
  const Network& network = state.network;
  const auto& links = network.links[at];
  auto& expected = state.expected[at];
  for (const std::size_t k : order_of_peers(state, at, random)) {
    const std::uint32_t next = links[k].to;
    if (last && !network.cost(next, d)) continue;  // the last relay must have the way home
    ++state.asked;
    const bool full = state.load[next] >= network.capacity[next];
    if (!full || state.form == SwarmForm::kGreedy) {
      const double queue =
          full ? kTimeOut : static_cast<double>(state.load[next]) / static_cast<double>(network.capacity[next]);
      const double seen = static_cast<double>(links[k].cost) / state.mean + queue;
      expected[k] = kOld * expected[k] + (1 - kOld) * seen;
    }
    if (full) {
      ++state.refusals;
      continue;
    }
    if (state.form == SwarmForm::kRoundRobin) state.account[at][k] += expected[k];
    return next;
  }
  return std::nullopt;
}

// One microbatch from data node d; empty if it is given up on its way.
std::vector<NodeId> send_one(State& state, std::uint32_t d, Random& random) {
  std::vector<NodeId> path{NodeId(d)};
  for (std::size_t hop = 0; hop < state.network.stages.size(); ++hop) {
    const auto next = next_hop(state, path.back().value(), d, hop + 1 == state.network.stages.size(), random);
    if (!next) return {};
    path.push_back(NodeId(*next));
  }
  path.push_back(NodeId(d));
  return path;
}

}  // namespace

Result<Solution> SwarmRouter::solve(const Network& network, std::uint64_t seed) const {
  State state{network, form_, {}, {}, {}, static_cast<double>(std::max<Cost>(1, network.mean_cost()))};
  for (const auto& links : network.links) {
    state.expected.emplace_back(links.size(), kStart);
    state.account.emplace_back(links.size(), 0);
  }
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
