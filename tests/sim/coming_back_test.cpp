// Everything but plain deaths: freezes, partitions, restarts, joining, leaving, pausing, rewinding, excluding.
#include "sim/staged.h"

namespace tributary::sim {
namespace {

TEST(Undisturbed, SwarmEqualsOneProcess) {
  for (const std::uint32_t replicas : {1u, 3u}) {
    Scenario scenario({.stages = 3, .data_nodes = 2, .replicas = replicas});
    scenario.start_all();
    scenario.expect_finish();
    EXPECT_EQ(scenario.counters().replays + scenario.counters().rejoins + scenario.counters().rewinds, 0u);
  }
}

TEST(Freeze, OfRelayShorterThanDetectionCostsNothing) {
  Scenario scenario;
  scenario.start_all();
  ASSERT_TRUE(scenario.reach_iteration(2));
  scenario.world().freeze(scenario.relay(1, 0));
  scenario.world().run_until(scenario.world().now() + milliseconds(150));
  scenario.world().thaw(scenario.relay(1, 0));
  scenario.expect_finish();
  EXPECT_EQ(scenario.counters().rejoins, 0u);
  EXPECT_EQ(scenario.counters().replays, 0u);
}

TEST(Freeze, OfRelayIsADeathAndItComesBackByItself) {
  Scenario scenario({.iterations = 12});
  scenario.start_all();
  ASSERT_TRUE(scenario.reach_iteration(2));
  scenario.world().freeze(scenario.relay(1, 0));
  ASSERT_TRUE(scenario.reach_iteration(5)) << "the others go on without it";
  scenario.world().thaw(scenario.relay(1, 0));
  ASSERT_TRUE(scenario.reach([&] { return scenario.works(scenario.relay(1, 0)); }));
  EXPECT_LT(scenario.newest(), scenario.run().iterations);
  scenario.expect_finish();
  EXPECT_EQ(scenario.counters().rejoins, 1u);
  EXPECT_EQ(scenario.counters().rewinds, 0u);
}

TEST(Freeze, OfSequencerPassesSequencingOnAndTheThawedOneFollows) {
  Scenario scenario({.iterations = 12, .voters = {1, 3, 4}});
  scenario.start_all();
  ASSERT_TRUE(scenario.reach_iteration(2));
  const auto former = scenario.leader();
  scenario.world().freeze(former);
  ASSERT_TRUE(scenario.reach_iteration(5));
  EXPECT_NE(scenario.leader(), former);
  scenario.world().thaw(former);
  ASSERT_TRUE(scenario.reach([&] { return scenario.works(former); }));
  EXPECT_FALSE(scenario.world().node(former)->leading());
  scenario.expect_finish();
  EXPECT_EQ(scenario.counters().rewinds, 0u);
}

TEST(Partition, SideWithoutMajorityCommitsNothingAndHealsWithoutRewind) {
  Scenario scenario({.iterations = 12, .voters = {1, 3, 4}});
  scenario.start_all();
  ASSERT_TRUE(scenario.reach_iteration(2));
  // Relays 1 (stage 1) and 3 (stage 2), two of three voters, without a data node: neither side can finish an iteration.
  const auto inside = [&](NodeId id) { return id == scenario.relay(1, 0) || id == scenario.relay(2, 0); };
  for (std::uint32_t a = 0; a < scenario.size(); ++a)
    for (std::uint32_t b = 0; b < scenario.size(); ++b)
      if (inside(NodeId(a)) != inside(NodeId(b))) scenario.world().block(NodeId(a), NodeId(b), false);
  const auto before = scenario.newest();
  EXPECT_FALSE(scenario.reach([&] { return scenario.newest() > before + 1; }, seconds(15)));
  ASSERT_EQ(scenario.violation(), "");
  scenario.world().heal_all();
  scenario.expect_finish();
}

TEST(Partition, OfOneRelayIsADeathForTheOthers) {
  for (const bool lossy : {false, true}) {
    Scenario scenario({.iterations = 12});
    scenario.start_all();
    ASSERT_TRUE(scenario.reach_iteration(2));
    const auto lonely = scenario.relay(2, 1);
    for (std::uint32_t a = 0; a < scenario.size(); ++a) {
      if (NodeId(a) == lonely) continue;
      scenario.world().block(NodeId(a), lonely, lossy);
      scenario.world().block(lonely, NodeId(a), lossy);
    }
    ASSERT_TRUE(scenario.reach_iteration(6));
    scenario.world().heal_all();
    scenario.expect_finish();
    EXPECT_EQ(scenario.counters().rewinds, 0u);
    EXPECT_GE(scenario.counters().rejoins, 1u);
  }
}

TEST(Partition, InOneDirectionBetweenNeighboursIsRoutedAround) {
  Scenario scenario({.iterations = 8});
  scenario.start_all();
  ASSERT_TRUE(scenario.reach_iteration(2));
  scenario.world().block(scenario.relay(1, 0), scenario.relay(2, 0), true);
  scenario.world().block(scenario.relay(1, 1), scenario.relay(2, 0), true);
  scenario.expect_finish();
  EXPECT_EQ(scenario.counters().rewinds, 0u);
}

TEST(Partition, InOneDirectionToTheSequencer) {
  Scenario scenario({.iterations = 8});
  scenario.start_all();
  ASSERT_TRUE(scenario.reach_iteration(2));
  scenario.world().block(scenario.relay(1, 0), scenario.data_node(), true);
  ASSERT_TRUE(scenario.reach_iteration(5)) << "who cannot be heard counts as dead";
  scenario.world().heal_all();
  scenario.expect_finish();
}

TEST(Restart, WithinTheDetectionTimeLosesItsSumsAndIsSeenAtOnce) {
  Scenario scenario({.iterations = 10});
  scenario.start_all();
  const auto victim = scenario.relay(1, 0);
  scenario.at_message<wire::Backward>(
      victim,
      [&](NodeId) {
        scenario.world().crash(victim);
        scenario.world().at(scenario.world().now() + milliseconds(60), [&] { scenario.start(victim); });
      },
      [](const wire::Backward& m) { return m.stamp.iteration == Iteration(2); });
  ASSERT_TRUE(scenario.reach([&] { return scenario.triggered() && scenario.works(victim); }));
  EXPECT_LT(scenario.newest(), scenario.run().iterations);
  scenario.expect_finish();
  EXPECT_EQ(scenario.counters().rewinds, 0u);
  EXPECT_GE(scenario.counters().joins, 1u);
}

TEST(Join, WhileTrainingFetchesTheStateAndTakesPart) {
  Scenario scenario({.iterations = 12});
  scenario.start_all();
  ASSERT_TRUE(scenario.reach_iteration(3));
  const NodeId joiner(scenario.size());
  scenario.world().start(scenario.spec(joiner, 2));
  ASSERT_TRUE(scenario.reach([&] { return scenario.works(joiner); }));
  EXPECT_LT(scenario.newest(), 8u) << "within a few iterations";
  std::size_t paths = 0;
  ASSERT_TRUE(scenario.reach([&] {
    if (!scenario.works(joiner)) return false;
    for (const auto& path : scenario.world().node(joiner)->ledger().plan.paths) paths += path[2] == joiner;
    return paths > 0;
  }));
  scenario.expect_finish();
  EXPECT_EQ(scenario.exit_of(joiner), "finished");
  EXPECT_EQ(scenario.counters().rewinds, 0u);
}

TEST(Join, DeathOfADonorIsSurvived) {
  Scenario scenario({.replicas = 3, .iterations = 12});
  scenario.start_all();
  ASSERT_TRUE(scenario.reach_iteration(3));
  const NodeId joiner(scenario.size());
  scenario.world().start(scenario.spec(joiner, 1));
  scenario.at_message<wire::StateChunk>(scenario.relay(1, 1),
                                        [&](NodeId) { scenario.world().crash(scenario.relay(1, 1)); });
  ASSERT_TRUE(scenario.reach([&] { return scenario.works(joiner); }));
  EXPECT_TRUE(scenario.triggered());
  scenario.expect_finish();
}

TEST(Join, WithAnotherConfigurationTokenizerOrCorpusIsRefusedByName) {
  using Field = std::uint64_t swarm::RunOptions::*;
  for (const auto& [field, name] : {std::pair<Field, const char*>{&swarm::RunOptions::hash, "the configuration"},
                                    {&swarm::RunOptions::tokenizer_hash, "the tokenizer"},
                                    {&swarm::RunOptions::corpus_hash, "the corpus"}}) {
    // A relay that leads knows the corpus from the data nodes.
    Scenario scenario({.iterations = 12, .voters = {3}});
    for (std::uint32_t i = 0; i < scenario.size(); ++i) {
      auto spec = scenario.spec(NodeId(i), scenario.stage_of(NodeId(i)));
      if (i == 0) spec.options.run.corpus_hash = 5;
      scenario.world().start(spec);
    }
    ASSERT_TRUE(scenario.reach_iteration(1));
    const NodeId stranger(scenario.size());
    auto spec = scenario.spec(stranger, 1);
    spec.options.run.*field = 77;
    scenario.world().start(spec);
    ASSERT_TRUE(scenario.reach([&] { return !scenario.exit_of(stranger).empty(); })) << name;
    EXPECT_NE(scenario.exit_of(stranger).find(std::string("refused: ") + name), std::string::npos)
        << scenario.exit_of(stranger);
    scenario.expect_finish();
  }
}

TEST(Leave, PolitelyCostsNoRepairAndNoReplay) {
  Scenario scenario({.iterations = 8});
  scenario.start_all();
  ASSERT_TRUE(scenario.reach_iteration(2));
  scenario.world().ask_to_leave(scenario.relay(1, 1));
  ASSERT_TRUE(scenario.reach([&] { return !scenario.exit_of(scenario.relay(1, 1)).empty(); }));
  EXPECT_EQ(scenario.exit_of(scenario.relay(1, 1)), "left");
  EXPECT_LT(scenario.newest(), 6u);
  scenario.expect_finish();
  EXPECT_EQ(scenario.counters().replays, 0u);
  EXPECT_EQ(scenario.counters().rewinds, 0u);
}

TEST(Leave, OfTheLastHolderWaitsUntilAnotherHoldsTheStage) {
  Scenario scenario({.replicas = 1, .iterations = 14});
  scenario.start_all();
  ASSERT_TRUE(scenario.reach_iteration(2));
  const auto last = scenario.relay(1, 0);
  scenario.world().ask_to_leave(last);
  ASSERT_TRUE(scenario.reach_iteration(5));
  EXPECT_TRUE(scenario.works(last)) << "nobody else holds the stage";
  const NodeId heir(scenario.size());
  scenario.world().start(scenario.spec(heir, 1));
  ASSERT_TRUE(scenario.reach([&] { return scenario.exit_of(last) == "left"; }))
      << scenario.stuck() << scenario.newest();
  scenario.expect_finish();
  EXPECT_EQ(scenario.counters().rewinds, 0u);
}

TEST(Rewind, FollowsTheLossOfAllHoldersOfAStage) {
  for (const bool shared : {true, false}) {
    Scenario scenario({.iterations = 8, .shared_disk = shared});
    scenario.start_all();
    ASSERT_TRUE(scenario.reach_iteration(5));
    scenario.world().crash(scenario.relay(2, 0));
    scenario.world().crash(scenario.relay(2, 1));
    EXPECT_FALSE(scenario.reach([&] { return scenario.newest() > 6; }, seconds(10)));
    scenario.start(scenario.relay(2, 1));
    scenario.expect_finish();
    EXPECT_GT(scenario.counters().rewinds, 0u);
  }
}

TEST(Rewind, TakesARelayFromAnotherStageIfNobodyElseComes) {
  ScenarioOptions options;
  options.replicas = 3;
  options.iterations = 8;
  Scenario scenario(options);
  for (std::uint32_t i = 0; i < scenario.size(); ++i) {
    auto spec = scenario.spec(NodeId(i), scenario.stage_of(NodeId(i)));
    spec.options.any_stage = true;
    scenario.world().start(spec);
  }
  ASSERT_TRUE(scenario.reach_iteration(5));
  for (std::uint32_t i = 0; i < 3; ++i) scenario.world().crash(scenario.relay(2, i));
  scenario.expect_finish();
  EXPECT_GT(scenario.counters().rewinds, 0u);
}

TEST(Halt, SavesAndResumesWhereItStopped) {
  for (const bool shared : {true, false}) {
    Scenario scenario({.iterations = 8, .checkpoint_every = 0, .shared_disk = shared});
    scenario.start_all();
    ASSERT_TRUE(scenario.reach_iteration(3));
    scenario.world().ask_to_halt(scenario.leader());
    ASSERT_TRUE(scenario.reach([&] { return scenario.world().nodes().empty(); }));
    for (std::uint32_t i = 0; i < scenario.size(); ++i) EXPECT_EQ(scenario.exit_of(NodeId(i)), "halted");
    const auto done = scenario.newest();
    EXPECT_LT(done, scenario.run().iterations);
    scenario.start_all();
    ASSERT_TRUE(scenario.reach([&] { return scenario.works(scenario.data_node()); }));
    EXPECT_EQ(scenario.world().node(scenario.data_node())->ledger().iteration, Iteration(done)) << "nothing twice";
    scenario.expect_finish();
  }
}

TEST(NotFinite, MicrobatchIsExcludedAndTheRestCounts) {
  for (const bool backward : {false, true}) {
    for (std::uint16_t part = 0; part <= 3; ++part) {
      ScenarioOptions options;
      options.not_finite = [=](Iteration i, MicrobatchId m, PartId p, bool b) {
        return i == Iteration(2) && m == MicrobatchId(4) && p == PartId(part) && (b || !backward);
      };
      Scenario scenario(options);
      scenario.start_all();
      scenario.expect_finish();
      // The head computes forward and backward in one task, which counts as forward.
      if (!(backward && part == 3)) {
        EXPECT_GT(scenario.counters().excluded, 0u) << part;
      }
    }
  }
}

TEST(NotFinite, TooManyStopTheRunWithAdvice) {
  ScenarioOptions options;
  options.most_excluded = 0.3;
  options.not_finite = [](Iteration i, MicrobatchId m, PartId p, bool) {
    return i == Iteration(1) && m < MicrobatchId(3) && p == PartId(1);
  };
  Scenario scenario(options);
  scenario.start_all();
  ASSERT_TRUE(scenario.reach([&] { return !scenario.exit_of(scenario.data_node()).empty(); }));
  EXPECT_NE(scenario.exit_of(scenario.data_node()).find("lower the learning rate"), std::string::npos);
  EXPECT_EQ(scenario.violation(), "");
}

}  // namespace
}  // namespace tributary::sim
