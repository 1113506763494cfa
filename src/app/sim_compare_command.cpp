// `sim compare`: the published baselines and our policy in one event model, over worlds, seeds and churn: a table.
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "app/lab_commands.h"
#include "sim/baseline.h"
#include "text/files.h"

namespace tributary::app {
namespace {

using Json = nlohmann::ordered_json;

Result<sim::Scenario> load(const std::filesystem::path& path) {
  const auto read = [](const std::filesystem::path& file) -> Result<std::string> {
    const auto bytes = text::read_file(file, sim::kMostScenarioBytes);
    if (!bytes) return bytes.error();
    return std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  };
  const auto text = read(path);
  if (!text) return text.error();
  auto scenario =
      path.extension() == ".json"
          ? sim::parse_world(*text)
          : sim::parse_scenario(*text, [&](const std::string& name) { return read(path.parent_path() / name); });
  if (!scenario) return Error{path.string() + ": " + scenario.error().message};
  return scenario;
}

// Of several runs; the spread is the standard error over them.
struct Cell {
  std::vector<double> iteration_s;  // mean of each run
  double time = 0, accepted = 0, parts = 0, iterations = 0, bound = 0;
  std::uint64_t crashes = 0;

  void add(const sim::BaselineRun& run, double lower_bound_s) {
    iteration_s.push_back(run.mean_s());
    bound += lower_bound_s;
    for (const auto& each : run.iterations) {
      time += each.duration_s;
      accepted += each.accepted;
      parts += each.parts;
      crashes += each.crashes;
      ++iterations;
    }
  }
  double mean_s() const { return time / iterations; }
  double error_s() const {
    const auto n = static_cast<double>(iteration_s.size());
    if (n < 2) return 0;
    double mean = 0, square = 0;
    for (const double each : iteration_s) mean += each / n;
    for (const double each : iteration_s) square += (each - mean) * (each - mean);
    return std::sqrt(square / (n - 1) / n);
  }
};

}  // namespace

int sim_compare(const SimCompareArguments& arguments) {
  std::vector<sim::Scenario> scenarios;
  for (const auto& path : arguments.files) {
    auto scenario = load(path);
    if (!scenario) return fail(scenario.error().message);
    scenarios.push_back(std::move(*scenario));
  }
  const auto& policies = arguments.policies.empty() ? sim::baseline_names() : arguments.policies;
  Json rows = Json::array();
  if (!arguments.json)
    std::printf("| %-5s | %-17s | %-16s | %-13s | %-13s | %-8s | %-7s |\n|---|---|---|---|---|---|---|\n", "churn",
                "policy", "iteration, s", "accepted/10 s", "parts/10 s", "of bound", "crashes");
  for (const double churn : arguments.churn)
    for (const auto& policy : policies) {
      Cell cell;
      for (const auto& scenario : scenarios)
        for (std::uint64_t seed = 1; seed <= arguments.seeds; ++seed) {
          const auto run = sim::run_baseline(scenario, {policy, churn, seed, arguments.iterations});
          if (!run) return fail(run.error().message, kWrongUse);
          cell.add(*run, scenario.lower_bound_s);
        }
      const double bound = cell.bound / static_cast<double>(cell.iteration_s.size());
      if (arguments.json) {
        rows.push_back({{"churn", churn},
                        {"policy", policy},
                        {"mean_iteration_s", cell.mean_s()},
                        {"standard_error_s", cell.error_s()},
                        {"accepted_per_10_s", 10 * cell.accepted / cell.time},
                        {"parts_per_10_s", 10 * cell.parts / cell.time},
                        {"lower_bound_s", bound},
                        {"crashes", cell.crashes},
                        {"iterations", cell.iterations}});
        continue;
      }
      char of_bound[16] = "";
      if (bound > 0) std::snprintf(of_bound, sizeof of_bound, "%.2f", cell.mean_s() / bound);
      std::printf("| %-5.3g | %-17s | %7.1f +- %-5.1f | %-13.2f | %-13.2f | %-8s | %-7llu |\n", churn, policy.c_str(),
                  cell.mean_s(), cell.error_s(), 10 * cell.accepted / cell.time, 10 * cell.parts / cell.time, of_bound,
                  static_cast<unsigned long long>(cell.crashes));
      std::fflush(stdout);
    }
  if (arguments.json) std::printf("%s\n", rows.dump().c_str());
  return kDone;
}

}  // namespace tributary::app
