#include "sim/ablation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace tributary::sim {
namespace {

// Two stages of two far apart: messages and sums take as long as computing.
Scenario small() {
  auto parsed = parse_scenario(R"(
[[machines]]
stage = 0
compute_s = 0.1
[[machines]]
count = 3
stage = 1
compute_s = 0.5
slots = 1
[[machines]]
count = 2
stage = 2
compute_s = 0.1
slots = 1
[links]
latency_s = 0.1
bandwidth_Bps = 1e7
[sizes]
message_bytes = 1e6
aggregation_bytes = 2e7
state_bytes = 1e6
microbatches_per_data_node = 8
[churn]
away_mean_s = 30
)",
                               [](const std::string&) -> Result<std::string> { return Error{"no file"}; });
  EXPECT_TRUE(parsed.ok()) << parsed.error().message;
  return std::move(*parsed);
}

TEST(Ablation, EachIdeaTurnsOffItselfAndAllTurnsOffEverything) {
  const Scenario with = small();
  const auto off = [](const Scenario& scenario) {
    const auto& s = scenario.switches;
    return std::vector<bool>{!s.early_aggregation,
                             !s.uneven_shares,
                             !s.extra_in_flight,
                             !s.admit_at_once,
                             !s.promote,
                             !s.move_relays,
                             scenario.router == "earliest-finish",
                             scenario.detection_factor > 1};
  };
  ASSERT_EQ(ideas().size(), off(with).size() + 1);
  for (std::size_t k = 0; k < ideas().size(); ++k) {
    Scenario without = with;
    ASSERT_TRUE(turn_off(ideas()[k].name, without).ok());
    const bool all = k + 1 == ideas().size();
    std::vector<bool> expected(off(with).size(), all);
    if (!all) expected[k] = true;
    EXPECT_EQ(off(without), expected) << ideas()[k].name;
  }
  Scenario unknown = with;
  const auto wrong = turn_off("luck", unknown);
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().message.find("uneven_shares"), std::string::npos);
}

// 0.1 s each way: 0.35 s and 1.5 round trips of 0.2 s.
TEST(Ablation, SlowDetectionSuspectsAMeanLinkAfterTheTimeOut) {
  EXPECT_NEAR(detection_factor_for(small(), 20), 20 / 0.65, 1e-9);
  EXPECT_EQ(detection_factor_for(small(), 0.1), 1);
}

// By hand: ln of 1.1, 1.2 and 1.3 are 0.09531, 0.18232, 0.26236; mean 0.18000, error 0.04824, t = 4.303.
TEST(Ablation, ThePairedChangeHasStudentsInterval) {
  const auto change = paired_change({{0, 10, 11}, {0, 5, 6}, {0, 100, 130}});
  EXPECT_EQ(change.pairs, 3u);
  EXPECT_EQ(change.groups, 1u);
  EXPECT_NEAR(change.mean, std::cbrt(1.1 * 1.2 * 1.3) - 1, 1e-12);
  EXPECT_NEAR(std::log1p(change.low), 0.18000 - 4.303 * 0.04824, 1e-4);
  EXPECT_NEAR(std::log1p(change.high), 0.18000 + 4.303 * 0.04824, 1e-4);
  const auto swapped = paired_change({{0, 11, 10}, {0, 6, 5}, {0, 130, 100}});
  EXPECT_NEAR((1 + swapped.low) * (1 + change.high), 1, 1e-12);
  EXPECT_TRUE(std::isinf(paired_change({{0, 1, 2}}).high));
  EXPECT_EQ(paired_change({{0, 1, 2}}).mean, 1);
  EXPECT_EQ(paired_change({}).pairs, 0u);
  // Beyond the table: 2.0639 at 24 degrees of freedom.
  std::vector<Pair> many;
  for (int k = 0; k < 25; ++k) many.push_back({0, 1, k % 2 == 0 ? 2.0 : 3.0});
  const double mean = (13 * std::log(2) + 12 * std::log(3)) / 25;
  const double square = 13 * std::pow(std::log(2) - mean, 2) + 12 * std::pow(std::log(3) - mean, 2);
  EXPECT_NEAR(std::log1p(paired_change(many).high), mean + 2.0639 * std::sqrt(square / 24 / 25), 1e-4);
}

// The same run twice is no second witness: three groups with copies have the interval of the three without.
TEST(Ablation, PairsOfOneGroupCountOnce) {
  const auto once = paired_change({{0, 10, 11}, {1, 5, 6}, {2, 100, 130}});
  const auto twice = paired_change({{0, 10, 11}, {0, 10, 11}, {1, 5, 6}, {1, 5, 6}, {2, 100, 130}, {2, 100, 130}});
  EXPECT_EQ(twice.pairs, 6u);
  EXPECT_EQ(twice.groups, 3u);
  EXPECT_NEAR(twice.low, once.low, 1e-12);
  EXPECT_NEAR(twice.high, once.high, 1e-12);
}

TEST(Ablation, ARunThatDidNotGetToItsEndLeavesItsPairOut) {
  CompareResult with, without, stuck;
  with.time_s = 20, with.iterations = 2, with.accepted = 10;
  without.time_s = 30, without.iterations = 2, without.accepted = 5;
  stuck.trouble = "it stood still";
  const auto row = ablation_row("promote", 0.1, {{0, &with, &without}, {1, &with, &without}, {2, &with, &stuck}});
  EXPECT_EQ(row.left_out, 1u);
  EXPECT_EQ(row.iteration.pairs, 2u);
  EXPECT_NEAR(row.iteration.mean, 0.5, 1e-12);
  EXPECT_NEAR(row.per_accepted.mean, 2, 1e-12);
}

// Every idea off ends and accepts everything. What is certain to cost time here does: one slot a machine and messages
// as long as computing make few in flight slow, and deaths last longer than fast detection takes.
TEST(Ablation, CellsWithoutAnIdeaRun) {
  const Scenario scenario = small();
  const auto time_s = [&](const std::string& policy, double churn) {
    double sum = 0;
    for (const std::uint64_t seed : {1, 2}) {
      const auto result = run_cell(scenario, {policy, churn, seed, 4});
      EXPECT_TRUE(result.ok()) << result.error().message;
      EXPECT_EQ(result->trouble, "") << policy;
      EXPECT_EQ(result->accepted, 4 * scenario.microbatches()) << policy;
      sum += result->time_s;
    }
    return sum;
  };
  std::map<std::string, double> without;
  for (const auto& idea : ideas()) without[idea.name] = time_s("without/" + idea.name, 0.3);
  EXPECT_GT(without["fast_detection"], 1.2 * time_s("protocol", 0.3));
  EXPECT_GT(time_s("without/extra_in_flight", 0), 1.2 * time_s("protocol", 0));
  EXPECT_FALSE(check_policy("without/luck").ok());
  EXPECT_TRUE(check_policy("without/all").ok());
  EXPECT_TRUE(plays_protocol("without/all"));
  EXPECT_FALSE(plays_protocol("ours"));
}

}  // namespace
}  // namespace tributary::sim
