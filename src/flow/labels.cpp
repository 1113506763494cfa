#include "flow/labels.h"

#include <algorithm>
#include <map>
#include <optional>
#include <queue>

#include "base/check.h"
#include "base/random.h"
#include "flow/labels_node.h"
#include "flow/labels_pairing.h"

namespace tributary::flow {
namespace {

using labels::Node;
using labels::NodeSetup;
using labels::Timer;

// Message delays, drawn evenly; a round is a mean round trip. A label waits a while for others before it is looked at,
// and grows after some quiet rounds.
constexpr std::int64_t kDelayLeast = 50, kDelayMost = 150;
constexpr std::int64_t kRound = kDelayLeast + kDelayMost;
constexpr std::int64_t kHoldDown = 30, kQuietRounds = 3;

struct Event {
  std::int64_t due;
  std::uint64_t order;
  std::uint32_t node;
  std::optional<Timer> timer;  // otherwise a message, kept apart under its order
};
struct Later {
  bool operator()(const Event& a, const Event& b) const { return a.due != b.due ? a.due > b.due : a.order > b.order; }
};

std::vector<Node> set_up(const Network& network, const LabelsOptions& options) {
  std::vector<NodeSetup> setups(network.size());
  Cost dearest = 0;
  for (std::uint32_t id = 0; id < network.size(); ++id) {
    setups[id].id = id;
    setups[id].capacity = network.capacity[id];
    setups[id].sides = 2 * network.size();
    for (const Link& link : network.links[id]) dearest = std::max(dearest, link.cost);
  }
  for (const std::uint32_t data : network.data_nodes) setups[data].data_node = true;
  for (const std::uint32_t relay : network.stages.back()) setups[relay].last_stage = true;
  std::vector<Node> nodes;
  for (auto& setup : setups) {
    setup.one_flow = (dearest + 1) * static_cast<Cost>(2 * network.size() + 2);
    nodes.emplace_back(setup, options);
  }
  for (std::uint32_t id = 0; id < network.size(); ++id)
    for (const Link& link : network.links[id]) {
      nodes[id].link_up(true, link.to, link.cost);
      nodes[link.to].link_up(false, id, link.cost);
    }
  return nodes;
}

// Units on every link, [to] by from.
LabelsProgress::Point standing(const Network& network, const std::vector<Node>& nodes, std::int64_t now) {
  LabelsProgress::Point point{static_cast<double>(now) / kRound, 0, 0};
  for (std::uint32_t to = 0; to < nodes.size(); ++to)
    for (const auto& [from, units] : nodes[to].flows_in())
      if (units > 0) point.cost += units * *network.cost(from, to);
  for (const std::uint32_t data : network.data_nodes) point.count += nodes[data].load();
  return point;
}

// The ways that the units take; each relay joins what comes in to what goes out as it likes.
std::vector<std::vector<std::uint32_t>> ways(const Network& network, const std::vector<Node>& nodes) {
  std::vector<std::map<std::uint32_t, std::int32_t>> out(nodes.size());
  for (std::uint32_t to = 0; to < nodes.size(); ++to)
    for (const auto& [from, units] : nodes[to].flows_in())
      if (units > 0) out[from][to] = units;
  std::vector<std::vector<std::uint32_t>> paths;
  for (const std::uint32_t data : network.data_nodes)
    for (std::int32_t k = 0; k < nodes[data].load(); ++k) {
      std::vector<std::uint32_t> path{data};
      for (std::size_t hop = 0; hop <= network.stages.size(); ++hop) {
        auto& links = out[path.back()];
        const auto found = std::find_if(links.begin(), links.end(), [](const auto& link) { return link.second > 0; });
        TRIBUTARY_CHECK(found != links.end(), "what comes in goes out");
        --found->second;
        path.push_back(found->first);
      }
      paths.push_back(std::move(path));
    }
  return paths;
}

}  // namespace

Result<Solution> LabelsRouter::solve(const Network& network, std::uint64_t seed) const {
  return solve(network, seed, nullptr);
}

Result<Solution> LabelsRouter::solve(const Network& network, std::uint64_t seed, LabelsProgress* progress) const {
  std::vector<Node> nodes = set_up(network, options_);
  std::priority_queue<Event, std::vector<Event>, Later> queue;
  std::map<std::uint64_t, labels::Message> in_flight;
  Random random(mix64(seed, 0));
  std::int64_t now = 0, last_message = 0, messages = 0;
  std::uint64_t order = 0;
  const auto post = [&](std::uint32_t id) {
    for (auto& message : nodes[id].take_outbox()) {
      queue.push({now + random.between(kDelayLeast, kDelayMost), order, message.to, std::nullopt});
      in_flight.emplace(order++, std::move(message));
      ++messages;
      last_message = now;
    }
    for (const Timer timer : nodes[id].take_timers())
      queue.push({now + (timer == Timer::kGrow ? kQuietRounds * kRound : kHoldDown), order++, id, timer});
  };
  for (std::uint32_t id = 0; id < nodes.size(); ++id) {
    nodes[id].start();
    nodes[id].walk();
    post(id);
  }
  std::int64_t next_point = 0;
  while (!queue.empty()) {
    const Event next = queue.top();
    queue.pop();
    now = next.due;
    if (progress && now >= next_point) {
      progress->points.push_back(standing(network, nodes, now));
      next_point = now + kRound;
    }
    if (next.timer) {
      nodes[next.node].handle(*next.timer);
    } else {
      nodes[next.node].handle(in_flight.extract(next.order).mapped());
    }
    TRIBUTARY_CHECK(nodes[next.node].ignored() == 0, "a message that fits nothing, though nobody was lost");
    post(next.node);
  }
  if (progress) progress->points.push_back(standing(network, nodes, last_message));
  const auto paths = ways(network, nodes);
  labels::Paired paired = labels::pair_with_data_nodes(network, paths, mix64(seed, 1), options_.moves);
  paired.solution.messages += messages;
  paired.solution.rounds += last_message / kRound;
  return paired.solution;
}

}  // namespace tributary::flow
