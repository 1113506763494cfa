#include "flow/gwtf.h"

#include <queue>

#include "flow/gwtf_node.h"

namespace tributary::flow {
namespace {

using gwtf::Node;
using gwtf::NodeSetup;
using gwtf::Side;

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

// What each node is told at the start: its own links and who is beside it.
std::vector<Node> set_up(const Network& network, const GwtfOptions& options, std::uint64_t seed) {
  std::vector<NodeSetup> setups(network.size());
  for (std::uint32_t id = 0; id < network.size(); ++id) {
    setups[id].id = id;
    setups[id].capacity = network.capacity[id];
  }
  for (const std::uint32_t id : network.data_nodes) setups[id].data_node = true;
  for (const std::uint32_t id : network.stages.front()) setups[id].first_stage = true;
  std::vector<Node> nodes;
  for (const auto& setup : setups) nodes.emplace_back(setup, options, mix64(seed, setup.id + 1));
  const auto beside = [&](const std::vector<std::uint32_t>& stage) {
    for (const std::uint32_t id : stage)
      for (const std::uint32_t other : stage)
        if (other != id) nodes[id].link_up(Side::kBeside, other, 0);
  };
  beside(network.data_nodes);
  for (const auto& stage : network.stages) beside(stage);
  for (std::uint32_t id = 0; id < network.size(); ++id)
    for (const Link& link : network.links[id]) {
      nodes[id].link_up(Side::kNext, link.to, link.cost);
      nodes[link.to].link_up(Side::kLast, id, link.cost);
    }
  return nodes;
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
  std::vector<Node> nodes = set_up(network, options_, seed);
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
    TRIBUTARY_CHECK(node.ignored() == 0, "a message that fits nothing, though nobody was lost");
    post(node);
  }
  Solution solution = collect(network, nodes);
  solution.messages = static_cast<std::int64_t>(order);
  solution.rounds = now / kRound;
  return solution;
}

}  // namespace tributary::flow
