#include "flow/gwtf.h"

#include <queue>

#include "flow/gwtf_node.h"

namespace tributary::flow {
namespace {

using gwtf::Node;
using gwtf::NodeSetup;

// Message delays, drawn evenly; a round is a mean round trip.
constexpr std::int64_t kDelayLeast = 50, kDelayMost = 150;
constexpr std::int64_t kRound = kDelayLeast + kDelayMost;

struct InFlight {
  std::int64_t due;
  std::uint64_t order;  // ties in the order sent
  gwtf::Message message;
};
struct Later {
  bool operator()(const InFlight& a, const InFlight& b) const {
    return a.due != b.due ? a.due > b.due : a.order > b.order;
  }
};

std::vector<std::uint32_t> places(const Network& network) {
  std::vector<std::uint32_t> place(network.size(), 0);
  const auto number = [&](const std::vector<std::uint32_t>& list) {
    for (std::uint32_t k = 0; k < list.size(); ++k) place[list[k]] = k;
  };
  number(network.data_nodes);
  for (const auto& stage : network.stages) number(stage);
  return place;
}

// What each node is told at the start: its own links and who is beside it.
std::vector<NodeSetup> set_up(const Network& network, const std::vector<std::uint32_t>& place) {
  std::vector<NodeSetup> setups(network.size());
  const std::size_t stages = network.stages.size();
  const auto at = [&](std::size_t stage) -> const std::vector<std::uint32_t>& {
    return stage == 0 || stage == stages + 1 ? network.data_nodes : network.stages[stage - 1];
  };
  for (std::size_t stage = 0; stage <= stages; ++stage)
    for (const std::uint32_t id : at(stage)) {
      NodeSetup& setup = setups[id];
      setup.id = id;
      setup.data_node = stage == 0;
      setup.first_stage = stage == 1;
      setup.capacity = network.capacity[id];
      setup.place = &place;
      for (const std::uint32_t other : at(stage))
        if (other != id) setup.stage.push_back(other);
      setup.costs.to_next.assign(at(stage + 1).size(), gwtf::kNoLink);
      setup.costs.from_last.assign(at(stage == 0 ? stages : stage - 1).size(), gwtf::kNoLink);
    }
  for (std::uint32_t id = 0; id < network.size(); ++id)
    for (const Link& link : network.links[id]) {
      setups[id].next.push_back(link.to);
      setups[id].costs.to_next[place[link.to]] = link.cost;
      setups[link.to].last.push_back(id);
      setups[link.to].costs.from_last[place[id]] = link.cost;
    }
  return setups;
}

Solution collect(const Network& network, const std::vector<Node>& nodes) {
  Solution solution;
  for (const std::uint32_t d : network.data_nodes)
    for (const auto& [id, first] : nodes[d].hops()) {
      if (first.sink || first.pending) continue;
      std::vector<NodeId> path{NodeId(d)};
      const gwtf::Hop* hop = &first;
      while (!hop->sink) {
        TRIBUTARY_CHECK(path.size() <= network.stages.size() + 1, "a flow without end");
        solution.cost += *network.cost(path.back().value(), hop->next.node);
        path.push_back(NodeId(hop->next.node));
        hop = &nodes[hop->next.node].hops().at(hop->next.hop);
      }
      solution.flows.push_back(std::move(path));
    }
  solution.count = static_cast<std::int64_t>(solution.flows.size());
  return solution;
}

}  // namespace

Result<Solution> GwtfRouter::solve(const Network& network, std::uint64_t seed) const {
  const auto place = places(network);
  std::vector<Node> nodes;
  for (auto& setup : set_up(network, place)) {
    const std::uint64_t own_seed = mix64(seed, setup.id + 1);
    nodes.emplace_back(std::move(setup), options_, own_seed);
  }
  std::priority_queue<InFlight, std::vector<InFlight>, Later> queue;
  Random random(mix64(seed, 0));
  std::int64_t now = 0;
  std::uint64_t order = 0;
  const auto post = [&](Node& node) {
    for (auto& message : node.take_outbox())
      queue.push({now + random.between(kDelayLeast, kDelayMost), order++, std::move(message)});
  };
  for (auto& node : nodes) {
    node.start();
    post(node);
  }
  // It has settled when nobody has anything to say.
  while (!queue.empty()) {
    const InFlight next = queue.top();
    queue.pop();
    now = next.due;
    Node& node = nodes[next.message.to];
    node.handle(next.message);
    post(node);
  }
  Solution solution = collect(network, nodes);
  solution.messages = static_cast<std::int64_t>(order);
  solution.rounds = now / kRound;
  return solution;
}

}  // namespace tributary::flow
