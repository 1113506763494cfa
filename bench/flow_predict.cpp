// How long one prediction takes: 20 nodes and 15 microbatches over 5 stages, as the planner asks, with the list of
// tasks, and with a crash. build/bench_flow_predict
#include <benchmark/benchmark.h>

#include "base/random.h"
#include "base/ten_locations.h"
#include "flow/predict.h"

namespace tributary::flow {
namespace {

struct Setting {
  PredictWorld world;
  PredictPlan plan;
};

Setting setting(std::uint32_t relays, std::uint32_t microbatches) {
  constexpr std::uint32_t kData = 5, kStages = 5;
  Random random(1);
  Setting made;
  for (std::uint32_t d = 0; d < kData; ++d)
    made.world.nodes.push_back({0, 0, 0.9, static_cast<std::int32_t>(microbatches / kData)});
  for (std::uint32_t s = 1; s <= kStages; ++s)
    for (std::uint32_t r = 0; r < relays; ++r) made.world.nodes.push_back({s, 0.9 + 0.1 * random.uniform(), 0, 3});
  const std::size_t n = made.world.nodes.size();
  std::vector<std::size_t> site(n);
  for (auto& each : site) each = random.below(ten_locations::kSites);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      made.world.latency_s.push_back(1e-3 * ten_locations::kLatencyMs[site[i]][site[j]]);
      made.world.bandwidth_Bps.push_back(i == j ? 0 : 125e3 * ten_locations::kBandwidthMbps[site[i]][site[j]]);
    }
  made.world.message_bytes = 33.6e6;
  made.world.aggregation_bytes = 1.35e9;
  for (std::uint32_t m = 0; m < microbatches; ++m) {
    PredictMicrobatch microbatch{m, m % kData, {}};
    for (std::uint32_t s = 0; s < kStages; ++s)
      microbatch.path.push_back(kData + s * relays + static_cast<std::uint32_t>(random.below(relays)));
    made.plan.microbatches.push_back(std::move(microbatch));
  }
  return made;
}

void plans(benchmark::State& state) {
  const auto relays = static_cast<std::uint32_t>(state.range(0));
  const Setting made = setting(relays, static_cast<std::uint32_t>(state.range(1)));
  Predictor predictor(made.world);
  for (auto _ : state) benchmark::DoNotOptimize(predictor.run(made.plan).iteration_end_s);
}
BENCHMARK(plans)->Args({3, 15})->Args({10, 150})->Args({100, 1500})->Unit(benchmark::kMicrosecond);

void with_the_list_of_tasks(benchmark::State& state) {
  const Setting made = setting(3, 15);
  Predictor predictor(made.world);
  for (auto _ : state) {
    PredictTrace trace;
    benchmark::DoNotOptimize(predictor.run(made.plan, {}, &trace).iteration_end_s);
  }
}
BENCHMARK(with_the_list_of_tasks)->Unit(benchmark::kMicrosecond);

void with_a_crash(benchmark::State& state) {
  const Setting made = setting(3, 15);
  PredictFaults faults;
  faults.crashes = {{20, 6}};
  faults.detection_s = 1;
  faults.replacements = {{}, {5, 6, 7}, {8, 9, 10}, {11, 12, 13}, {14, 15, 16}, {17, 18, 19}};
  Predictor predictor(made.world);
  for (auto _ : state) benchmark::DoNotOptimize(predictor.run(made.plan, faults).iteration_end_s);
}
BENCHMARK(with_a_crash)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tributary::flow

BENCHMARK_MAIN();
