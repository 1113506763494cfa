// Thousands of swarms under churn, checked after every event; in blocks, so that they run side by side.
#include "sim/chaos.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "sim/seeds.h"

namespace tributary::sim {
namespace {

constexpr std::uint64_t kBlocks = 8;

// What each block of 250 seeds must have gone through at least, or the rare paths are not tested. The rarest, which a
// block may miss, have a test of their own.
struct Minimum {
  const char* counter;
  std::uint64_t least;
};
constexpr Minimum kMinima[] = {
    {"repairs", 300},
    {"replays", 100},
    {"deep_replays", 3},
    {"retractions", 40},
    {"duplicates", 200},
    {"excluded", 300},
    {"stale_orders", 8},
    {"resealed", 400},
    {"adopted", 0},
    {"rewinds", 300},
    {"late_chunks", 0},
    {"joins", 300},
    {"rejoins", 30},
    {"false_suspicions", 1000},
    {"early", 200},
    {"dropped", 300},
    {"retries", 100},
    {"elections", 200},
    {"promoted", 300},
    {"moved", 0},
    {"routing_messages", 10000},
    {"ill_formed", 0},
    {"routed", 100},
    {"unrouted", 10},
    {"rechosen", 100},
};

class Churn : public testing::TestWithParam<std::uint64_t> {};

TEST_P(Churn, BreaksNoRuleAndTakesTheRarePaths) {
  const auto count = std::max<std::uint64_t>(1, seeds() / kBlocks);
  const auto first = 1 + GetParam() * count;
  swarm::Counters counters;
  std::uint64_t fingerprint = 0, evaluations = 0;
  for (auto seed = first; seed < first + count; ++seed) {
    ChaosOptions options;
    options.seed = seed;
    const auto result = run_chaos(options);
    ASSERT_EQ(result.violation, "") << "replay it: " << replay_command(seed);
    counters.add(result.counters);
    fingerprint = mix64(fingerprint, result.trace_hash);
    evaluations += result.evaluations;
  }
  EXPECT_GE(evaluations, count / 2) << "held-out losses, each compared with the undisturbed run's";
  std::printf("seeds %llu to %llu: traces %016llx\n", static_cast<unsigned long long>(first),
              static_cast<unsigned long long>(first + count - 1), static_cast<unsigned long long>(fingerprint));
  if (count < kAllSeeds / kBlocks) return;
  std::size_t checked = 0;
  for (const auto& row : swarm::counter_rows()) {
    for (const auto& minimum : kMinima) {
      if (std::string_view(minimum.counter) != row.name) continue;
      ++checked;
      std::printf("  %-18s %llu\n", row.name, static_cast<unsigned long long>(counters.*row.value));
      EXPECT_GE(counters.*row.value, minimum.least) << row.name;
    }
  }
  EXPECT_EQ(checked, swarm::counter_rows().size()) << "every counter has a minimum";
}

INSTANTIATE_TEST_SUITE_P(Seeds, Churn, testing::Range(std::uint64_t{0}, kBlocks));

TEST(Churn, TheRarestPathsAreReachedWithinAllSeeds) {
  if (seeds() < kAllSeeds) GTEST_SKIP() << "needs all seeds";
  swarm::Counters counters;
  std::uint64_t seed = 0;
  while ((counters.adopted < 2 || counters.late_chunks < 5 || counters.deep_replays < 5) && ++seed <= kAllSeeds) {
    ChaosOptions options;
    options.seed = seed;
    const auto result = run_chaos(options);
    ASSERT_EQ(result.violation, "") << "replay it: " << replay_command(seed);
    counters.add(result.counters);
  }
  EXPECT_LE(seed, kAllSeeds) << "adopted " << counters.adopted << ", late chunks " << counters.late_chunks
                             << ", deep replays " << counters.deep_replays;
}

// Printed for scripts/test.sh, which compares the release build's with the sanitizer build's.
TEST(Churn, FingerprintIsTheSameInASecondRun) {
  std::uint64_t prints[2] = {};
  for (auto& print : prints) {
    for (std::uint64_t seed = 1; seed <= 24; ++seed) {
      ChaosOptions options;
      options.seed = seed;
      print = mix64(print, run_chaos(options).trace_hash);
    }
  }
  EXPECT_EQ(prints[0], prints[1]);
  std::printf("fingerprint %016llx\n", static_cast<unsigned long long>(prints[0]));
}

TEST(Churn, AnotherSeedLeavesAnotherTrace) {
  ChaosOptions one, other;
  one.seed = 7;
  other.seed = 8;
  EXPECT_NE(run_chaos(one).trace_hash, run_chaos(other).trace_hash);
}

TEST(Churn, WithoutFaultsNothingIsDoneTwiceAndNobodyIsDeclaredDead) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    ChaosOptions options;
    options.seed = seed;
    options.faults = false;
    const auto result = run_chaos(options);
    ASSERT_EQ(result.violation, "") << seed;
    EXPECT_EQ(result.crashes, 0u);
    EXPECT_EQ(result.counters.rewinds, 0u) << seed;
    EXPECT_EQ(result.counters.replays, 0u) << seed;
    EXPECT_EQ(result.counters.rejoins, 0u) << seed;
  }
}

}  // namespace
}  // namespace tributary::sim
