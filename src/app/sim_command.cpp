#include <cinttypes>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "sim/chaos.h"

namespace tributary::app {

int sim_chaos(const SimChaosArguments& arguments) {
  swarm::Counters counters;
  std::uint64_t traces = 0, events = 0, crashes = 0, iterations = 0;
  auto failures = nlohmann::json::array();
  const auto cut = sim::parse_cut(arguments.strikes, arguments.without, arguments.iterations);
  if (!cut) return fail(cut.error().message, kWrongUse);
  for (auto seed = arguments.seed; seed < arguments.seed + arguments.seeds; ++seed) {
    sim::ChaosOptions options;
    options.seed = seed;
    options.cut = *cut;
    options.log = arguments.log && !arguments.json;
    const auto result = sim::run_chaos(options);
    counters.add(result.counters);
    traces = mix64(traces, result.trace_hash);
    events += result.events;
    crashes += result.crashes;
    iterations += result.iterations;
    if (result.violation.empty()) continue;
    failures.push_back({{"seed", seed}, {"violation", result.violation}, {"replay", sim::replay_command(seed, *cut)}});
    if (!arguments.json)
      std::printf("seed %" PRIu64 ": %s\n  replay it: %s\n", seed, result.violation.c_str(),
                  sim::replay_command(seed, *cut).c_str());
  }
  const int code = failures.empty() ? kDone : kFailed;
  char trace[17];
  std::snprintf(trace, sizeof trace, "%016" PRIx64, traces);
  if (arguments.json) {
    nlohmann::json out = {{"seed", arguments.seed},  {"seeds", arguments.seeds}, {"failures", failures},
                          {"trace", trace},          {"events", events},         {"crashes", crashes},
                          {"iterations", iterations}};
    for (const auto& row : swarm::counter_rows()) out["counters"][row.name] = counters.*row.value;
    std::printf("%s\n", out.dump().c_str());
    return code;
  }
  std::printf("%" PRIu64 " swarms, %zu broke a rule; %" PRIu64 " crashes, %" PRIu64 " iterations, %" PRIu64
              " events; trace %s\n",
              arguments.seeds, failures.size(), crashes, iterations, events, trace);
  for (const auto& row : swarm::counter_rows()) std::printf("  %-18s %" PRIu64 "\n", row.name, counters.*row.value);
  return code;
}

}  // namespace tributary::app
