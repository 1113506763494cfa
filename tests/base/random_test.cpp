#include "base/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace tributary {
namespace {

TEST(Random, GivesTheSameNumbersOnEveryMachine) {
  Random random(42);
  EXPECT_EQ(random.next(), Random(42).next());
  Random a(7), b(8);
  EXPECT_NE(a.next(), b.next());
}

TEST(Random, BelowCoversItsRangeEvenly) {
  Random random(1);
  std::map<std::uint64_t, int> counts;
  for (int i = 0; i < 70000; ++i) ++counts[random.below(7)];
  ASSERT_EQ(counts.size(), 7u);
  for (const auto& [value, count] : counts) EXPECT_NEAR(count, 10000, 500) << value;
}

TEST(Random, ShuffleKeepsEveryItem) {
  Random random(3);
  std::vector<int> items(100);
  for (int i = 0; i < 100; ++i) items[i] = i;
  auto shuffled = items;
  random.shuffle(shuffled);
  EXPECT_NE(shuffled, items);
  std::sort(shuffled.begin(), shuffled.end());
  EXPECT_EQ(shuffled, items);
}

}  // namespace
}  // namespace tributary
