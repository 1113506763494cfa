// The page of `sim compare`: one HTML file with the plots, their data and what draws them.
#pragma once
#include <string>
#include <vector>

#include "sim/ablation.h"

namespace tributary::app {

// One iteration of one policy, to draw.
struct PageTimeline {
  sim::CompareCell cell;
  sim::Timeline timeline;
};
struct PageContent {
  std::string command;  // that makes the page again
  std::vector<sim::Scenario> scenarios;
  std::vector<sim::CompareRow> rows;
  std::vector<sim::AblationRow> ideas;  // empty: no ablation
  std::vector<PageTimeline> timelines;  // all of the first scenario; those too large to draw are left out
  std::uint64_t seeds = 0, iterations = 0;
};
// Iterations with more than these are not drawn.
inline constexpr std::size_t kMostLanes = 150, kMostBars = 30000;

std::string compare_page(const PageContent& content);

}  // namespace tributary::app
