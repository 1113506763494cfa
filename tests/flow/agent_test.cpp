// The agents of local routers among each other, over links that keep order, while nodes die and lie.
#include "flow/agent.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <queue>
#include <set>

#include "base/random.h"
#include "flow/random_network.h"
#include "flow/router.h"

namespace tributary::flow {
namespace {

constexpr std::int64_t kDelayLeast = 50, kDelayMost = 150;

// Messages of a pair arrive in order; a timer for a quick look is a fraction of a delay.
class Swarm {
 public:
  Swarm(std::string router, Network network, std::uint64_t seed)
      : router_(std::move(router)), network_(std::move(network)), random_(seed), seed_(seed) {
    start({});
  }

  void start(const std::vector<AgentPath>& flows) {
    queue_ = {};
    last_arrival_.clear();
    agents_.clear();
    for (std::uint32_t id = 0; id < network_.size(); ++id) {
      AgentSetup setup;
      setup.id = id;
      setup.data_node = in(network_.data_nodes, id);
      setup.first_stage = in(network_.stages.front(), id);
      setup.last_stage = in(network_.stages.back(), id);
      setup.capacity = network_.capacity[id];
      setup.nodes = network_.size();
      setup.seed = mix64(seed_, id);
      setup.settled = !flows.empty();
      agents_.push_back(make_agent(router_, setup));
      if (!dead_.contains(id)) agents_[id]->start(flows);
    }
    for (const auto& stage : network_.stages)
      for (const auto a : stage)
        for (const auto b : stage)
          if (a != b && alive(a, b)) agents_[a]->link_up(AgentSide::kBeside, b, 0);
    for (std::uint32_t id = 0; id < network_.size(); ++id)
      for (const Link& link : network_.links[id]) {
        if (!alive(id, link.to)) continue;
        agents_[id]->link_up(AgentSide::kNext, link.to, link.cost);
        agents_[link.to]->link_up(AgentSide::kLast, id, link.cost);
      }
    for (std::uint32_t id = 0; id < network_.size(); ++id) post(id);
  }
  // What it had sent still arrives; all who know it learn of its end a delay later.
  void kill(std::uint32_t victim) {
    dead_.insert(victim);
    for (std::uint32_t id = 0; id < network_.size(); ++id)
      if (id != victim) push({now_ + kDelayMost + 1, order_++, id, victim, {}, {}, true});
  }
  bool alive(std::uint32_t a, std::uint32_t b) const { return !dead_.contains(a) && !dead_.contains(b); }

