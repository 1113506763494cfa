// `sim run`: a scenario played by the protocol's own objects, and what came of it.
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "sim/ablation.h"
#include "sim/dealing.h"
#include "sim/rehearsal.h"
#include "text/files.h"

namespace tributary::app {
namespace {

Result<std::string> read(const std::filesystem::path& file) {
  const auto bytes = text::read_file(file, sim::kMostScenarioBytes);
  if (!bytes) return bytes.error();
  return std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size());
}

nlohmann::ordered_json as_json(const sim::Scenario& scenario, const sim::Rehearsal& rehearsal) {
  auto iterations = nlohmann::ordered_json::array();
  for (const auto& i : rehearsal.iterations)
    iterations.push_back({{"start_s", i.start_s},
                          {"duration_s", i.duration_s},
                          {"wait_s", i.wait_s},
                          {"transfer_s", i.transfer_s},
                          {"compute_s", i.compute_s},
                          {"last_s", i.last_s},
                          {"end_s", i.end_s},
                          {"redone_s", i.redone_s},
                          {"idle_s", i.idle_s},
                          {"idle_from_s", i.idle_from_s},
                          {"crashes", i.crashes},
                          {"accepted", i.accepted}});
  char trace[17];
  std::snprintf(trace, sizeof trace, "%016llx", static_cast<unsigned long long>(rehearsal.trace_hash));
  nlohmann::ordered_json out = {{"scenario", scenario.name},
                                {"router", scenario.router},
                                {"machines", scenario.machines.size()},
                                {"mean_iteration_s", rehearsal.mean_iteration_s()},
                                {"accepted_per_10_s", rehearsal.accepted_per_10_s()},
                                {"redone_share", rehearsal.redone_share()},
                                {"crash_free_iteration_s", rehearsal.crash_free_s},
                                {"lower_bound_s", scenario.lower_bound_s},
                                {"virtual_s", rehearsal.virtual_s},
                                {"messages", rehearsal.messages},
                                {"control_bytes", rehearsal.control_bytes},
                                {"payload_bytes", rehearsal.payload_bytes},
                                {"events", rehearsal.events},
                                {"trace", trace},
                                {"iterations", iterations}};
  for (const auto& row : swarm::counter_rows()) out["counters"][row.name] = rehearsal.counters.*row.value;
  return out;
}

void print(const sim::Scenario& scenario, const sim::Rehearsal& rehearsal) {
  std::printf("%s: %zu machines, %u stages, router %s\n", scenario.name.c_str(), scenario.machines.size(),
              static_cast<unsigned>(scenario.stages()), scenario.router.c_str());
  std::printf("%4s %9s %9s %9s %9s %9s %9s %9s %9s %8s\n", "", "seconds", "waiting", "on wires", "computing",
              "last one", "the end", "redone", "idle", "crashes");
  std::size_t row = 0;
  for (const auto& i : rehearsal.iterations)
    std::printf("%4zu %9.2f %9.2f %9.2f %9.2f %9.2f %9.2f %9.2f %9.2f %8u\n", ++row, i.duration_s, i.wait_s,
                i.transfer_s, i.compute_s, i.last_s, i.end_s, i.redone_s, i.idle_s, i.crashes);
  std::printf("mean %.2f s an iteration, %.2f microbatches accepted in 10 s, %.1f %% of the computing done twice\n",
              rehearsal.mean_iteration_s(), rehearsal.accepted_per_10_s(), 100 * rehearsal.redone_share());
  if (scenario.lower_bound_s > 0)
    std::printf("without crashes %.2f s; no plan for this placement can be below %.2f s\n", rehearsal.crash_free_s,
                scenario.lower_bound_s);
  std::printf(
      "%llu messages; %.1f kB an iteration beside tensors\n", static_cast<unsigned long long>(rehearsal.messages),
      rehearsal.control_bytes / 1e3 / static_cast<double>(std::max<std::size_t>(1, rehearsal.iterations.size())));
}

int run_islands(const sim::Scenario& scenario, const SimRunArguments& arguments) {
  auto rows = nlohmann::ordered_json::array();
  if (!arguments.json)
    std::printf("%-32s %8s %8s %8s %8s %10s %8s %8s\n", scenario.name.c_str(), "goodput", "paused", "redone", "waiting",
                "failures", "rounds", "in each");
  for (const auto& islands : scenario.islands) {
    const auto result = sim::run_islands(islands, arguments.seed);
    rows.push_back({{"name", islands.name},
                    {"islands", islands.count},
                    {"goodput", result.goodput},
                    {"paused", result.paused},
                    {"redone", result.redone},
                    {"waiting", result.waiting},
                    {"failures", result.failures},
                    {"rounds", result.rounds},
                    {"contributions", result.contributions}});
    if (arguments.json) continue;
    std::printf("%-32s %6.1f %% %6.1f %% %6.1f %% %6.1f %% %10llu %8llu %8.2f\n", islands.name.c_str(),
                100 * result.goodput, 100 * result.paused, 100 * result.redone, 100 * result.waiting,
                static_cast<unsigned long long>(result.failures), static_cast<unsigned long long>(result.rounds),
                result.contributions);
  }
  if (arguments.json)
    std::printf("%s\n", nlohmann::ordered_json{{"scenario", scenario.name}, {"islands", rows}}.dump().c_str());
  return kDone;
}

}  // namespace

