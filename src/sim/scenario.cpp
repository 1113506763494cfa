#include "sim/scenario.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "sim/scenario_parts.h"

namespace tributary::sim {
namespace {

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
  return check_churn(scenario);
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

Result<Scenario> parse_scenario(std::string_view text, const ReadFile& read) {
  if (text.size() > kMostScenarioBytes) return Error{"the scenario is larger than 64 MiB"};
  toml::table parsed;
  try {
    parsed = toml::parse(text);
  } catch (const toml::parse_error& error) {
    return Error{"line " + std::to_string(error.source().begin.line) + ": " + std::string(error.description())};
  }
  std::vector<std::string> faults;
  Scenario scenario;
  LinkKeys links;
  std::string world;
  {
    Keys keys(&parsed, "", faults);
    keys.text("world", world);
    if (!world.empty()) {
      const auto file = read(world);
      if (!file) return file.error();
      auto loaded = parse_world(*file);
      if (!loaded) return Error{world + ": " + loaded.error().message};
      scenario = std::move(*loaded);
    }
    keys.text("name", scenario.name);
    keys.integer("iterations", scenario.iterations, 1, 1'000'000);
    keys.number("duration_s", scenario.duration_s, 0, 1e9);
    keys.text("router", scenario.router);
    std::uint64_t draw_seed = 1;
    keys.integer("draw_seed", draw_seed, 0, std::numeric_limits<std::int64_t>::max());
    read_sites(keys.array("sites"), scenario, faults);
    read_machines(keys.array("machines"), draw_seed, read, scenario, faults);
    read_links(keys.table("links"), read, scenario, links, faults);
    read_model(keys.table("model"), scenario, faults);
    read_sizes(keys.table("sizes"), scenario, faults);
    read_churn(keys.table("churn"), read, scenario.churn, faults);
    read_switches(keys.table("switches"), scenario, faults);
    read_pace(keys.table("pace"), scenario, faults);
    read_islands(keys.array("islands"), scenario, faults);
  }
  if (!faults.empty()) {
    std::string all;
    for (const auto& fault : faults) all += (all.empty() ? "" : "\n") + fault;
    return Error{all};
  }
  if (!scenario.islands.empty()) {
    if (scenario.machines.empty()) return scenario;
    return Error{"[[islands]] stand in a scenario of their own: take them or the machines out"};
  }
  if (auto checked = check(scenario); !checked) return checked.error();
  if (!world.empty() && links.preset.empty()) links.preset = "ten-locations";
  if (auto laid = lay_links(links, scenario); !laid) return laid.error();
  return scenario;
}

}  // namespace tributary::sim
