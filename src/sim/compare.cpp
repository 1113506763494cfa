#include "sim/compare.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "flow/router.h"
#include "sim/ablation.h"
#include "sim/baseline.h"
#include "sim/rehearsal.h"

namespace tributary::sim {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kProtocol = "protocol";
constexpr std::string_view kProtocolWith = "protocol/";
constexpr std::string_view kWithout = "without/";
constexpr std::uint64_t kWarmUp = 2;

struct Number {
  const char* name;
  double CompareResult::*value;
};
constexpr Number kNumbers[] = {{"time_s", &CompareResult::time_s},
                               {"iterations", &CompareResult::iterations},
                               {"accepted", &CompareResult::accepted},
                               {"parts", &CompareResult::parts},
                               {"crashes", &CompareResult::crashes},
                               {"wait_s", &CompareResult::wait_s},
                               {"transfer_s", &CompareResult::transfer_s},
                               {"compute_s", &CompareResult::compute_s},
                               {"last_s", &CompareResult::last_s},
                               {"end_s", &CompareResult::end_s},
                               {"redone_share", &CompareResult::redone_share},
                               {"messages", &CompareResult::messages},
                               {"control_bytes", &CompareResult::control_bytes}};

// Adds an iteration's times, as its share of the run's means.
template <class Into, class Times>
void add_times(Into& result, const Times& times, double share) {
  result.wait_s += times.wait_s * share;
  result.transfer_s += times.transfer_s * share;
  result.compute_s += times.compute_s * share;
  result.last_s += times.last_s * share;
  result.end_s += times.end_s * share;
}

Result<CompareResult> run_in_event_model(const Scenario& scenario, const CompareCell& cell, Timeline* timeline) {
  const auto run = run_baseline(scenario, {cell.policy, cell.churn, cell.seed, cell.iterations, timeline != nullptr});
  if (!run) return run.error();
  CompareResult result;
  double redone = 0, computed = 0;
  for (const auto& each : run->iterations) {
    result.time_s += each.duration_s;
    result.accepted += each.accepted;
    result.parts += each.parts;
    result.crashes += each.crashes;
    result.iterations += 1;
    redone += each.time.redone_s;
    computed += each.time.computed_s;
    add_times(result, each.time, 1 / static_cast<double>(run->iterations.size()));
  }
  result.redone_share = computed > 0 ? redone / computed : 0;
  if (!std::isfinite(result.time_s)) {
    result = {};
    result.trouble = "an iteration never ended";
  }
  if (timeline) *timeline = timeline_of(scenario, *run);
  return result;
}

Result<CompareResult> run_protocol(Scenario scenario, const CompareCell& cell, Timeline* timeline) {
  if (cell.policy.starts_with(kProtocolWith)) scenario.router = cell.policy.substr(kProtocolWith.size());
  if (cell.policy.starts_with(kWithout))
    if (const auto off = turn_off(cell.policy.substr(kWithout.size()), scenario); !off) return off.error();
  scenario.iterations = cell.iterations;
  // Nothing else of the scenario's churn: the event model knows only this.
  ScenarioChurn churn;
  churn.kind = cell.churn > 0 ? ChurnKind::kPerIteration : ChurnKind::kNone;
  churn.probability = cell.churn;
  churn.away_mean_s = scenario.churn.away_mean_s;
  scenario.churn = churn;
  RehearsalOptions options;
  options.seed = cell.seed;
  options.warm_up = kWarmUp;
  options.trace = timeline != nullptr;
  const auto run = rehearse(scenario, options);
  if (!run) return run.error();
  CompareResult result;
  for (const auto& each : run->iterations) {
    result.time_s += each.duration_s;
    result.accepted += each.accepted;
    result.crashes += each.crashes;
    result.iterations += 1;
    add_times(result, each, 1 / static_cast<double>(run->iterations.size()));
  }
  result.parts = result.accepted;  // a microbatch is in the update whole, or not at all
  result.redone_share = run->redone_share();
  const double all = result.iterations + static_cast<double>(kWarmUp);
  result.messages = static_cast<double>(run->messages) / all;
  result.control_bytes = run->control_bytes / all;
  result.trouble = run->trouble.substr(0, kMostLineBytes / 8);
  if (timeline) *timeline = timeline_of(scenario, *run);
  return result;
}

double standard_error(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  if (n < 2) return 0;
  double mean = 0, square = 0;
  for (const double each : values) mean += each / n;
  for (const double each : values) square += (each - mean) * (each - mean);
  return std::sqrt(square / (n - 1) / n);
}

}  // namespace

const std::vector<std::string>& compare_policies() {
  static const std::vector<std::string> names = [] {
    auto list = baseline_names();
    list.emplace_back(kProtocol);
    return list;
  }();
  return names;
}

