#include <gtest/gtest.h>

#include <set>

#include "swarm/ledger.h"
#include "swarm/planner.h"

namespace tributary::swarm {
namespace {

RunOptions run_with(const std::string& router) {
  RunOptions run;
  run.stages = 2;
  run.microbatches = 6;
  run.router = router;
  return run;
}

Candidate candidate(std::uint32_t id, std::uint16_t stage, std::int64_t forward_ms, std::uint16_t slots) {
  Candidate c;
  c.member = {NodeId(id), Incarnation(1), StageId(stage), slots, false};
  c.forward = milliseconds(forward_ms);
  return c;
}

std::vector<Candidate> two_by_two() {
  return {candidate(0, 0, 0, 8), candidate(1, 1, 10, 4), candidate(2, 1, 80, 4), candidate(3, 2, 10, 4),
          candidate(4, 2, 10, 4)};
}

class EveryRouter : public testing::TestWithParam<const char*> {};

TEST_P(EveryRouter, GivesEachMicrobatchOneLiveRelayOfEachStageAndItsOwnDataNode) {
  const auto run = run_with(GetParam());
  const auto plan = make_plan(run, two_by_two());
  ASSERT_EQ(plan.paths.size(), run.microbatches);
  for (const auto& path : plan.paths) {
    ASSERT_EQ(path.size(), 4u);
    EXPECT_EQ(path.front(), path.back());
    for (std::size_t p = 0; p < 3; ++p) {
      const auto* member = member_of(plan, path[p]);
      ASSERT_NE(member, nullptr);
      EXPECT_EQ(member->stage.value(), p);
      EXPECT_FALSE(member->listener);
    }
  }
}

TEST_P(EveryRouter, LeavesListenersOffThePaths) {
  auto candidates = two_by_two();
  candidates[1].member.listener = true;
  const auto plan = make_plan(run_with(GetParam()), candidates);
  for (const auto& path : plan.paths) EXPECT_EQ(path[1], NodeId(2));
}

TEST_P(EveryRouter, ServesSeveralDataNodes) {
  auto candidates = two_by_two();
  candidates.push_back(candidate(5, 0, 0, 8));
  const auto plan = make_plan(run_with(GetParam()), candidates);
  std::set<NodeId> data_nodes;
  for (const auto& path : plan.paths) data_nodes.insert(path.front());
  EXPECT_EQ(data_nodes.size(), 2u);
}

INSTANTIATE_TEST_SUITE_P(Planner, EveryRouter,
                         testing::Values("planned", "earliest-finish", "gwtf", "labels", "swarm", "optimal"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(Planner, MicrobatchesTakeTheFlowsOfTheirDataNodeInTurnAndTheOthersFinishEarliest) {
  auto candidates = two_by_two();
  candidates.push_back(candidate(5, 0, 0, 8));
  const auto n = [](std::uint32_t id) { return NodeId(id); };
  const Chains chains = {{n(0), {{n(0), n(2), n(3), n(0)}, {n(0), n(1), n(4), n(0)}}}};
  const auto plan = make_plan(run_with("gwtf"), candidates, {}, 0, chains);
  EXPECT_EQ(plan.paths[0], chains.at(n(0))[0]);
  EXPECT_EQ(plan.paths[2], chains.at(n(0))[1]);
  EXPECT_EQ(plan.paths[4], chains.at(n(0))[0]);
  const auto without = make_plan(run_with("earliest-finish"), candidates);
  for (const std::size_t m : {1, 3, 5}) EXPECT_EQ(plan.paths[m], without.paths[m]);
}

TEST(Planner, EarliestFinishGivesTheSlowRelayLessWork) {
  const auto plan = make_plan(run_with("earliest-finish"), two_by_two());
  int slow = 0;
  for (const auto& path : plan.paths) slow += path[1] == NodeId(2);
  EXPECT_LE(slow, 1);
}

TEST(Planner, ANewcomerGetsWorkBeforeItWasMeasured) {
  auto candidates = two_by_two();
  candidates[1].forward = milliseconds(2);
  candidates[2].forward = Duration::zero();
  const auto plan = make_plan(run_with("earliest-finish"), candidates);
  int newcomer = 0;
  for (const auto& path : plan.paths) newcomer += path[1] == NodeId(2);
  EXPECT_EQ(newcomer, 3);
}

TEST(Planner, AJoinerGoesWhereOneDeathWouldEmptyAStage) {
  auto candidates = two_by_two();
  candidates.erase(candidates.begin() + 2);  // stage 1 has one relay, and a fast one
  candidates[1].forward = milliseconds(1);
  EXPECT_EQ(neediest_stage(run_with("gwtf"), candidates), StageId(1));
  // Newcomers that have computed nothing yet count too: the third goes where there are fewer.
  candidates[2].forward = candidates[3].forward = Duration::zero();
  EXPECT_EQ(neediest_stage(run_with("gwtf"), candidates), StageId(1));
}

TEST(Planner, AJoinerGoesToTheSlowestOfSafeStages) {
  EXPECT_EQ(neediest_stage(run_with("gwtf"), two_by_two()), StageId(1));
}

TEST(Planner, OptimalPrefersTheCheapLinksWithinTheSlots) {
  const auto plan = make_plan(run_with("optimal"), two_by_two());
  int slow = 0;
  for (const auto& path : plan.paths) slow += path[1] == NodeId(2);
  EXPECT_EQ(slow, 2);  // six flows, four slots at the fast relay
}

}  // namespace
}  // namespace tributary::swarm
