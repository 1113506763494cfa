#include "swarm/context.h"

#include <gtest/gtest.h>

namespace tributary::swarm {
namespace {

constexpr StageId kFirst{1}, kSecond{2};

// Two relays of the first stage, 1 and 2, and one of the second, 3.
struct Known {
  Context context;

  Known() : context(options(), {}) {
    const auto add = [&](std::uint32_t node, StageId stage) {
      context.ledger.plan.members.push_back({NodeId(node), Incarnation(1), stage, 1, false});
    };
    add(0, StageId(0));
    add(1, kFirst);
    add(2, kFirst);
    add(3, kSecond);
  }
  static NodeOptions options() {
    NodeOptions options;
    options.self = NodeId(0);
    options.run.stages = 2;
    options.run.microbatches = 8;
    return options;
  }
};

// A relay that dies may come back in another stage. Paths drawn before still lead through its former one, and who
// waited there for it would wait for ever.
TEST(Context, AMemberIsUsableInItsOwnStageOnly) {
  Known known;
  EXPECT_TRUE(known.context.usable(NodeId(1), kFirst));
  EXPECT_FALSE(known.context.usable(NodeId(1), kSecond));
  EXPECT_FALSE(known.context.usable(NodeId(9), kFirst));
}

TEST(Context, ListenersAndTheDeadAreNotUsable) {
  Known known;
  known.context.ledger.plan.members[1].listener = true;
  known.context.dead.insert(NodeId(2));
  EXPECT_FALSE(known.context.usable(NodeId(1), kFirst));
  EXPECT_FALSE(known.context.usable(NodeId(2), kFirst));
  EXPECT_TRUE(known.context.reachable(NodeId(1)));
}

TEST(Context, WhoStandsInServesTheStageOfThePart) {
  Known known;
  for (std::uint32_t m = 0; m < 8; ++m) {
    const auto node = known.context.replacement(PartId(1), MicrobatchId(m), {NodeId(1)});
    EXPECT_EQ(node, NodeId(2)) << m;
    EXPECT_EQ(known.context.replacement(PartId(2), MicrobatchId(m), {NodeId(3)}), wire::kNobody) << m;
  }
}

}  // namespace
}  // namespace tributary::swarm