Result<void> check_policy(const std::string& policy) {
  const auto& names = compare_policies();
  if (std::find(names.begin(), names.end(), policy) != names.end()) return {};
  if (policy.starts_with(kProtocolWith)) {
    const std::string router = policy.substr(kProtocolWith.size());
    if (router == "earliest-finish") return {};
    if (const auto made = flow::make_router(router); !made) return Error{made.error().message + ", earliest-finish"};
    return {};
  }
  if (policy.starts_with(kWithout)) {
    Scenario unused;
    return turn_off(policy.substr(kWithout.size()), unused);
  }
  std::string known;
  for (const auto& name : names) known += (known.empty() ? "" : ", ") + name;
  return Error{"no policy is called \"" + policy + "\"; there are " + known +
               ", protocol/ROUTER with a router of `flow solve`, and without/IDEA"};
}

bool plays_protocol(const std::string& policy) {
  return policy == kProtocol || policy.starts_with(kProtocolWith) || policy.starts_with(kWithout);
}

Result<CompareResult> run_cell(const Scenario& scenario, const CompareCell& cell, Timeline* timeline) {
  if (const auto known = check_policy(cell.policy); !known) return known.error();
  return plays_protocol(cell.policy) ? run_protocol(scenario, cell, timeline)
                                     : run_in_event_model(scenario, cell, timeline);
}

std::string cell_key(std::string_view scenario_text, std::string_view version, const CompareCell& cell) {
  char key[80];
  std::snprintf(key, sizeof key, "%016llx %.17g %llu %llu ",
                static_cast<unsigned long long>(mix64(checksum64(scenario_text), checksum64(version))), cell.churn,
                static_cast<unsigned long long>(cell.seed), static_cast<unsigned long long>(cell.iterations));
  return key + cell.policy;
}

std::string to_line(const CompareLine& line) {
  Json json = {{"key", line.key}};
  for (const auto& number : kNumbers) json[number.name] = line.result.*number.value;
  if (!line.result.trouble.empty()) json["trouble"] = line.result.trouble;
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  char check[32];
  std::snprintf(check, sizeof check, "%016llx ", static_cast<unsigned long long>(checksum64(text)));
  return check + text;
}

Result<CompareLine> parse_line(std::string_view text) {
  if (text.size() > kMostLineBytes) return Error{"it is longer than " + std::to_string(kMostLineBytes) + " bytes"};
  if (text.size() < 18) return Error{"it is cut short"};
  char check[32];
  std::snprintf(check, sizeof check, "%016llx ", static_cast<unsigned long long>(checksum64(text.substr(17))));
  if (text.substr(0, 17) != check) return Error{"its checksum is wrong"};
  const auto json = Json::parse(text.substr(17), nullptr, false);
  if (!json.is_object() || !json.contains("key") || !json["key"].is_string()) return Error{"it has no key"};
  CompareLine line;
  line.key = json["key"].get<std::string>();
  for (const auto& number : kNumbers) {
    const auto found = json.find(number.name);
    if (found == json.end() || !found->is_number()) return Error{std::string("it lacks the number ") + number.name};
    line.result.*number.value = found->get<double>();
  }
  if (const auto found = json.find("trouble"); found != json.end() && found->is_string())
    line.result.trouble = found->get<std::string>();
  return line;
}

CompareRow summarise(const std::string& policy, double churn, const std::vector<CompareRun>& runs) {
  CompareRow row;
  row.policy = policy;
  row.churn = churn;
  double time = 0, accepted = 0, parts = 0;
  bool bounds = true;
  std::vector<double> iteration_s, accepted_rate, per_accepted;
  for (const auto& run : runs) {
    const auto& result = *run.result;
    if (!result.trouble.empty()) row.troubles.push_back(result.trouble);
    if (!result.trouble.empty() || result.iterations == 0) continue;
    ++row.runs;
    time += result.time_s;
    accepted += result.accepted;
    parts += result.parts;
    row.iterations += result.iterations;
    row.crashes += result.crashes;
    row.lower_bound_s += run.lower_bound_s;
    bounds &= run.lower_bound_s > 0;
    iteration_s.push_back(result.time_s / result.iterations);
    accepted_rate.push_back(10 * result.accepted / result.time_s);
    per_accepted.push_back(result.time_s / result.accepted);
  }
  if (row.runs == 0) return row;
  const auto n = static_cast<double>(row.runs);
  row.iteration_s = time / row.iterations;
  row.iteration_error_s = standard_error(iteration_s);
  row.accepted_per_10_s = 10 * accepted / time;
  row.accepted_error = standard_error(accepted_rate);
  row.parts_per_10_s = 10 * parts / time;
  row.per_accepted_s = time / accepted;
  row.per_accepted_error_s = standard_error(per_accepted);
  row.lower_bound_s = bounds ? row.lower_bound_s / n : 0;
  const bool counted = std::all_of(runs.begin(), runs.end(), [](const auto& run) { return run.result->messages >= 0; });
  if (counted) row.messages = row.control_bytes = 0;
  for (const auto& run : runs) {
    if (!run.result->trouble.empty() || run.result->iterations == 0) continue;
    add_times(row, *run.result, 1 / n);
    row.redone_share += run.result->redone_share / n;
    if (!counted) continue;
    row.messages += run.result->messages / n;
    row.control_bytes += run.result->control_bytes / n;
  }
  return row;
}

}  // namespace tributary::sim
