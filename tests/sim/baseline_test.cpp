#include "sim/baseline.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>

namespace tributary::sim {
namespace {

Scenario world(const std::string& name) {
  std::ifstream in(TRIBUTARY_TEST_DATA "/sim/worlds/" + name);
  std::stringstream text;
  text << in.rdbuf();
  auto parsed = parse_world(text.str());
  EXPECT_TRUE(parsed.ok()) << parsed.error().message;
  return std::move(*parsed);
}

TEST(Baseline, WithoutChurnEverythingIsAcceptedAndTheBoundHolds) {
  for (const char* name : {"b0.json", "c0.json"}) {
    const Scenario scenario = world(name);
    for (const auto& policy : baseline_names()) {
      const auto run = run_baseline(scenario, {policy, 0, 1, 4});
      ASSERT_TRUE(run.ok()) << run.error().message;
      ASSERT_EQ(run->iterations.size(), 4u);
      for (const auto& iteration : run->iterations) {
        EXPECT_EQ(iteration.accepted, scenario.microbatches()) << policy;
        EXPECT_EQ(iteration.parts, scenario.microbatches()) << policy;
        EXPECT_EQ(iteration.crashes, 0u);
        EXPECT_GT(iteration.duration_s, scenario.lower_bound_s) << policy << " in " << name;
      }
      if (policy == "ours") {
        EXPECT_LT(run->mean_s(), 1.4 * scenario.lower_bound_s) << name;
      }
    }
  }
}

// Whoever dies, every iteration ends; the baselines lose what the dead had done, ours does it again.
TEST(Baseline, UnderChurnBaselinesLoseWorkAndOursDoesNot) {
  for (const auto& policy : baseline_names()) {
    double lost = 0;
    std::uint32_t crashes = 0;
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
      const Scenario scenario = world(seed % 2 ? "b0.json" : "c0.json");
      const auto run = run_baseline(scenario, {policy, 0.2, seed, 8});
      ASSERT_TRUE(run.ok());
      for (const auto& iteration : run->iterations) {
        ASSERT_TRUE(std::isfinite(iteration.duration_s)) << policy << ", seed " << seed;
        EXPECT_LE(iteration.accepted, iteration.parts + 1e-9);
        lost += scenario.microbatches() - iteration.accepted;
        crashes += iteration.crashes;
      }
      EXPECT_GE(run->per_accepted_s(), run->per_parts_s() - 1e-9);
    }
    EXPECT_GT(crashes, 50u) << policy;
    if (policy == "ours") {
      EXPECT_EQ(lost, 0);
    } else {
      EXPECT_GT(lost, 50) << policy;
    }
  }
}

TEST(Baseline, TheSameSeedGivesTheSameIterations) {
  const Scenario scenario = world("c0.json");
  for (const auto& policy : baseline_names()) {
    const auto once = run_baseline(scenario, {policy, 0.1, 3, 5}), again = run_baseline(scenario, {policy, 0.1, 3, 5});
    for (std::size_t k = 0; k < 5; ++k) EXPECT_EQ(once->iterations[k].duration_s, again->iterations[k].duration_s);
  }
}

TEST(Baseline, AnUnknownPolicyIsAnErrorThatListsTheKnownOnes) {
  const auto run = run_baseline(world("b0.json"), {"luck", 0, 1, 1});
  ASSERT_FALSE(run.ok());
  for (const auto& name : baseline_names()) EXPECT_NE(run.error().message.find(name), std::string::npos);
}

}  // namespace
}  // namespace tributary::sim
