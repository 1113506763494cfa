// What happens to a scenario's machines, and which ideas are turned off.
#include <algorithm>
#include <set>

#include "sim/csv.h"
#include "sim/scenario_parts.h"

namespace tributary::sim {
namespace {

constexpr double kMostRate = 1e6;  // events an hour
constexpr double kMostTime = 1e9;
constexpr double kLeastRate = 1;
constexpr const char* kWhat[] = {"crash", "leave", "freeze", "thaw", "start"};

bool is_what(const std::string& what) { return std::find(std::begin(kWhat), std::end(kWhat), what) != std::end(kWhat); }

void read_kind(Keys& keys, ScenarioChurn& churn) {
  static constexpr std::pair<const char*, ChurnKind> kKinds[] = {
      {"none", ChurnKind::kNone},       {"per-iteration", ChurnKind::kPerIteration},
      {"poisson", ChurnKind::kPoisson}, {"diurnal", ChurnKind::kDiurnal},
      {"spot", ChurnKind::kSpot},       {"trace", ChurnKind::kTrace}};
  std::string kind = "none";
  keys.text("kind", kind);
  for (const auto& [name, value] : kKinds)
    if (kind == name) {
      churn.kind = value;
      return;
    }
  keys.fault(*keys.node("kind"), "kind", "must be none, per-iteration, poisson, diurnal, spot or trace");
}

void read_events(Keys& keys, ScenarioChurn& churn) {
  const auto* events = keys.array("events");
  if (!events) return;
  for (const auto& item : *events) {
    const auto* event = item.as_array();
    const bool three = event && event->size() == 3;
    const double at = three ? (*event)[0].value_or(-1.0) : -1;
    const auto node = three ? (*event)[1].value_or(std::int64_t{-1}) : -1;
    const auto what = three ? (*event)[2].value_or(std::string()) : std::string();
    if (!(at >= 0 && at <= kMostTime) || node < 0 || node >= static_cast<std::int64_t>(kMostMachines) ||
        !is_what(what)) {
      keys.fault(item, "events", "holds [seconds, node, \"crash\" | \"leave\" | \"freeze\" | \"thaw\" | \"start\"]");
      continue;
    }
    churn.trace.push_back({at, static_cast<std::uint32_t>(node), what});
  }
}

Result<void> events_from_csv(const std::string& file, const ReadFile& read, ScenarioChurn& churn) {
  const auto text = read(file);
  if (!text) return text.error();
  const auto rows = parse_csv(*text);
  if (!rows) return Error{file + ": " + rows.error().message};
  for (const auto& row : *rows) {
    const auto at = csv_number(row, 0, 0, kMostTime);
    if (!at) return Error{file + ": " + at.error().message};
    const auto node = csv_number(row, 1, 0, static_cast<double>(kMostMachines) - 1);
    if (!node) return Error{file + ": " + node.error().message};
    if (row.fields.size() != 3 || !is_what(row.fields[2]))
      return Error{file + ": line " + std::to_string(row.line) +
                   " must be time_s,node,what with crash, leave, freeze, thaw or start"};
    churn.trace.push_back({*at, static_cast<std::uint32_t>(*node), row.fields[2]});
  }
  return {};
}

void read_by_hour(Keys& keys, ScenarioChurn& churn) {
  const auto* list = keys.array("by_hour");
  if (!list) return;
  for (const auto& item : *list) churn.by_hour.push_back(item.value_or(-1.0));
  const bool fine =
      std::all_of(churn.by_hour.begin(), churn.by_hour.end(), [](double f) { return f >= 0 && f <= 1e6; });
  if (churn.by_hour.size() != 24 || !fine)
    keys.fault(*keys.node("by_hour"), "by_hour",
               "must hold 24 factors, none below 0, for the hours from the beginning on");
}

void read_partitions(Keys& keys, std::vector<ScenarioChurn::Partition>& partitions) {
  const auto* list = keys.array("partitions");
  for (std::size_t i = 0; list && i < std::min<std::size_t>(list->size(), 10'000); ++i) {
    ScenarioChurn::Partition partition;
    Keys own((*list)[i].as_table(), "churn.partitions[" + std::to_string(i) + "].", keys.faults());
    own.number("from_s", partition.from_s, 0, kMostTime);
    own.number("to_s", partition.to_s, 0, kMostTime);
    own.flag("lossy", partition.lossy);
    if (const auto* sites = own.array("sites"))
      for (const auto& site : *sites) partition.sites.push_back(site.value_or(std::string()));
    if (partition.sites.empty()) own.fault((*list)[i], "sites", "must name the sites that are cut off from the others");
    if (partition.to_s <= partition.from_s) own.fault((*list)[i], "to_s", "must be after from_s");
    partitions.push_back(std::move(partition));
  }
}

}  // namespace

void read_churn(const toml::table* table, const ReadFile& read, ScenarioChurn& churn,
                std::vector<std::string>& faults) {
  if (!table) return;
  Keys keys(table, "churn.", faults);
  read_kind(keys, churn);
  keys.number("p", churn.probability, 0, 1);
  keys.number("per_node_hour", churn.per_node_hour, 0, kMostRate);
  keys.number("notice_s", churn.notice_s, 0, kMostTime);
  keys.number("away_mean_s", churn.away_mean_s, 0, kMostTime);
  keys.flag("spare_last", churn.spare_last);
  keys.flag("data_nodes", churn.data_nodes);
  keys.number("leader_per_hour", churn.leader_per_hour, 0, kMostRate);
  read_by_hour(keys, churn);
  if (churn.kind == ChurnKind::kDiurnal && churn.by_hour.empty())
    keys.fault(*table, "by_hour", "is needed for diurnal churn: 24 factors of per_node_hour");
  read_events(keys, churn);
  std::string file;
  keys.text("file", file);
  if (!file.empty())
    if (auto loaded = events_from_csv(file, read, churn); !loaded)
      keys.fault(*table->get("file"), "file", loaded.error().message);
  if (const auto* sites = keys.table("sites")) {
    Keys own(sites, "churn.sites.", faults);
    own.number("per_hour", churn.site_per_hour, 0, kMostRate);
    own.number("down_mean_s", churn.site_down_mean_s, 0, kMostTime);
  }
  if (const auto* freezes = keys.table("freezes")) {
    Keys own(freezes, "churn.freezes.", faults);
    own.number("per_node_hour", churn.freeze_per_node_hour, 0, kMostRate);
    own.number("mean_s", churn.freeze_mean_s, 0, kMostTime);
  }
  if (const auto* delays = keys.table("delays")) {
    Keys own(delays, "churn.delays.", faults);
    own.number("per_node_hour", churn.delay_per_node_hour, 0, kMostRate);
    own.number("delay_s", churn.delay_s, 0, 1e5);
    own.number("mean_s", churn.delay_mean_s, 0, kMostTime);
  }
  read_partitions(keys, churn.partitions);
}

Result<void> check_churn(const Scenario& scenario) {
  for (const auto& event : scenario.churn.trace)
    if (event.node >= scenario.machines.size())
      return Error{"churn.events names node " + std::to_string(event.node) + "; there are " +
                   std::to_string(scenario.machines.size())};
  std::set<std::string> sites;
  for (const auto& machine : scenario.machines) sites.insert(machine.site);
  for (const auto& partition : scenario.churn.partitions)
    for (const auto& site : partition.sites)
      if (!sites.contains(site)) return Error{"churn.partitions: no machine is at a site \"" + site + "\""};
  return {};
}

void read_switches(const toml::table* table, Scenario& scenario, std::vector<std::string>& faults) {
  if (!table) return;
  Keys keys(table, "switches.", faults);
  keys.flag("early_aggregation", scenario.switches.early_aggregation);
  keys.flag("uneven_shares", scenario.switches.uneven_shares);
  keys.flag("extra_in_flight", scenario.switches.extra_in_flight);
  keys.flag("admit_at_once", scenario.switches.admit_at_once);
  keys.flag("promote", scenario.switches.promote);
  keys.flag("move_relays", scenario.switches.move_relays);
  keys.number("detection_factor", scenario.detection_factor, 0.6, 1000);
}

void read_pace(const toml::table* table, Scenario& scenario, std::vector<std::string>& faults) {
  if (!table) return;
  Keys keys(table, "pace.", faults);
  keys.number("ping_s", scenario.ping_s, 0.01, 60);
  keys.number("report_s", scenario.report_s, 0.01, 60);
}

void read_islands(const toml::array* list, Scenario& scenario, std::vector<std::string>& faults) {
  if (!list) return;
  if (list->size() > 1000) {
    faults.push_back("islands: more than 1000 rows");
    return;
  }
  Islands row;
  for (std::size_t i = 0; i < list->size(); ++i) {
    Keys keys((*list)[i].as_table(), "islands[" + std::to_string(i) + "].", faults);
    keys.text("name", row.name);
    keys.integer("count", row.count, 1, 1000);
    keys.number("chips", row.chips, 1, 1e9);
    keys.number("chip_years", row.chip_years, 1e-5, 1e4);
    keys.number("pause_s", row.pause_s, 0, 1e6);
    keys.number("iteration_s", row.iteration_s, 0.1, 1e6);
    keys.integer("round_every", row.round_every, 1, 1'000'000);
    keys.number("exchange_bytes", row.exchange_bytes, 0, 1e15);
    keys.number("bandwidth_Bps", row.bandwidth_Bps, kLeastRate, 1e15);
    keys.number("latency_s", row.latency_s, 0, 60);
    std::string topology = row.all_reduce ? "all-reduce" : "syncer";
    keys.text("topology", topology);
    row.all_reduce = topology == "all-reduce";
    if (!row.all_reduce && topology != "syncer")
      keys.fault(*keys.node("topology"), "topology", "must be all-reduce or syncer");
    keys.integer("overlap", row.overlap, 0, 1'000'000);
    keys.integer("quorum", row.quorum, 0, 1000);
    keys.number("grace_s", row.grace_s, 0, 1e6);
    keys.number("days", row.days, 1e-3, 30);
    // Bounds the work of one row to some tens of millions of events.
    const double iterations = row.days * 86'400 / row.iteration_s * row.count;
    const double failures = row.days / 365.25 * row.chips / row.chip_years;
    if (iterations + failures > 3e7)
      keys.fault((*list)[i], "days", "makes more than 3e7 iterations and failures; take fewer");
    scenario.islands.push_back(row);
  }
}

const std::vector<std::string>& trouble_parts() {
  static const std::vector<std::string> parts = {"chance",  "events", "leader",    "sites",
                                                 "freezes", "delays", "partitions"};
  return parts;
}

Result<void> leave_out(const std::string& part, Scenario& scenario) {
  auto& churn = scenario.churn;
  if (part == "chance") {
    churn.kind = ChurnKind::kNone;
  } else if (part == "events") {
    churn.trace.clear();
  } else if (part == "leader") {
    churn.leader_per_hour = 0;
  } else if (part == "sites") {
    churn.site_per_hour = 0;
  } else if (part == "freezes") {
    churn.freeze_per_node_hour = 0;
  } else if (part == "delays") {
    churn.delay_per_node_hour = 0;
  } else if (part == "partitions") {
    churn.partitions.clear();
  } else {
    std::string list;
    for (const auto& known : trouble_parts()) list += (list.empty() ? "" : ", ") + known;
    return Error{"there is no part \"" + part + "\" of a scenario's trouble; there are " + list};
  }
  return {};
}

}  // namespace tributary::sim
