#include "flow/labels_pairing.h"

#include <algorithm>
#include <queue>

#include "base/random.h"
#include "flow/layered.h"

namespace tributary::flow::labels {
namespace {

constexpr std::int64_t kDelayLeast = 50, kDelayMost = 150, kRound = kDelayLeast + kDelayMost;

// An agent leads one flow. It asks the others for exchanges, moves, asks again, until it has moved so often as it may
// and nobody has changed since it last asked everybody.
struct Agent {
  Hops hops;
  Hops candidate;     // of the move under way
  bool busy = false;  // with something of its own, or locked by another
  int moves_left = 0;
  std::vector<std::size_t> to_ask;
  std::size_t partner = 0;  // of the exchange under way
};
enum class What { kThink, kExchange, kReserve, kMoved };
struct Event {
  std::int64_t due;
  std::uint64_t order;
  std::size_t agent;
  What what;
  bool operator<(const Event& other) const { return due != other.due ? due > other.due : order > other.order; }
};

class Pairing {
 public:
  Pairing(const Layered& net, std::vector<Hops> flows, std::uint64_t seed, int moves) : net_(net), random_(seed) {
    for (std::size_t layer = 0; layer <= net.stages; ++layer) load_.emplace_back(net.width(layer), 0);
    for (auto& hops : flows) {
      for (std::size_t layer = 0; layer <= net.stages; ++layer) ++load_[layer][hops[layer]];
      agents_.push_back({std::move(hops), {}, false, moves, {}, 0});
    }
    for (std::size_t a = 0; a < agents_.size(); ++a) {
      ask_everybody(a);
      schedule(a, What::kThink, lap(1));
    }
  }

  void run() {
    while (!queue_.empty()) {
      const Event event = queue_.top();
      queue_.pop();
      now_ = event.due;
      switch (event.what) {
        case What::kThink:
          think(event.agent);
          break;
        case What::kExchange:
          exchange(event.agent);
          break;
        case What::kReserve:
          reserve(event.agent);
          break;
        case What::kMoved:
          moved(event.agent);
          break;
      }
    }
  }

  std::vector<Hops> flows() const {
    std::vector<Hops> all;
    for (const Agent& agent : agents_) all.push_back(agent.hops);
    return all;
  }
  std::int64_t messages() const { return messages_; }
  std::int64_t rounds() const { return now_ / kRound; }

 private:
  // The time of `hops` messages one after the other, each as long as the slowest of `width` at the same time.
  std::int64_t lap(std::size_t hops, std::size_t width = 1) {
    std::int64_t sum = 0;
    for (std::size_t k = 0; k < hops; ++k) {
      std::int64_t slowest = 0;
      for (std::size_t i = 0; i < width; ++i) slowest = std::max(slowest, random_.between(kDelayLeast, kDelayMost));
      sum += slowest;
      messages_ += static_cast<std::int64_t>(width);
    }
    return sum;
  }
  void schedule(std::size_t agent, What what, std::int64_t delay) {
    queue_.push({now_ + delay, order_++, agent, what});
  }
  void ask_everybody(std::size_t a) {
    agents_[a].to_ask.clear();
    for (std::size_t b = 0; b < agents_.size(); ++b)
      if (b != a) agents_[a].to_ask.push_back(b);
    random_.shuffle(agents_[a].to_ask);
  }
  // This flow is new to all: it asks everybody itself.
  void changed(std::size_t a) { ask_everybody(a); }

  // How two flows that cross between each two layers would gain, and where they should; empty if they would not.
  std::vector<bool> crossings(const Hops& p, const Hops& q) const {
    std::vector<bool> cross(net_.stages + 1);
    Cost gain = 0, least_change = 4 * kFar;
    std::size_t changed = 0;
    bool odd = false;
    for (std::size_t layer = 0; layer <= net_.stages; ++layer) {
      const Cost more = net_.cost(layer, p[layer], q[layer + 1]) + net_.cost(layer, q[layer], p[layer + 1]) -
                        net_.cost(layer, p[layer], p[layer + 1]) - net_.cost(layer, q[layer], q[layer + 1]);
      if (more < 0) {
        cross[layer] = true;
        gain -= more;
        odd = !odd;
      }
      if (std::abs(more) < least_change) least_change = std::abs(more), changed = layer;
    }
    if (odd && p.front() != q.front()) {
      gain -= least_change;
      cross[changed] = !cross[changed];
    }
    if (gain <= 0) return {};
    return cross;
  }

  void think(std::size_t a) {
    Agent& agent = agents_[a];
    if (agent.busy) return schedule(a, What::kThink, lap(2));
    while (!agent.to_ask.empty()) {
      const std::size_t b = agent.to_ask.back();
      agent.to_ask.pop_back();
      messages_ += 2;  // question and answer
      if (agents_[b].busy) {
        agent.to_ask.insert(agent.to_ask.begin(), b);
        return schedule(a, What::kThink, lap(2));
      }
      if (crossings(agent.hops, agents_[b].hops).empty()) continue;
      agent.busy = agents_[b].busy = true;
      agent.partner = b;
      return schedule(a, What::kExchange, lap(2 * (net_.stages + 1), 2));
    }
    if (agent.moves_left == 0) return;
    --agent.moves_left;
    agent.busy = true;
    find_way(agent);
    std::int64_t wave = 0;
    for (std::size_t layer = 0; layer <= net_.stages; ++layer)
      wave += lap(1, net_.width(layer) * net_.width(layer + 1));
    schedule(a, What::kReserve, wave + lap(net_.stages + 1));
  }

