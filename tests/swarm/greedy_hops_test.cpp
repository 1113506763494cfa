#include "swarm/greedy_hops.h"

#include <gtest/gtest.h>

namespace tributary::swarm {
namespace {

struct Fixture {
  explicit Fixture(std::uint16_t slots = 8) : context(options(), {}), greedy(context) {
    for (std::uint32_t id = 1; id <= 3; ++id)
      context.ledger.plan.members.push_back({NodeId(id), Incarnation(1), StageId(1), slots, false});
  }
  static NodeOptions options() {
    NodeOptions options;
    options.run.router = "swarm";
    return options;
  }
  NodeId choose(std::uint32_t microbatch = 0, const std::set<NodeId>& avoid = {}) {
    return greedy.choose(StageId(1), MicrobatchId(microbatch), avoid);
  }
  Context context;
  GreedyHops greedy;
};

TEST(GreedyHops, TakesTheLeastAverageAndTriesEveryPeerAtFirst) {
  Fixture f;
  f.greedy.took(NodeId(1), seconds(2));
  f.greedy.took(NodeId(2), seconds(3));
  EXPECT_EQ(f.choose(), NodeId(3));  // not tried yet: 0.5 s
  f.greedy.took(NodeId(3), seconds(9));
  EXPECT_DOUBLE_EQ(f.greedy.average(NodeId(3)), 0.6 * 0.5 + 0.4 * 9);
  EXPECT_EQ(f.choose(), NodeId(1));
}

TEST(GreedyHops, PassesOverWhoIsFullAndComesBackWhenItIsNot) {
  Fixture f(1);
  f.greedy.took(NodeId(2), seconds(1));
  f.greedy.took(NodeId(3), seconds(2));
  EXPECT_EQ(f.choose(), NodeId(1));
  EXPECT_EQ(f.choose(), NodeId(2));
  EXPECT_EQ(f.choose(), NodeId(3));
  EXPECT_EQ(f.choose(), NodeId(1)) << "all are full: the least average of the least loaded";
  f.greedy.took(NodeId(3), seconds(2));
  EXPECT_EQ(f.choose(), NodeId(3)) << "the only one with room";
  f.greedy.begin();
  EXPECT_EQ(f.choose(), NodeId(1));
}

TEST(GreedyHops, LeavesOutListenersTheDeadAndThoseToAvoid) {
  Fixture f;
  f.context.ledger.plan.members[0].listener = true;
  f.context.dead.insert(NodeId(2));
  EXPECT_EQ(f.choose(), NodeId(3));
  EXPECT_EQ(f.choose(0, {NodeId(3)}), wire::kNobody);
}

}  // namespace
}  // namespace tributary::swarm
