#include "sim/idle.h"

#include <algorithm>

namespace tributary::sim {

Span longest_gap(std::vector<Span> spans, double from_s, double to_s) {
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.begin_s < b.begin_s; });
  spans.push_back({to_s, to_s});
  Span longest{from_s, from_s};
  double busy_until = from_s;
  for (const auto& span : spans) {
    const double begin = std::min(span.begin_s, to_s);
    if (begin - busy_until > longest.end_s - longest.begin_s) longest = {busy_until, begin};
    busy_until = std::max(busy_until, span.end_s);
  }
  return longest;
}

}  // namespace tributary::sim