  // Until nothing happens any more, or so many events.
  bool run(std::size_t most = 2'000'000) {
    for (std::size_t k = 0; k < most; ++k) {
      if (queue_.empty()) return true;
      const Event event = queue_.top();
      queue_.pop();
      now_ = event.due;
      if (dead_.contains(event.to)) continue;
      auto& agent = *agents_[event.to];
      if (event.lost) {
        agent.peer_lost(event.from);
        gone_.insert({event.to, event.from});
      } else if (event.timer) {
        agent.timer(*event.timer);
      } else if (!gone_.contains({event.to, event.from})) {
        EXPECT_TRUE(agent.receive(event.from, event.words));
      }
      post(event.to);
    }
    return false;
  }
  // Whole ways, each unit once; every piece must belong to one, within the capacities.
  std::vector<AgentPath> ways() {
    std::map<std::pair<std::uint32_t, std::uint32_t>, AgentFlow> pieces;
    std::size_t count = 0;
    for (std::uint32_t id = 0; id < network_.size(); ++id) {
      if (dead_.contains(id)) continue;
      std::int32_t load = 0;
      for (const auto& flow : agents_[id]->flows()) {
        pieces[{id, flow.id}] = flow;
        ++count, ++load;
      }
      EXPECT_LE(load, network_.capacity[id]);
    }
    std::vector<AgentPath> ways;
    for (const auto data : network_.data_nodes)
      for (const auto& flow : agents_[data]->flows()) {
        AgentPath way = {data};
        auto at = flow;
        while (way.size() <= network_.stages.size()) {
          way.push_back(at.next);
          const auto next = pieces.find({at.next, at.next_id});
          if (next == pieces.end()) break;
          at = next->second;
        }
        way.push_back(at.next);
        EXPECT_EQ(way.size(), network_.stages.size() + 2);
        EXPECT_EQ(way.back(), data);
        count -= network_.stages.size() + 1;
        ways.push_back(std::move(way));
      }
    EXPECT_EQ(count, 0u) << "pieces of no flow";
    return ways;
  }
  Cost cost(const std::vector<AgentPath>& ways) const {
    Cost sum = 0;
    for (const auto& way : ways)
      for (std::size_t at = 0; at + 1 < way.size(); ++at) sum += network_.cost(way[at], way[at + 1]).value();
    return sum;
  }
  // How many units leave the data nodes, and what all cost.
  std::pair<std::int64_t, Cost> units() {
    std::pair<std::int64_t, Cost> sum;
    for (std::uint32_t id = 0; id < network_.size(); ++id)
      for (const auto& flow : agents_[id]->flows()) {
        sum.second += flow.units * network_.cost(id, flow.next).value();
        if (in(network_.data_nodes, id)) sum.first += flow.units;
      }
    return sum;
  }
  // Of those who live.
  Solution optimum() const {
    Network rest = network_;
    for (const auto id : dead_) rest.capacity[id] = 0;
    return *(*make_router("optimal"))->solve(rest, 1);
  }
  Agent& agent(std::uint32_t id) { return *agents_[id]; }
  const Network& network() const { return network_; }
  std::vector<Words> heard;  // all that was said

 private:
  struct Event {
    std::int64_t due;
    std::uint64_t order;
    std::uint32_t to, from;
    Words words;
    std::optional<AgentTimer> timer;
    bool lost = false;
    bool operator<(const Event& other) const { return std::tie(due, order) > std::tie(other.due, other.order); }
  };
  static bool in(const std::vector<std::uint32_t>& list, std::uint32_t id) {
    return std::find(list.begin(), list.end(), id) != list.end();
  }
  void push(Event event) { queue_.push(std::move(event)); }
  void post(std::uint32_t id) {
    for (auto& out : agents_[id]->take_outbox()) {
      auto& last = last_arrival_[{id, out.to}];
      last = std::max(last, now_ + random_.between(kDelayLeast, kDelayMost));
      if (heard.size() < 20000) heard.push_back(out.words);
      if (!gone_.contains({id, out.to})) push({last, order_++, out.to, id, std::move(out.words), {}, false});
    }
    for (const auto timer : agents_[id]->take_timers())
      push({now_ + (timer == AgentTimer::kQuiet ? 600 : 30), order_++, id, id, {}, timer, false});
  }

  const std::string router_;
  const Network network_;
  Random random_;
  const std::uint64_t seed_;
  std::vector<std::unique_ptr<Agent>> agents_;
  std::priority_queue<Event> queue_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::int64_t> last_arrival_;
  std::set<std::uint32_t> dead_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> gone_;  // (who, of whom): gave up
  std::int64_t now_ = 0;
  std::uint64_t order_ = 0;
};

Network network_of(std::uint64_t seed) {
  RandomNetworkOptions options;
  options.data_nodes = 1 + seed % 2;
  options.stages = 3 + seed % 3;
  options.relays = 5;
  options.most_capacity = 4;
  return random_network(options, seed);
}

TEST(GwtfAgents, FindAllFlowsAndNearlyTheCheapest) {
  double gap = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Swarm swarm("gwtf", network_of(seed), seed);
    ASSERT_TRUE(swarm.run()) << "never quiet: " << seed;
    const auto ways = swarm.ways();
    const auto best = swarm.optimum();
    ASSERT_EQ(static_cast<std::int64_t>(ways.size()), best.count) << seed;
    gap += static_cast<double>(swarm.cost(ways)) / static_cast<double>(best.cost) - 1;
  }
  EXPECT_LE(gap / 20, 0.06);
}

TEST(GwtfAgents, DeathsInTheMiddleLeaveNoHalfFlows) {
  std::size_t as_many = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Swarm swarm("gwtf", network_of(seed), seed);
    Random random(seed);
    for (int k = 0; k < 3; ++k) {
      swarm.run(static_cast<std::size_t>(random.between(10, 3000)));
      const auto& stage = random.pick(swarm.network().stages);
      swarm.kill(random.pick(stage));
    }
    ASSERT_TRUE(swarm.run()) << seed;
    const auto ways = swarm.ways();
    const auto best = swarm.optimum().count;
    EXPECT_LE(static_cast<std::int64_t>(ways.size()), best) << seed;
    as_many += static_cast<std::int64_t>(ways.size()) == best;
  }
  EXPECT_GE(as_many, 55u) << "of 60 swarms, with all flows that the living allow";
}

