// The search finds planted bugs, shrinks what it found, and its replay command shows the same again.
#include "sim/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

namespace tributary::sim {
namespace {

std::string after(const std::string& command, const std::string& option) {
  std::istringstream words(command);
  for (std::string word; words >> word;)
    if (word == option) {
      words >> word;
      return word;
    }
  return {};
}

TEST(Search, FindsAPlantedBugShrinksItAndReplaysIt) {
  SearchOptions options;
  options.bugs.trust_old_incarnation = true;
  std::uint64_t seeds = 0;
  options.go_on = [&](const ChaosResult&) { return ++seeds < 300; };
  const auto result = search(options);
  ASSERT_TRUE(result.found.has_value()) << "no seed of 300";
  const auto& found = *result.found;
  EXPECT_LT(found.strikes_left, found.strikes);
  EXPECT_LE(found.strikes_left, 4u) << "few strikes are enough for it";
  EXPECT_LE(found.nodes_left, found.nodes);
  EXPECT_LE(found.iterations_left, found.iterations);
  EXPECT_EQ(kind_of(found.violation), kind_of(found.least_violation));

  const auto command = replay_command(found.seed, found.cut);
  std::printf("%s\n%s\n", found.least_violation.c_str(), command.c_str());
  const auto cut = parse_cut(after(command, "--strikes"), after(command, "--without"),
                             std::stoull("0" + after(command, "--iterations")));
  ASSERT_TRUE(cut.ok()) << cut.error().message;
  ChaosOptions replay;
  replay.seed = std::stoull(after(command, "--seed"));
  replay.cut = *cut;
  replay.bugs = options.bugs;
  const auto again = run_chaos(replay);
  EXPECT_EQ(again.violation, found.least_violation);
  EXPECT_EQ(again.trace_hash, found.trace_hash);
  replay.bugs = {};
  EXPECT_EQ(run_chaos(replay).violation, "") << "without the bug the same swarm holds";
}

TEST(Search, OfASoundProtocolFindsNothingAndSaysHowFastItRecovers) {
  SearchOptions options;
  std::uint64_t seeds = 0;
  options.go_on = [&](const ChaosResult&) { return ++seeds < 25; };
  const auto result = search(options);
  EXPECT_FALSE(result.found.has_value()) << result.found->violation;
  EXPECT_EQ(result.seeds, 25u);
  EXPECT_GT(result.slowest_recovery_s, 0);
  EXPECT_LT(result.slowest_recovery_s, result.its_bound_s);
}

TEST(Search, LeavingOutAStrikeLeavesTheOthersAsTheyAre) {
  ChaosOptions all, none;
  all.seed = none.seed = 5;
  all.cut.own_draws = none.cut.own_draws = true;
  none.cut.strikes.emplace();
  const auto troubled = run_chaos(all), calm = run_chaos(none);
  EXPECT_GT(troubled.crashes, 0u);
  EXPECT_EQ(calm.crashes, 0u);
  EXPECT_EQ(calm.strikes, troubled.strikes);
  EXPECT_EQ(calm.violation, "");
}

TEST(Search, WhatCannotBeLeftOutStays) {
  auto swarm = draw_swarm(5, 0);
  ChaosCut cut;
  for (const auto& spec : swarm.nodes) cut.without.insert(spec.options.self);
  cut.without.insert(NodeId(9999));
  cut_swarm(cut, swarm);
  for (const auto voter : swarm.run.voters) EXPECT_FALSE(swarm.cut.without.contains(voter));
  for (std::uint16_t stage = 0; stage <= swarm.run.stages; ++stage)
    EXPECT_TRUE(std::any_of(swarm.nodes.begin(), swarm.nodes.end(), [&](const auto& spec) {
      return spec.options.stage == StageId(stage) && !swarm.cut.without.contains(spec.options.self);
    })) << stage;
  EXPECT_FALSE(parse_cut("1,x", "", 0).ok());
  EXPECT_FALSE(parse_cut("", "3", 0).ok());
  EXPECT_FALSE(parse_cut("all", "3,", 0).ok());
  EXPECT_EQ(parse_cut("none", "", 4)->strikes->size(), 0u);
}

TEST(Search, OfAScenarioFindsAPlantedBugAndLeavesOutWhatItDoesNotNeed) {
  auto scenario = parse_scenario(R"(
iterations = 6
[[machines]]
[[machines]]
count = 3
stage = 1
slots = 2
[[machines]]
count = 2
stage = 2
slots = 2
[churn]
kind = "per-iteration"
p = 0.3
away_mean_s = 3
[churn.freezes]
per_node_hour = 1
)",
                                 [](const std::string&) -> Result<std::string> { return Error{"no other file"}; });
  ASSERT_TRUE(scenario.ok()) << scenario.error().message;
  ScenarioSearchOptions options;
  std::uint64_t seeds = 0;
  options.go_on = [&](const Rehearsal&) { return ++seeds < 5; };
  const auto sound = search(*scenario, options);
  ASSERT_TRUE(sound.ok());
  EXPECT_FALSE(sound->found.has_value()) << sound->found->violation;
  EXPECT_EQ(sound->seeds, 5u);

  seeds = 0;
  options.bugs.skip_retract = options.bugs.fold_twice = true;
  options.go_on = [&](const Rehearsal&) { return ++seeds < 100; };
  const auto result = search(*scenario, options);
  ASSERT_TRUE(result.ok());
  ASSERT_TRUE(result->found.has_value()) << "no seed of 100";
  const auto& found = *result->found;
  EXPECT_LE(found.iterations_left, found.iterations);
  EXPECT_NE(std::find(found.without.begin(), found.without.end(), "partitions"), found.without.end());
  auto least = *scenario;
  least.iterations = found.iterations_left;
  for (const auto& part : found.without) ASSERT_TRUE(leave_out(part, least).ok());
  RehearsalOptions again;
  again.seed = found.seed;
  again.check = true;
  again.bugs = options.bugs;
  const auto replay = rehearse(least, again);
  ASSERT_TRUE(replay.ok());
  EXPECT_EQ(replay->trouble, found.least_violation);
  EXPECT_EQ(replay->trace_hash, found.trace_hash);
  EXPECT_FALSE(leave_out("rain", least).ok());
}

}  // namespace
}  // namespace tributary::sim
