// Simulated churn: seeds a second, and how often the rare paths ran. bench_sim_chaos [FIRST_SEED [COUNT [--log]]]
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "sim/chaos.h"

int main(int argc, char** argv) {
  using namespace tributary;
  const std::uint64_t first = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
  const std::uint64_t count = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 200;
  swarm::Counters counters;
  std::uint64_t events = 0, crashes = 0, failed = 0;
  const auto began = std::chrono::steady_clock::now();
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    sim::ChaosOptions options;
    options.seed = seed;
    options.log = argc > 3;
    const auto result = sim::run_chaos(options);
    counters.add(result.counters);
    events += result.events;
    crashes += result.crashes;
    if (result.violation.empty()) continue;
    ++failed;
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), result.violation.c_str());
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  std::printf("%llu seeds, %llu failed, %.1f ms a seed, %.0f events and %.1f crashes a seed\n",
              static_cast<unsigned long long>(count), static_cast<unsigned long long>(failed),
              1e3 * took.count() / static_cast<double>(count), static_cast<double>(events) / static_cast<double>(count),
              static_cast<double>(crashes) / static_cast<double>(count));
  for (const auto& row : swarm::counter_rows())
    std::printf("  %-18s %llu\n", row.name, static_cast<unsigned long long>(counters.*row.value));
  return failed == 0 ? 0 : 1;
}