TEST(GwtfAgents, GoOnFromTheFlowsThatStood) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Swarm swarm("gwtf", network_of(seed), seed);
    ASSERT_TRUE(swarm.run());
    const auto before = swarm.ways();
    swarm.start(before);
    ASSERT_TRUE(swarm.run());
    const auto after = swarm.ways();
    EXPECT_EQ(after.size(), before.size());
    EXPECT_LE(swarm.cost(after), swarm.cost(before)) << seed;
  }
}

// Words that an honest agent said, to another one than meant, bent, cut or lengthened: refused or of no consequence.
class Lies : public testing::TestWithParam<const char*> {};

TEST_P(Lies, AreRefusedOrOfNoConsequence) {
  std::size_t refused = 0, taken = 0;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    Swarm swarm(GetParam(), network_of(seed), seed);
    swarm.run(500);
    Random random(seed);
    for (int k = 0; k < 20000; ++k) {
      auto words = random.pick(swarm.heard);
      if (!words.empty() && random.chance(0.8)) words[random.below(words.size())] = random.next() >> random.below(64);
      if (random.chance(0.1)) words.push_back(random.next());
      if (random.chance(0.1) && !words.empty()) words.pop_back();
      const auto to = static_cast<std::uint32_t>(random.below(swarm.network().size()));
      const auto from = static_cast<std::uint32_t>(random.below(swarm.network().size()));
      ++(swarm.agent(to).receive(from, words) ? taken : refused);
      if (k % 64 == 0) swarm.agent(to).peer_lost(from);
      (void)swarm.agent(to).take_outbox();
      for (const auto timer : swarm.agent(to).take_timers()) swarm.agent(to).timer(timer);
    }
    for (std::uint32_t id = 0; id < swarm.network().size(); ++id) EXPECT_LE(swarm.agent(id).flows().size(), 1000u);
  }
  EXPECT_GT(refused, 10000u);
  EXPECT_GT(taken, 10000u);
}

TEST(LabelsAgents, AreExactWithOneDataNode) {
  for (std::uint64_t seed = 2; seed <= 30; seed += 2) {
    Swarm swarm("labels", network_of(seed), seed);
    ASSERT_TRUE(swarm.run()) << "never quiet: " << seed;
    const auto best = swarm.optimum();
    EXPECT_EQ(swarm.units().first, best.count) << seed;
    EXPECT_EQ(swarm.units().second, best.cost) << seed;
  }
}

TEST(LabelsAgents, GoOnFromTheFlowsThatStood) {
  for (std::uint64_t seed = 2; seed <= 20; seed += 2) {
    const auto network = network_of(seed);
    Swarm swarm("labels", network, seed);
    const auto greedy = (*make_router("swarm"))->solve(network, seed);
    std::vector<AgentPath> flows;
    for (const auto& flow : greedy->flows) {
      auto& path = flows.emplace_back();
      for (const auto id : flow) path.push_back(id.value());
    }
    flows.resize(flows.size() / 2);
    swarm.start(flows);
    ASSERT_TRUE(swarm.run()) << seed;
    EXPECT_EQ(swarm.units().first, swarm.optimum().count) << seed;
    EXPECT_EQ(swarm.units().second, swarm.optimum().cost) << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Agents, Lies, testing::Values("gwtf", "labels"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tributary::flow
