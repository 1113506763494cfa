// What the build puts into the program: cmake/assets.cmake.
#pragma once
#include <string_view>

namespace tributary::app {

extern const std::string_view kVersion;  // the commit; "unknown" without git
extern const std::string_view kChartJs;
extern const std::string_view kComparePage, kComparePageStyle;
extern const std::string_view kComparePageCharts, kComparePageTimeline, kComparePageMap;

}  // namespace tributary::app
