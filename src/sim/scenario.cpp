#include "sim/scenario.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include <sstream>

#include "base/ten_locations.h"
#include "base/toml.h"

namespace tributary::sim {
namespace {

// Reads a table's keys once each; what is wrong with them is collected, and so is any key that nobody asked for.
class Keys {
 public:
  Keys(const toml::table* table, std::string path, std::vector<std::string>& faults)
      : table_(table), path_(std::move(path)), faults_(faults) {}
  ~Keys() {
    if (!table_) return;
    for (const auto& [key, value] : *table_) {
      if (std::find(known_.begin(), known_.end(), key.str()) != known_.end()) continue;
      std::string list;
      for (const auto& known : known_) list += (list.empty() ? "" : ", ") + known;
      fault(value, std::string(key.str()), "is unknown; there are " + list);
    }
  }
  Keys(const Keys&) = delete;

  void number(const char* key, double& into, double least, double most) {
    const auto* node = find(key);
    if (!node) return;
    const auto value = node->value<double>();
    if (!value || !(*value >= least && *value <= most))
      return fault(*node, key, "must be a number from " + text_of(least) + " to " + text_of(most));
    into = *value;
  }
  template <class Integer>
  void integer(const char* key, Integer& into, std::int64_t least, std::int64_t most) {
    const auto* node = find(key);
    if (!node) return;
    const auto value = node->value<std::int64_t>();
    if (!value || *value < least || *value > most)
      return fault(*node, key, "must be a whole number from " + std::to_string(least) + " to " + std::to_string(most));
    into = static_cast<Integer>(*value);
  }
  void flag(const char* key, bool& into) {
    const auto* node = find(key);
    if (!node) return;
    if (const auto value = node->value<bool>()) {
      into = *value;
    } else {
      fault(*node, key, "must be true or false");
    }
  }
  void text(const char* key, std::string& into) {
    const auto* node = find(key);
    if (!node) return;
    if (const auto value = node->value<std::string>()) {
      into = *value;
    } else {
      fault(*node, key, "must be a text");
    }
  }
  const toml::table* table(const char* key) {
    const auto* node = find(key);
    if (node && !node->is_table()) fault(*node, key, "must be a table");
    return node ? node->as_table() : nullptr;
  }
  const toml::array* array(const char* key) {
    const auto* node = find(key);
    if (node && !node->is_array()) fault(*node, key, "must be a list");
    return node ? node->as_array() : nullptr;
  }
  void fault(const toml::node& node, const std::string& key, const std::string& what) {
    faults_.push_back("line " + std::to_string(node.source().begin.line) + ": " + path_ + key + " " + what);
  }

