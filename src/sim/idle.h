// The longest time in which nothing went on: what a protocol that waits for a word nobody sends looks like from
// outside.
#pragma once
#include <vector>

namespace tributary::sim {

struct Span {
  double begin_s = 0, end_s = 0;  // equal: something happened at that instant
};
// The longest part of [from_s, to_s] that touches none of the spans, in any order.
Span longest_gap(std::vector<Span> spans, double from_s, double to_s);

}  // namespace tributary::sim
