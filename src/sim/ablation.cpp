#include "sim/ablation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace tributary::sim {
namespace {

constexpr const char* kPlannedPaths = "planned_paths";
constexpr const char* kFastDetection = "fast_detection";
constexpr const char* kAll = "all";
constexpr double kMostDetectionFactor = 1000;  // as in a scenario file

struct Switch {
  const char* name;
  bool swarm::Switches::*value;
  const char* without;
};
constexpr Switch kSwitches[] = {
    {"early_aggregation", &swarm::Switches::early_aggregation, "a stage is summed when the whole iteration is done"},
    {"uneven_shares", &swarm::Switches::uneven_shares, "equal ranges in the reduction"},
    {"extra_in_flight", &swarm::Switches::extra_in_flight, "no more microbatches on their way than slots"},
    {"admit_at_once", &swarm::Switches::admit_at_once, "newcomers fetch state in the next iteration"},
    {"promote", &swarm::Switches::promote, "newcomers work in the next iteration"},
    {"move_relays", &swarm::Switches::move_relays, "relays stay in their stages"},
};

// Student's t at 97.5 %.
double quantile(std::size_t freedom) {
  constexpr double kTable[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                               2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086};
  if (freedom <= std::size(kTable)) return kTable[freedom - 1];
  // Cornish and Fisher's expansion about the normal quantile; beyond the table right to three digits.
  const double z = 1.959964, v = static_cast<double>(freedom);
  return z + (z * z * z + z) / (4 * v) + (5 * std::pow(z, 5) + 16 * z * z * z + 3 * z) / (96 * v * v);
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

}  // namespace

const std::vector<Idea>& ideas() {
  static const std::vector<Idea> list = [] {
    std::vector<Idea> made;
    for (const auto& each : kSwitches) made.push_back({each.name, each.without});
    made.push_back({kPlannedPaths, "paths by earliest finish, relays stay in their stages"});
    made.push_back({kFastDetection, "suspicion after about 20 s, as with published time-outs"});
    made.push_back({kAll, "none of the ideas"});
    return made;
  }();
  return list;
}

double detection_factor_for(const Scenario& scenario, double time_out_s) {
  const std::size_t n = scenario.machines.size();
  double sum = 0;
  for (std::size_t from = 0; from < n; ++from)
    for (std::size_t to = 0; to < n; ++to)
      if (from != to) sum += scenario.latency_s[from * n + to];
  const double round_trip = n > 1 ? 2 * sum / static_cast<double>(n * (n - 1)) : 0;
  const swarm::PaceOptions pace;
  const double deadline = to_seconds(pace.suspect_floor) + pace.suspect_round_trips * round_trip;
  return std::clamp(time_out_s / deadline, 1.0, kMostDetectionFactor);
}

Result<void> turn_off(const std::string& idea, Scenario& scenario) {
  const bool all = idea == kAll;
  bool known = all;
  for (const auto& each : kSwitches)
    if (all || idea == each.name) scenario.switches.*each.value = false, known = true;
  if (all || idea == kPlannedPaths) scenario.router = "earliest-finish", known = true;
  if (all || idea == kFastDetection)
    scenario.detection_factor = detection_factor_for(scenario, kPublishedTimeOutS), known = true;
  if (known) return {};
  std::string names;
  for (const auto& each : ideas()) names += (names.empty() ? "" : ", ") + each.name;
  return Error{"no idea is called \"" + idea + "\"; there are " + names};
}

PairedChange paired_change(const std::vector<Pair>& pairs) {
  PairedChange change;
  change.pairs = pairs.size();
  change.low = -1;
  change.high = std::numeric_limits<double>::infinity();
  std::map<std::size_t, std::vector<double>> groups;
  for (const auto& pair : pairs) groups[pair.group].push_back(std::log(pair.without / pair.with));
  change.groups = groups.size();
  if (pairs.empty()) return change;
  std::vector<double> values;
  for (const auto& [group, logs] : groups) values.push_back(mean_of(logs));
  if (groups.size() == 1) values = groups.begin()->second;
  const double mean = mean_of(values);
  change.mean = std::expm1(mean);
  if (values.size() < 2) return change;
  double square = 0;
  for (const double value : values) square += (value - mean) * (value - mean);
  const auto n = static_cast<double>(values.size());
  const double half = quantile(values.size() - 1) * std::sqrt(square / (n - 1) / n);
  change.low = std::expm1(mean - half);
  change.high = std::expm1(mean + half);
  return change;
}

AblationRow ablation_row(const std::string& idea, double churn, const std::vector<AblationPair>& pairs) {
  AblationRow row;
  row.idea = idea;
  row.churn = churn;
  std::vector<Pair> iteration, per_accepted;
  const auto whole = [](const CompareResult& result) {
    return result.trouble.empty() && result.iterations > 0 && result.accepted > 0 && result.time_s > 0;
  };
  for (const auto& pair : pairs) {
    const auto &with = *pair.with, &without = *pair.without;
    if (!whole(with) || !whole(without)) {
      ++row.left_out;
      continue;
    }
    iteration.push_back({pair.group, with.time_s / with.iterations, without.time_s / without.iterations});
    per_accepted.push_back({pair.group, with.time_s / with.accepted, without.time_s / without.accepted});
  }
  row.iteration = paired_change(iteration);
  row.per_accepted = paired_change(per_accepted);
  return row;
}

}  // namespace tributary::sim