int sim_run(const SimRunArguments& arguments) {
  const auto text = read(arguments.scenario);
  if (!text) return fail(text.error().message);
  const bool world = arguments.scenario.extension() == ".json";
  auto scenario = world ? sim::parse_world(*text) : sim::parse_scenario(*text, [&](const std::string& name) {
    return read(arguments.scenario.parent_path() / name);
  });
  if (!scenario) return fail(arguments.scenario.string() + ": " + scenario.error().message, kWrongUse);
  if (!scenario->islands.empty() && scenario->machines.empty()) return run_islands(*scenario, arguments);
  if (!arguments.place.empty())
    if (const auto dealing = sim::deal_relays(arguments.place, arguments.seed, *scenario); !dealing)
      return fail("--place: " + dealing.error().message, kWrongUse);
  if (!arguments.router.empty()) scenario->router = arguments.router;
  if (arguments.iterations > 0) scenario->iterations = arguments.iterations;
  if (arguments.churn >= 0) {
    scenario->churn.kind = arguments.churn > 0 ? sim::ChurnKind::kPerIteration : sim::ChurnKind::kNone;
    scenario->churn.probability = arguments.churn;
  }
  for (const auto& part : arguments.without)
    if (const auto left_out = sim::leave_out(part, *scenario); !left_out)
      return fail("--without: " + left_out.error().message, kWrongUse);
  for (const auto& idea : arguments.off)
    if (const auto turned = sim::turn_off(idea, *scenario); !turned)
      return fail("--off: " + turned.error().message, kWrongUse);
  sim::RehearsalOptions options;
  options.check = arguments.check;
  options.seed = arguments.seed;
  options.trace = !arguments.trace.empty();
  auto rehearsal = sim::rehearse(*scenario, options);
  if (!rehearsal) return fail(rehearsal.error().message, kWrongUse);
  if (options.trace) {
    const auto written = text::write_file(arguments.trace, sim::chrome_trace(*scenario, *rehearsal));
    if (!written) return fail(written.error().message);
  }
  if (arguments.json) {
    std::printf("%s\n", as_json(*scenario, *rehearsal).dump().c_str());
  } else {
    print(*scenario, *rehearsal);
    if (options.trace)
      std::printf("trace in %s: open it at ui.perfetto.dev or chrome://tracing\n", arguments.trace.c_str());
  }
  return rehearsal->trouble.empty() ? kDone : fail(rehearsal->trouble);
}

}  // namespace tributary::app