  void exchange(std::size_t a) {
    Agent &agent = agents_[a], &other = agents_[agent.partner];
    const auto cross = crossings(agent.hops, other.hops);  // both were locked: as it was
    bool crossed = false;
    for (std::size_t layer = 0; layer <= net_.stages && !cross.empty(); ++layer) {
      if (cross[layer]) crossed = !crossed;
      if (crossed && layer < net_.stages) std::swap(agent.hops[layer + 1], other.hops[layer + 1]);
    }
    agent.busy = other.busy = false;
    const std::size_t b = agent.partner;
    changed(a);
    const bool slept = other.to_ask.empty() && other.moves_left == 0;
    changed(b);
    schedule(a, What::kThink, 0);
    if (slept) schedule(b, What::kThink, 0);
  }

  // The cheapest way through what has room, the own way included, from any data node with room.
  void find_way(Agent& agent) {
    const std::size_t stages = net_.stages;
    const auto room = [&](std::size_t layer, std::uint32_t place) {
      return load_[layer][place] < net_.capacity[layer][place] || agent.hops[layer] == place;
    };
    Cost least = kFar;
    for (std::uint32_t data = 0; data < net_.width(0); ++data) {
      if (!room(0, data)) continue;
      std::vector<std::vector<std::uint32_t>> before(stages + 2);
      std::vector<Cost> reach(net_.width(0), kFar);
      reach[data] = 0;
      for (std::size_t layer = 0; layer <= stages; ++layer) {
        std::vector<Cost> next(net_.width(layer + 1), kFar);
        before[layer + 1].resize(net_.width(layer + 1));
        for (std::uint32_t from = 0; from < reach.size(); ++from)
          for (std::uint32_t to = 0; to < next.size() && reach[from] < kFar; ++to) {
            if (layer < stages && !room(layer + 1, to)) continue;
            const Cost whole = reach[from] + net_.cost(layer, from, to);
            if (whole < next[to]) next[to] = whole, before[layer + 1][to] = from;
          }
        reach = std::move(next);
      }
      if (reach[data] >= least) continue;
      least = reach[data];
      agent.candidate.assign(stages + 2, data);
      for (std::size_t layer = stages + 1; layer > 1; --layer)
        agent.candidate[layer - 1] = before[layer][agent.candidate[layer]];
    }
  }

  Cost cost_of(const Hops& hops) const {
    Cost sum = 0;
    for (std::size_t layer = 0; layer <= net_.stages; ++layer) sum += net_.cost(layer, hops[layer], hops[layer + 1]);
    return sum;
  }

  void reserve(std::size_t a) {
    Agent& agent = agents_[a];
    bool room = cost_of(agent.candidate) < cost_of(agent.hops);
    for (std::size_t layer = 0; layer <= net_.stages; ++layer) {
      const std::uint32_t place = agent.candidate[layer];
      room = room && (place == agent.hops[layer] || load_[layer][place] < net_.capacity[layer][place]);
    }
    if (!room) {
      agent.busy = false;
      return schedule(a, What::kThink, lap(1));
    }
    for (std::size_t layer = 0; layer <= net_.stages; ++layer)
      if (agent.candidate[layer] != agent.hops[layer]) ++load_[layer][agent.candidate[layer]];
    schedule(a, What::kMoved, lap(net_.stages + 1));
  }

  void moved(std::size_t a) {
    Agent& agent = agents_[a];
    for (std::size_t layer = 0; layer <= net_.stages; ++layer)
      if (agent.candidate[layer] != agent.hops[layer]) --load_[layer][agent.hops[layer]];
    agent.hops = agent.candidate;
    agent.busy = false;
    changed(a);
    schedule(a, What::kThink, 0);
  }

  const Layered& net_;
  Random random_;
  std::vector<std::vector<std::int32_t>> load_;
  std::vector<Agent> agents_;
  std::priority_queue<Event> queue_;
  std::uint64_t order_ = 0;
  std::int64_t now_ = 0, messages_ = 0;
};

}  // namespace

Paired pair_with_data_nodes(const Network& network, const std::vector<std::vector<std::uint32_t>>& paths,
                            std::uint64_t seed, int moves) {
  const Layered net(network);
  std::vector<std::uint32_t> place(network.size());
  for (const auto& layer : net.nodes)
    for (std::uint32_t k = 0; k < layer.size(); ++k) place[layer[k]] = k;
  std::vector<Hops> flows;
  for (const auto& path : paths) {
    Hops hops;
    for (const std::uint32_t node : path) hops.push_back(place[node]);
    hops.back() = hops.front();
    if (net.cost(net.stages, hops[net.stages], hops.front()) < kFar) flows.push_back(std::move(hops));
  }
  Paired answer;
  if (network.data_nodes.size() > 1) {
    Pairing pairing(net, std::move(flows), seed, moves);
    pairing.run();
    flows = pairing.flows();
    answer.solution.messages = pairing.messages();
    answer.solution.rounds = pairing.rounds();
  }
  const std::int64_t messages = answer.solution.messages, rounds = answer.solution.rounds;
  FlowSet set(net);
  for (const Hops& hops : flows) set.add(hops);
  answer.solution = set.solution();
  answer.solution.messages = messages;
  answer.solution.rounds = rounds;
  return answer;
}

}  // namespace tributary::flow::labels
