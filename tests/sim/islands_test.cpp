#include "sim/islands.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tributary::sim {
namespace {

// So many failures of an island an hour.
Islands fleet(std::uint32_t count, double failures_per_hour) {
  Islands islands;
  islands.count = count;
  islands.chips = count;
  islands.chip_years = failures_per_hour > 0 ? 1 / (failures_per_hour * 24 * 365.25) : 1e4;
  islands.iteration_s = 1;
  islands.latency_s = 0;
  return islands;
}

TEST(Islands, WithoutFailuresAndWaitingAllTimeIsTraining) {
  auto islands = fleet(4, 0);
  const auto result = run_islands(islands, 1);
  EXPECT_GT(result.goodput, 0.999);
  EXPECT_EQ(result.waiting, 0);
  EXPECT_EQ(result.contributions, 4);
}

TEST(Islands, AnExchangeWithoutOverlapTakesItsTime) {
  auto islands = fleet(4, 0);
  islands.overlap = 0;
  islands.exchange_bytes = 4e9;  // 6 s in a ring of four
  EXPECT_DOUBLE_EQ(exchange_s(islands, 4), 6);
  EXPECT_NEAR(run_islands(islands, 1).goodput, 24.0 / 30, 1e-3);
  islands.overlap = 6;
  EXPECT_GT(run_islands(islands, 1).goodput, 0.999) << "hidden behind six iterations of a second";
  islands.overlap = 2;
  EXPECT_NEAR(run_islands(islands, 1).goodput, 24.0 / 28, 1e-3);
  islands.all_reduce = false;
  EXPECT_DOUBLE_EQ(exchange_s(islands, 4), 8);
}

// A failure costs the pause and half an iteration, and one in a pause begins it anew: the share of time that is at work
// is exp(-rate x pause), of a Poisson process that must be silent for so long.
TEST(Islands, OneIslandLosesItsPauses) {
  auto islands = fleet(1, 60);
  islands.pause_s = 30;
  islands.round_every = 1;
  islands.overlap = 0;
  islands.days = 4;
  const auto result = run_islands(islands, 7);
  EXPECT_NEAR(result.paused, 1 - std::exp(-0.5), 0.01);
  EXPECT_NEAR(static_cast<double>(result.failures), 4 * 24 * 60, 300);
  EXPECT_NEAR(result.goodput + result.paused + result.redone, 1, 1e-3) << "there is nothing else to lose time on";
  EXPECT_NEAR(result.redone, std::exp(-0.5) / 120, 1e-3);
}

TEST(Islands, AQuorumOfAllWaitsForTheUnluckiest) {
  auto islands = fleet(8, 12);
  islands.pause_s = 60;
  const auto any = run_islands(islands, 3);
  islands.quorum = 0;
  const auto all = run_islands(islands, 3);
  EXPECT_EQ(all.contributions, 8);
  EXPECT_LT(any.contributions, 8);
  EXPECT_GT(any.goodput, all.goodput + 0.1);
  EXPECT_GT(all.waiting, any.waiting);
  const auto again = run_islands(islands, 3);
  EXPECT_EQ(again.goodput, all.goodput);
}

}  // namespace
}  // namespace tributary::sim
