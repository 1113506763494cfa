// Parts of the reading of a scenario. Internal to src/sim/scenario*.cpp.
#pragma once
#include "sim/scenario.h"
#include "sim/toml_keys.h"

namespace tributary::sim {

// [[machines]], drawn by `draw_seed` where they are not given; a trace's CSV file through `read`.
void read_machines(const toml::array* list, std::uint64_t draw_seed, const ReadFile& read, Scenario& scenario,
                   std::vector<std::string>& faults);
void read_sites(const toml::array* list, Scenario& scenario, std::vector<std::string>& faults);

// [links] as given; laid once all machines are known.
struct LinkKeys {
  std::string preset;
  double latency_s = 0.005, bandwidth_Bps = 2.5e8;                      // between all pairs ...
  std::vector<std::vector<double>> site_latency_s, site_bandwidth_Bps;  // ... or by site, in the order of [[sites]]
};
void read_links(const toml::table* table, const ReadFile& read, Scenario& scenario, LinkKeys& links,
                std::vector<std::string>& faults);
Result<void> lay_links(const LinkKeys& links, Scenario& scenario);
Result<void> lay_ten_locations(Scenario& scenario);

// [model]: sizes by formula (docs/scenarios.md); [sizes] may say otherwise.
void read_model(const toml::table* table, Scenario& scenario, std::vector<std::string>& faults);
void read_sizes(const toml::table* table, Scenario& scenario, std::vector<std::string>& faults);

void read_churn(const toml::table* table, const ReadFile& read, ScenarioChurn& churn, std::vector<std::string>& faults);
void read_switches(const toml::table* table, Scenario& scenario, std::vector<std::string>& faults);
void read_pace(const toml::table* table, Scenario& scenario, std::vector<std::string>& faults);
// [[islands]]: a row takes what it does not say from the one before.
void read_islands(const toml::array* list, Scenario& scenario, std::vector<std::string>& faults);
// What names a machine or a site must name one that there is.
Result<void> check_churn(const Scenario& scenario);

}  // namespace tributary::sim