 private:
  static std::string text_of(double value) {
    std::ostringstream out;
    out << value;
    return out.str();
  }
  const toml::node* find(const char* key) {
    known_.emplace_back(key);
    return table_ ? table_->get(key) : nullptr;
  }
  const toml::table* table_;
  const std::string path_;
  std::vector<std::string>& faults_;
  std::vector<std::string> known_;
};

std::optional<std::size_t> site_index(const std::string& site) {
  for (std::size_t i = 0; i < ten_locations::kSites; ++i)
    if (site == ten_locations::kSiteNames[i]) return i;
  return std::nullopt;
}

// Links of the ten locations by the machines' sites.
Result<void> lay_ten_locations(Scenario& scenario) {
  const auto n = scenario.machines.size();
  std::vector<std::size_t> sites;
  for (std::size_t i = 0; i < n; ++i) {
    const auto site = site_index(scenario.machines[i].site);
    if (!site)
      return Error{"machine " + std::to_string(i) + ": there is no site \"" + scenario.machines[i].site +
                   "\" among the ten locations (Oregon, Virginia, Ohio, Tokyo, Seoul, Singapore, Sydney, London, "
                   "Frankfurt, Ireland)"};
    sites.push_back(*site);
  }
  for (const auto from : sites)
    for (const auto to : sites) {
      scenario.latency_s.push_back(ten_locations::kLatencyMs[from][to] * 1e-3);
      scenario.bandwidth_Bps.push_back(ten_locations::kBandwidthMbps[from][to] * 1e6 / 8);
    }
  return {};
}

Result<void> check(const Scenario& scenario) {
  if (scenario.machines.empty()) return Error{"there are no machines: add [[machines]] tables, or world = \"FILE\""};
  if (scenario.machines.size() > kMostMachines)
    return Error{"more than " + std::to_string(kMostMachines) + " machines"};
  std::vector<int> by_stage(scenario.stages() + 1u, 0);
  for (std::size_t i = 0; i < scenario.machines.size(); ++i) {
    const auto& machine = scenario.machines[i];
    if (!(machine.compute_s > 0 && machine.compute_s < 1e6))
      return Error{"machine " + std::to_string(i) + ": compute_s must be above 0"};
    if (i > 0 && machine.stage < scenario.machines[i - 1].stage)
      return Error{"machine " + std::to_string(i) + ": machines must be listed by stage, data nodes (stage 0) first"};
    ++by_stage[machine.stage];
  }
  for (std::size_t s = 0; s < by_stage.size(); ++s)
    if (by_stage[s] == 0) return Error{"stage " + std::to_string(s) + " has no machine"};
  if (by_stage.size() < 2) return Error{"there are only data nodes; add machines of stage 1"};
  for (const auto& event : scenario.churn.trace)
    if (event.node >= scenario.machines.size())
      return Error{"churn.events names node " + std::to_string(event.node) + "; there are " +
                   std::to_string(scenario.machines.size())};
  return {};
}

void read_machines(const toml::array* list, Scenario& scenario, std::vector<std::string>& faults) {
  if (!list) return;
  for (std::size_t i = 0; i < list->size(); ++i) {
    ScenarioMachine machine;
    std::size_t count = 1;
    {
      Keys keys((*list)[i].as_table(), "machines[" + std::to_string(i) + "].", faults);
      keys.integer("count", count, 1, static_cast<std::int64_t>(kMostMachines));
      keys.integer("stage", machine.stage, 0, 1000);
      keys.text("site", machine.site);
      keys.number("compute_s", machine.compute_s, 1e-6, 1e6);
      keys.integer("slots", machine.slots, 1, 10000);
    }
    if (scenario.machines.size() + count <= kMostMachines)
      scenario.machines.insert(scenario.machines.end(), count, machine);
  }
}

void read_churn(const toml::table* table, ScenarioChurn& churn, std::vector<std::string>& faults) {
  if (!table) return;
  Keys keys(table, "churn.", faults);
  std::string kind = "none";
  keys.text("kind", kind);
  keys.number("p", churn.probability, 0, 1);
  keys.number("per_node_hour", churn.per_node_hour, 0, 1e6);
  keys.number("away_mean_s", churn.away_mean_s, 0, 1e9);
  keys.flag("spare_last", churn.spare_last);
  const auto* events = keys.array("events");
  if (kind == "none") {
    churn.kind = ChurnKind::kNone;
  } else if (kind == "per-iteration") {
    churn.kind = ChurnKind::kPerIteration;
  } else if (kind == "poisson") {
    churn.kind = ChurnKind::kPoisson;
  } else if (kind == "trace") {
    churn.kind = ChurnKind::kTrace;
  } else {
    keys.fault(*table->get("kind"), "kind", "must be none, per-iteration, poisson or trace");
  }
  if (!events) return;
  for (const auto& item : *events) {
    const auto* event = item.as_array();
    const bool three = event && event->size() == 3;
    const double at = three ? (*event)[0].value_or(-1.0) : -1;
    const auto node = three ? (*event)[1].value_or(std::int64_t{-1}) : -1;
    const auto what = three ? (*event)[2].value_or(std::string()) : std::string();
    static constexpr const char* kWhat[] = {"crash", "leave", "freeze", "thaw", "start"};
    if (at < 0 || node < 0 || node >= static_cast<std::int64_t>(kMostMachines) ||
        std::find(std::begin(kWhat), std::end(kWhat), what) == std::end(kWhat)) {
      keys.fault(item, "events", "holds [seconds, node, \"crash\" | \"leave\" | \"freeze\" | \"thaw\" | \"start\"]");
      continue;
    }
    churn.trace.push_back({at, static_cast<std::uint32_t>(node), what});
  }
}

}  // namespace

std::uint16_t Scenario::stages() const {
  std::uint16_t most = 0;
  for (const auto& machine : machines) most = std::max(most, machine.stage);
  return most;
}

std::uint32_t Scenario::data_nodes() const {
  return static_cast<std::uint32_t>(
      std::count_if(machines.begin(), machines.end(), [](const auto& machine) { return machine.stage == 0; }));
}

Result<Scenario> parse_world(std::string_view text) {
  if (text.size() > kMostScenarioBytes) return Error{"the world file is larger than 64 MiB"};
  const auto object = nlohmann::json::parse(text, nullptr, false);
  if (!object.is_object()) return Error{"the world file is no JSON object"};
  try {
    Scenario scenario;
    scenario.name = object.value("name", std::string("world"));
    if (object.value("links", std::string()) != "ten-locations")
      return Error{"links: only \"ten-locations\" is known in a world file"};
    for (const auto& node : object.at("nodes")) {
      ScenarioMachine machine;
      machine.stage = node.at("stage").get<std::uint16_t>();
      machine.site = node.at("site").get<std::string>();
      machine.compute_s = node.at(machine.stage == 0 ? "head_s" : "forward_s").get<double>();
      machine.slots = node.at("capacity").get<std::uint16_t>();
      scenario.machines.push_back(std::move(machine));
      if (scenario.machines.size() > kMostMachines) break;
    }
    scenario.message_bytes = object.at("message_bytes").get<double>();
    scenario.aggregation_bytes = object.value("aggregation_bytes", 0.0);
    scenario.state_bytes = object.value("state_bytes", 0.0);
    scenario.backward_ratio = object.value("backward_ratio", 2.0);
    scenario.microbatches_per_data_node = object.value("microbatches_per_data_node", 3u);
    if (object.contains("lower_bound_s")) scenario.lower_bound_s = object["lower_bound_s"].value("total", 0.0);
    if (auto checked = check(scenario); !checked) return checked.error();
    if (auto laid = lay_ten_locations(scenario); !laid) return laid.error();
    return scenario;
  } catch (const nlohmann::json::exception& e) {
    return Error{std::string("the world file lacks a field, or has one of another type: ") + e.what()};
  }
}

Result<Scenario> parse_scenario(std::string_view text,
                                const std::function<Result<std::string>(const std::string&)>& read) {
  if (text.size() > kMostScenarioBytes) return Error{"the scenario is larger than 64 MiB"};
  toml::table parsed;
  try {
    parsed = toml::parse(text);
  } catch (const toml::parse_error& error) {
    return Error{"line " + std::to_string(error.source().begin.line) + ": " + std::string(error.description())};
  }
  std::vector<std::string> faults;
  Scenario scenario;
  std::string links;
  double latency_s = 0.005, bandwidth_Bps = 2.5e8;
  {
    Keys keys(&parsed, "", faults);
    std::string world;
    keys.text("world", world);
    if (!world.empty()) {
      const auto file = read(world);
      if (!file) return file.error();
      auto loaded = parse_world(*file);
      if (!loaded) return Error{world + ": " + loaded.error().message};
      scenario = std::move(*loaded);
      links = "of the world";
    }
    keys.text("name", scenario.name);
    keys.integer("iterations", scenario.iterations, 1, 1'000'000);
    keys.text("router", scenario.router);
    read_machines(keys.array("machines"), scenario, faults);
    if (const auto* table = keys.table("links")) {
      Keys link_keys(table, "links.", faults);
      link_keys.text("preset", links);
      link_keys.number("latency_s", latency_s, 0, 60);
      link_keys.number("bandwidth_Bps", bandwidth_Bps, 1, 1e12);
    }
    if (const auto* table = keys.table("sizes")) {
      Keys sizes(table, "sizes.", faults);
      sizes.number("message_bytes", scenario.message_bytes, 0, 1e13);
      sizes.number("aggregation_bytes", scenario.aggregation_bytes, 0, 1e15);
      sizes.number("state_bytes", scenario.state_bytes, 0, 1e15);
      sizes.number("backward_ratio", scenario.backward_ratio, 0.01, 100);
      sizes.integer("microbatches_per_data_node", scenario.microbatches_per_data_node, 1, 10000);
    }
    read_churn(keys.table("churn"), scenario.churn, faults);
  }
  if (!faults.empty()) {
    std::string all;
    for (const auto& fault : faults) all += (all.empty() ? "" : "\n") + fault;
    return Error{all};
  }
  if (auto checked = check(scenario); !checked) return checked.error();
  if (links == "ten-locations") {
    if (auto laid = lay_ten_locations(scenario); !laid) return laid.error();
  } else if (links.empty()) {
    const auto n = scenario.machines.size();
    scenario.latency_s.assign(n * n, latency_s);
    scenario.bandwidth_Bps.assign(n * n, bandwidth_Bps);
  } else if (links != "of the world") {
    return Error{"links.preset must be \"ten-locations\"; without a preset, latency_s and bandwidth_Bps hold for all"};
  }
  return scenario;
}

}  // namespace tributary::sim
