// Relays that the plan moves to other stages, and those that come back within the iteration.
#include "sim/troubled_swarm.h"

namespace tributary::sim {
namespace {

// Stage 2 has the slow machines, so a quick one of stage 1 does more good there.
TroubledSwarmOptions uneven() {
  return {.stages = 2, .replicas = 3, .microbatches = 12, .iterations = 60, .payload_bytes_per_s = 1e4};
}

void start_uneven(TroubledSwarm& scenario) {
  for (std::uint32_t i = 0; i < scenario.size(); ++i) {
    auto spec = scenario.spec(NodeId(i), scenario.stage_of(NodeId(i)));
    spec.options.any_stage = true;
    if (scenario.stage_of(NodeId(i)) == 2) spec.slowness = 6;
    scenario.world().start(spec);
  }
}

TEST(Moving, RelaysGoWhereTheIterationIsShorter) {
  TroubledSwarm scenario(uneven());
  start_uneven(scenario);
  ASSERT_TRUE(scenario.reach([&] { return scenario.counters().moved > 0; })) << scenario.stuck();
  scenario.expect_finish();
  EXPECT_GE(scenario.counters().moved, 2u);
  EXPECT_EQ(scenario.counters().rejoins, 0u);
  EXPECT_EQ(scenario.counters().rewinds, 0u);
}

TEST(Moving, NobodyMovesWhoCanHoldOneStageOnly) {
  TroubledSwarm scenario(uneven());
  for (std::uint32_t i = 0; i < scenario.size(); ++i) {
    auto spec = scenario.spec(NodeId(i), scenario.stage_of(NodeId(i)));
    if (scenario.stage_of(NodeId(i)) == 2) spec.slowness = 6;
    scenario.world().start(spec);
  }
  scenario.expect_finish();
  EXPECT_EQ(scenario.counters().moved, 0u);
}

TEST(Moving, DeathOfTheMovedOneIsADeathAsAnyOther) {
  TroubledSwarm scenario(uneven());
  start_uneven(scenario);
  NodeId moved = wire::kNobody;
  ASSERT_TRUE(scenario.reach([&] {
    for (const auto id : scenario.world().nodes())
      if (scenario.world().node(id)->counters().moved > 0) moved = id;
    return moved != wire::kNobody;
  }));
  scenario.world().crash(moved);
  scenario.expect_finish();
  EXPECT_EQ(scenario.counters().rewinds, 0u);
}

TEST(Moving, DeathOfTheLastOneLeftBehindRewindsAndGoesOn) {
  auto options = uneven();
  options.replicas = 2;
  TroubledSwarm scenario(options);
  start_uneven(scenario);
  NodeId moved = wire::kNobody;
  StageId former;
  ASSERT_TRUE(scenario.reach([&] {
    for (const auto id : scenario.world().nodes())
      if (scenario.world().node(id)->counters().moved > 0) moved = id;
    return moved != wire::kNobody;
  }));
  former = StageId(scenario.stage_of(moved));
  for (const auto id : scenario.world().nodes())
    if (id != moved && scenario.world().node(id)->stage() == former) scenario.world().crash(id);
  scenario.expect_finish();
}

TEST(Promotion, OfARelayThatComesBackWithinTheIteration) {
  TroubledSwarm scenario({.replicas = 2, .microbatches = 40, .iterations = 8});
  scenario.start_all();
  ASSERT_TRUE(scenario.reach_iteration(2));
  scenario.world().crash(scenario.relay(1, 0));
  const auto iteration = scenario.newest();
  scenario.start(scenario.relay(1, 0));
  ASSERT_TRUE(scenario.reach([&] { return scenario.counters().promoted > 0; })) << scenario.stuck();
  EXPECT_EQ(scenario.newest(), iteration);
  EXPECT_TRUE(scenario.works(scenario.relay(1, 0)));
  scenario.expect_finish();
  EXPECT_EQ(scenario.counters().rewinds, 0u);
}

// Its former life had summed its range, and another death reopens the stage: nobody waits for a retry (5 s at least).
TEST(Promotion, IntoAStageThatWasSummedBefore) {
  TroubledSwarm scenario({.stages = 2, .replicas = 3, .microbatches = 9, .iterations = 5});
  for (std::uint32_t i = 0; i < scenario.size(); ++i) {
    auto spec = scenario.spec(NodeId(i), scenario.stage_of(NodeId(i)));
    if (scenario.stage_of(NodeId(i)) == 1) spec.slowness = 40;  // so that stage 2 is done long before
    scenario.world().start(spec);
  }
  const auto first = scenario.relay(2, 0), second = scenario.relay(2, 1), third = scenario.relay(2, 2);
  ASSERT_TRUE(scenario.reach_iteration(1));
  const auto summed = [&](NodeId id) {
    return scenario.world().node(id)->describe().find(": complete") != std::string::npos;
  };
  ASSERT_TRUE(scenario.reach([&] { return summed(first) && summed(second) && summed(third); })) << scenario.stuck();
  scenario.world().crash(first);
  scenario.start(first);
  ASSERT_TRUE(scenario.reach([&] { return scenario.world().node(first)->holding(); })) << scenario.stuck();
  scenario.world().crash(second);
  ASSERT_TRUE(scenario.reach([&] { return scenario.counters().promoted > 0; })) << scenario.stuck();
  ASSERT_EQ(scenario.newest(), 1u) << "all within one iteration";
  EXPECT_TRUE(scenario.reach([&] { return summed(first) && summed(third); }, seconds(4))) << scenario.stuck();
  scenario.expect_finish();
  EXPECT_EQ(scenario.counters().rewinds, 0u);
}

}  // namespace
}  // namespace tributary::sim
