#include "flow/dtfm_placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "base/random.h"
#include "flow/dtfm_groups.h"

namespace tributary::flow {
namespace {

PredictWorld random_world(std::uint64_t seed, std::size_t data_nodes, const std::vector<std::size_t>& relays) {
  Random random(seed);
  PredictWorld world;
  for (std::size_t k = 0; k < data_nodes; ++k) world.nodes.push_back({0, 0, 1, 4});
  for (std::size_t s = 0; s < relays.size(); ++s)
    for (std::size_t k = 0; k < relays[s]; ++k) world.nodes.push_back({static_cast<std::uint32_t>(s + 1), 1, 0, 2});
  const std::size_t n = world.nodes.size();
  world.latency_s.assign(n * n, 0);
  world.bandwidth_Bps.assign(n * n, 1e9);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      if (i == j) continue;
      world.latency_s[i * n + j] = 0.01 + 0.2 * random.uniform();
      world.bandwidth_Bps[i * n + j] = 2e7 + 3e8 * random.uniform();
    }
  world.message_bytes = 3e7;
  world.aggregation_bytes = 1e8;
  EXPECT_TRUE(world.check().ok());
  return world;
}

// Everything below counts anew, without what the search uses.
double link(const PredictWorld& world, std::uint32_t i, std::uint32_t j, double bytes) {
  return world.latency(i, j) + world.latency(j, i) + bytes / world.bandwidth(i, j) + bytes / world.bandwidth(j, i);
}
double plain_matching(const PredictWorld& world, const Group& a, const Group& b) {
  const Group &large = a.size() >= b.size() ? a : b, &small = a.size() >= b.size() ? b : a;
  const std::size_t room = (large.size() + small.size() - 1) / small.size();
  std::vector<std::size_t> used(small.size(), 0);
  const std::function<double(std::size_t)> rest = [&](std::size_t k) -> double {
    if (k == large.size()) return 0;
    double best = std::numeric_limits<double>::infinity();
    for (std::size_t b = 0; b < small.size(); ++b) {
      if (used[b] == room) continue;
      ++used[b];
      best = std::min(best, std::max(link(world, large[k], small[b], world.message_bytes), rest(k + 1)));
      --used[b];
    }
    return best;
  };
  return rest(0);
}
double plain_cost(const PredictWorld& world, const std::vector<std::uint32_t>& stage) {
  std::vector<Group> groups(world.stages() + 1);
  for (std::uint32_t node = 0; node < stage.size(); ++node) groups[stage[node]].push_back(node);
  double exchange = 0, pipeline = 0;
  for (std::size_t s = 0; s < groups.size(); ++s) {
    pipeline += plain_matching(world, groups[s], groups[(s + 1) % groups.size()]);
    if (s == 0) continue;
    for (const auto i : groups[s]) {
      double sum = 0;
      for (const auto j : groups[s])
        if (i != j) sum += link(world, i, j, world.aggregation_bytes / static_cast<double>(groups[s].size()));
      exchange = std::max(exchange, sum);
    }
  }
  return exchange + pipeline;
}

PredictWorld placed(PredictWorld world, const std::vector<std::uint32_t>& stage) {
  for (std::size_t node = 0; node < stage.size(); ++node) world.nodes[node].stage = stage[node];
  return world;
}
std::vector<std::uint32_t> stages_of(const PredictWorld& world) {
  std::vector<std::uint32_t> stage;
  for (const auto& node : world.nodes) stage.push_back(node.stage);
  return stage;
}

// Over every placement with groups of these sizes, in any order of the groups.
double best_of_all(const PredictWorld& world, std::size_t data_nodes, std::vector<std::size_t> sizes) {
  std::sort(sizes.begin(), sizes.end());
  double best = std::numeric_limits<double>::infinity();
  do {
    std::vector<std::uint32_t> stage(data_nodes, 0);
    for (std::size_t s = 0; s < sizes.size(); ++s)
      stage.insert(stage.end(), sizes[s], static_cast<std::uint32_t>(s + 1));
    do best = std::min(best, plain_cost(world, stage));
    while (std::next_permutation(stage.begin() + static_cast<std::ptrdiff_t>(data_nodes), stage.end()));
  } while (std::next_permutation(sizes.begin(), sizes.end()));
  return best;
}

TEST(DtfmPlacement, FindsTheBestOfAllPlacementsOfSmallWorlds) {
  const std::vector<std::vector<std::size_t>> shapes = {{2, 2}, {2, 2, 2}, {3, 3}, {3, 2, 1}, {1, 1, 1, 1}};
  for (std::uint64_t seed = 1; seed <= 20; ++seed)
    for (const auto& shape : shapes)
      for (const std::size_t data_nodes : {std::size_t{1}, std::size_t{2}}) {
        const auto world = random_world(mix64(seed, data_nodes), data_nodes, shape);
        const auto found = dtfm_place(world, seed, {.population = 30, .trials = 300});
        const double best = best_of_all(world, data_nodes, shape);
        EXPECT_NEAR(found.cost.total_s(), best, 1e-9) << seed;
        // The answer is a placement, and costs what it says.
        EXPECT_NEAR(plain_cost(world, found.stage), best, 1e-9);
        auto sizes = shape;
        std::vector<std::size_t> counted(shape.size(), 0);
        for (std::size_t node = 0; node < found.stage.size(); ++node) {
          EXPECT_EQ(found.stage[node] == 0, node < data_nodes);
          if (found.stage[node] > 0) ++counted[found.stage[node] - 1];
        }
        std::sort(sizes.begin(), sizes.end());
        std::sort(counted.begin(), counted.end());
        EXPECT_EQ(counted, sizes);
      }
}

TEST(DtfmPlacement, TheCostOfAWorldIsThatOfItsPlainCount) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    const auto world = random_world(seed, 3, {3, 4, 2});
    EXPECT_NEAR(dtfm_cost(world).total_s(), plain_cost(world, stages_of(world)), 1e-9);
  }
}

