// How many seeds of simulated churn to try: TRIBUTARY_SEEDS, or 2,000.
#pragma once
#include <cstdint>
#include <cstdlib>

namespace tributary::sim {

inline constexpr std::uint64_t kAllSeeds = 2000;

inline std::uint64_t seeds() {
  const char* wanted = std::getenv("TRIBUTARY_SEEDS");
  const auto count = wanted ? std::strtoull(wanted, nullptr, 10) : kAllSeeds;
  return count == 0 ? 1 : count;
}

}  // namespace tributary::sim
