// A death at each point of an iteration: the survivors do again what is lost, and nothing else, and the weights are
// those of the undisturbed run.
#include "sim/staged.h"

namespace tributary::sim {
namespace {

const auto kIteration2 = [](const auto& message) { return message.stamp.iteration == Iteration(2); };

// Kills `victim` at its next message of that type in iteration 2, and checks that it was a repair and no rewind.
template <class T>
swarm::Counters kill_at(Scenario& scenario, NodeId victim) {
  scenario.start_all();
  scenario.at_message<T>(
      victim, [&](NodeId) { scenario.world().crash(victim); }, kIteration2);
  scenario.expect_finish();
  EXPECT_TRUE(scenario.triggered()) << "the victim never sent such a message";
  EXPECT_EQ(scenario.counters().rewinds, 0u);
  EXPECT_EQ(scenario.counters().rejoins, 0u);
  return scenario.counters();
}

TEST(Death, OfRelayInForwardIsRepairedByItsReplica) {
  Scenario scenario;
  const auto counters = kill_at<wire::Forward>(scenario, scenario.relay(1, 0));
  EXPECT_GT(counters.repairs, 0u);
}

TEST(Death, OfRelayInBackwardIsRepairedByItsReplica) {
  Scenario scenario;
  const auto counters = kill_at<wire::Backward>(scenario, scenario.relay(2, 1));
  EXPECT_GT(counters.repairs + counters.replays, 0u);
}

TEST(Death, OfRelayThatHasFoldedIsReplayed) {
  Scenario scenario({.microbatches = 8});
  scenario.start_all();
  const auto victim = scenario.relay(1, 1);
  int backward = 0;
  scenario.at_message<wire::Backward>(
      victim, [&](NodeId) { scenario.world().crash(victim); },
      [&](const wire::Backward& m) { return m.stamp.iteration == Iteration(2) && ++backward == 3; });
  scenario.expect_finish();
  EXPECT_TRUE(scenario.triggered());
  EXPECT_GT(scenario.counters().replays, 0u);
  EXPECT_EQ(scenario.counters().rewinds, 0u);
}

TEST(Death, OfRelayInReductionBeforeItsPartialSumLeaves) {
  Scenario scenario;
  const auto counters = kill_at<wire::Partial>(scenario, scenario.relay(1, 0));
  EXPECT_GT(counters.replays, 0u);
  EXPECT_GT(counters.resealed, 0u);
}

TEST(Death, OfRangeOwnerWhoseResultWasNotGivenOut) {
  Scenario scenario({.replicas = 3});
  const auto counters = kill_at<wire::Gathered>(scenario, scenario.relay(2, 0));
  EXPECT_GT(counters.resealed, 0u);
}

TEST(Death, BetweenSealAndCommit) {
  Scenario scenario;
  scenario.start_all();
  const auto victim = scenario.relay(2, 1);
  scenario.at_message<wire::Report>(
      victim, [&](NodeId) { scenario.world().crash(victim); },
      [](const wire::Report& r) { return r.stamp.iteration == Iteration(2) && r.result_complete; });
  scenario.expect_finish();
  EXPECT_TRUE(scenario.triggered());
  EXPECT_EQ(scenario.counters().rewinds, 0u);
}

TEST(Death, OfDataNodeIsTakenOverByAnother) {
  Scenario scenario({.data_nodes = 2, .voters = {2, 3, 4}});
  const auto counters = kill_at<wire::Forward>(scenario, scenario.data_node(0));
  EXPECT_GT(counters.replays, 0u);
}

TEST(Death, OfTwoNeighboursAtOnceIsReplayedInDepth) {
  Scenario scenario({.stages = 3, .microbatches = 8});
  scenario.start_all();
  const auto one = scenario.relay(1, 0);
  auto other = wire::kNobody;  // that did the same microbatch
  int backward = 0;
  scenario.at_message<wire::Backward>(
      one,
      [&](NodeId) {
        scenario.world().crash(one);
        scenario.world().crash(other);
      },
      [&](const wire::Backward& m) {
        other = m.hops[2];
        return m.stamp.iteration == Iteration(2) && ++backward == 3;
      });
  scenario.expect_finish();
  EXPECT_TRUE(scenario.triggered());
  EXPECT_GT(scenario.counters().deep_replays, 0u);
  EXPECT_EQ(scenario.counters().rewinds, 0u);
}

TEST(Death, OfSequencerPassesSequencingOn) {
  Scenario scenario({.voters = {1, 3, 4}});
  scenario.start_all();
  ASSERT_TRUE(scenario.reach_iteration(2));
  const auto leader = scenario.leader();
  ASSERT_NE(leader, wire::kNobody);
  scenario.world().crash(leader);
  scenario.expect_finish();
  EXPECT_GE(scenario.counters().elections, 2u);
  EXPECT_EQ(scenario.counters().rewinds, 0u);
}

TEST(Death, OfSequencerInTheMiddleOfCommitLosesNoDecision) {
  for (const auto& voters : {std::vector<std::uint32_t>{1, 3, 4}, {0, 2, 4}}) {
    Scenario scenario({.data_nodes = 1, .replicas = 3, .voters = voters});
    scenario.start_all();
    ASSERT_TRUE(scenario.reach_iteration(2));
    const auto leader = scenario.leader();
    if (leader == scenario.data_node()) continue;  // its death is a rewind: tests/sim/coming_back_test.cpp
    scenario.at_message<wire::AppendRequest>(
        leader, [&](NodeId) { scenario.world().crash(leader); },
        [](const wire::AppendRequest& r) {
          return !r.entries.empty() && std::holds_alternative<wire::Commit>(r.entries.back().decision);
        });
    scenario.expect_finish();
    EXPECT_TRUE(scenario.triggered());
    EXPECT_EQ(scenario.counters().rewinds, 0u);
  }
}

TEST(Death, OfOnlyVoterIsSurvivedByComingBack) {
  Scenario scenario({.voters = {1}});
  scenario.start_all();
  ASSERT_TRUE(scenario.reach_iteration(2));
  const auto voter = scenario.relay(1, 0);
  scenario.world().crash(voter);
  ASSERT_FALSE(scenario.reach([&] { return scenario.newest() > 3; }, seconds(20))) << "nobody may commit without it";
  ASSERT_EQ(scenario.violation(), "");
  scenario.start(voter);
  scenario.expect_finish();
}

}  // namespace
}  // namespace tributary::sim