TEST(DtfmPlacement, NeverCostsMoreThanWhatWasThereAndIsTheSameForASeed) {
  const auto world = random_world(5, 5, {3, 3, 3, 3, 3});
  const double before = dtfm_cost(world).total_s();
  const auto first = dtfm_place(world, 7), again = dtfm_place(world, 7);
  EXPECT_EQ(first.stage, again.stage);
  EXPECT_LT(first.cost.total_s(), 0.9 * before);
  EXPECT_NEAR(dtfm_cost(placed(world, first.stage)).total_s(), first.cost.total_s(), 1e-9);
  const auto kept = dtfm_place(placed(world, first.stage), 8, {.population = 2, .trials = 0});
  EXPECT_LE(kept.cost.total_s(), first.cost.total_s() + 1e-9);
}

// Beyond the exact tour's size: points on a circle, shuffled, whose best way is round it.
TEST(DtfmPlacement, TheQuickTourGoesRoundACircle) {
  constexpr std::size_t kPlaces = 16;
  std::vector<std::uint32_t> at(kPlaces);
  for (std::uint32_t k = 0; k < kPlaces; ++k) at[k] = k;
  Random random(3);
  random.shuffle(at);
  std::vector<double> step(kPlaces * kPlaces);
  for (std::size_t i = 0; i < kPlaces; ++i)
    for (std::size_t j = 0; j < kPlaces; ++j) {
      const auto apart = static_cast<double>(at[i] > at[j] ? at[i] - at[j] : at[j] - at[i]);
      step[i * kPlaces + j] = std::min(apart, kPlaces - apart);
    }
  const auto order = DtfmGroups::tour(step, kPlaces);
  ASSERT_EQ(order.size(), kPlaces - 1);
  double sum = step[order.front()] + step[order.back() * kPlaces];
  for (std::size_t k = 1; k < order.size(); ++k) sum += step[order[k - 1] * kPlaces + order[k]];
  EXPECT_EQ(sum, kPlaces);
}

TEST(DtfmPlacement, ABudgetOfStepsEndsIt) {
  const auto world = random_world(9, 2, std::vector<std::size_t>(8, 8));
  const auto short_search = dtfm_place(world, 1, {.steps = 2'000'000});
  EXPECT_LT(short_search.trials, 4000);
  EXPECT_LE(short_search.cost.total_s(), dtfm_cost(world).total_s());
}

}  // namespace
}  // namespace tributary::flow
