// Sites, links and sizes of a scenario.
#include <cmath>
#include <map>

#include "base/ten_locations.h"
#include "sim/csv.h"
#include "sim/scenario_parts.h"

namespace tributary::sim {
namespace {

constexpr double kMostLatency = 60, kLeastRate = 1, kMostRate = 1e12;
constexpr std::size_t kMostSites = 1000;

std::optional<std::size_t> location(const std::string& site) {
  for (std::size_t i = 0; i < ten_locations::kSites; ++i)
    if (site == ten_locations::kSiteNames[i]) return i;
  return std::nullopt;
}

using Matrix = std::vector<std::vector<double>>;

Result<Matrix> matrix_from_csv(const std::string& file, const ReadFile& read, double least, double most) {
  const auto text = read(file);
  if (!text) return text.error();
  const auto rows = parse_csv(*text);
  if (!rows) return Error{file + ": " + rows.error().message};
  if (rows->size() > kMostSites) return Error{file + ": more than " + std::to_string(kMostSites) + " rows"};
  Matrix matrix;
  for (const auto& row : *rows) {
    matrix.emplace_back();
    for (std::size_t f = 0; f < row.fields.size(); ++f) {
      const auto value = csv_number(row, f, least, most);
      if (!value) return Error{file + ": " + value.error().message};
      matrix.back().push_back(*value);
    }
  }
  return matrix;
}

// One number for all pairs, a matrix between the sites, or the name of a CSV file with one.
void read_between(Keys& keys, const char* key, const ReadFile& read, double least, double most, double& all,
                  Matrix& matrix) {
  const auto* node = keys.node(key);
  if (!node) return;
  if (node->is_number()) return keys.number(key, all, least, most);
  if (const auto file = node->value<std::string>()) {
    auto read_matrix = matrix_from_csv(*file, read, least, most);
    if (!read_matrix) return keys.fault(*node, key, read_matrix.error().message);
    matrix = std::move(*read_matrix);
    return;
  }
  const auto* rows = node->as_array();
  if (!rows || rows->size() > kMostSites)
    return keys.fault(*node, key, "must be a number, a list of rows (one for each of [[sites]]), or a CSV file's name");
  for (const auto& item : *rows) {
    const auto* row = item.as_array();
    matrix.emplace_back();
    for (std::size_t f = 0; row && f < std::min(row->size(), kMostSites); ++f) {
      const auto value = (*row)[f].value<double>();
      if (!value || !(*value >= least && *value <= most)) {
        char range[80];
        std::snprintf(range, sizeof range, "holds a figure that is no number from %g to %g", least, most);
        return keys.fault(item, key, range);
      }
      matrix.back().push_back(*value);
    }
  }
}

Result<void> check_square(const Matrix& matrix, const char* key, std::size_t sites) {
  bool square = matrix.size() == sites;
  for (const auto& row : matrix) square = square && row.size() == sites;
  if (square) return {};
  return Error{std::string("links.") + key + " must have a row and a column for each of the " + std::to_string(sites) +
               " [[sites]], in their order"};
}

}  // namespace

void read_sites(const toml::array* list, Scenario& scenario, std::vector<std::string>& faults) {
  if (!list) return;
  for (std::size_t i = 0; i < list->size(); ++i) {
    Keys keys((*list)[i].as_table(), "sites[" + std::to_string(i) + "].", faults);
    ScenarioSite site;
    keys.text("name", site.name);
    keys.number("uplink_Bps", site.uplink_Bps, 0, kMostRate);
    keys.number("downlink_Bps", site.downlink_Bps, 0, kMostRate);
    for (const auto& other : scenario.sites)
      if (other.name == site.name) keys.fault((*list)[i], "name", "\"" + site.name + "\" is there already");
    if (site.name.empty()) keys.fault((*list)[i], "name", "is missing");
    if (i >= kMostSites) return keys.fault((*list)[i], "name", "is one of more than " + std::to_string(kMostSites));
    scenario.sites.push_back(std::move(site));
  }
}

void read_links(const toml::table* table, const ReadFile& read, Scenario& scenario, LinkKeys& links,
                std::vector<std::string>& faults) {
  if (!table) return;
  Keys keys(table, "links.", faults);
  keys.text("preset", links.preset);
  read_between(keys, "latency_s", read, 0, kMostLatency, links.latency_s, links.site_latency_s);
  read_between(keys, "bandwidth_Bps", read, kLeastRate, kMostRate, links.bandwidth_Bps, links.site_bandwidth_Bps);
  double downlink = 0;
  keys.number("downlink_Bps", downlink, 0, kMostRate);
  for (auto& machine : scenario.machines)
    if (machine.downlink_Bps == 0) machine.downlink_Bps = downlink;
  keys.number("jitter", scenario.jitter, 0, 100);
  keys.number("drift_share", scenario.drift_share, 0, 0.99);
  keys.number("drift_period_s", scenario.drift_period_s, 1, 1e9);
}

// By the machines' sites.
Result<void> lay_ten_locations(Scenario& scenario) {
  std::vector<std::size_t> sites;
  for (std::size_t i = 0; i < scenario.machines.size(); ++i) {
    const auto site = location(scenario.machines[i].site);
    if (!site)
      return Error{"machine " + std::to_string(i) + ": there is no site \"" + scenario.machines[i].site +
                   "\" among the ten locations (Oregon, Virginia, Ohio, Tokyo, Seoul, Singapore, Sydney, London, "
                   "Frankfurt, Ireland)"};
    sites.push_back(*site);
  }
  scenario.latency_s.clear();
  scenario.bandwidth_Bps.clear();
  for (const auto from : sites)
    for (const auto to : sites) {
      scenario.latency_s.push_back(ten_locations::kLatencyMs[from][to] * 1e-3);
      scenario.bandwidth_Bps.push_back(ten_locations::kBandwidthMbps[from][to] * 1e6 / 8);
    }
  return {};
}

Result<void> lay_links(const LinkKeys& links, Scenario& scenario) {
  if (links.preset == "ten-locations") return lay_ten_locations(scenario);
  if (!links.preset.empty())
    return Error{"links.preset must be \"ten-locations\"; without a preset, latency_s and bandwidth_Bps hold for all"};
  const auto n = scenario.machines.size();
  std::map<std::string, std::size_t> places;
  for (std::size_t s = 0; s < scenario.sites.size(); ++s) places[scenario.sites[s].name] = s;
  std::vector<std::size_t> site(n, 0);
  const bool by_site = !links.site_latency_s.empty() || !links.site_bandwidth_Bps.empty();
  for (std::size_t i = 0; by_site && i < n; ++i) {
    const auto at = places.find(scenario.machines[i].site);
    if (at == places.end())
      return Error{"machine " + std::to_string(i) + ": there is no site \"" + scenario.machines[i].site +
                   "\" in [[sites]]; links between sites need one for every machine"};
    site[i] = at->second;
  }
  const auto lay = [&](const Matrix& matrix, double all, std::vector<double>& into) {
    into.assign(n * n, all);
    for (std::size_t i = 0; !matrix.empty() && i < n; ++i)
      for (std::size_t j = 0; j < n; ++j) into[i * n + j] = matrix[site[i]][site[j]];
  };
  for (const auto& [matrix, key] :
       {std::pair(&links.site_latency_s, "latency_s"), std::pair(&links.site_bandwidth_Bps, "bandwidth_Bps")})
    if (!matrix->empty())
      if (auto square = check_square(*matrix, key, scenario.sites.size()); !square) return square;
  lay(links.site_latency_s, links.latency_s, scenario.latency_s);
  lay(links.site_bandwidth_Bps, links.bandwidth_Bps, scenario.bandwidth_Bps);
  return {};
}

void read_model(const toml::table* table, Scenario& scenario, std::vector<std::string>& faults) {
  if (!table) return;
  Keys keys(table, "model.", faults);
  double hidden = 256, layers = 6, heads = 8, kv_heads = 0, intermediate = 0, sequence = 256, batch = 8, wire_bytes = 2;
  const auto whole = [&](const char* key, double& into, std::int64_t least, std::int64_t most) {
    auto value = static_cast<std::int64_t>(into);
    keys.integer(key, value, least, most);
    into = static_cast<double>(value);
  };
  whole("hidden", hidden, 1, 1 << 20);
  whole("layers", layers, 1, 100'000);
  whole("heads", heads, 1, 1 << 16);
  whole("kv_heads", kv_heads, 0, 1 << 16);
  whole("intermediate", intermediate, 0, 1 << 24);
  whole("sequence", sequence, 1, 1 << 24);
  whole("batch", batch, 1, 1 << 20);
  whole("wire_bytes", wire_bytes, 1, 4);
  if (kv_heads == 0) kv_heads = heads;
  if (intermediate == 0) intermediate = 8 * hidden / 3;
  if (kv_heads > heads) return keys.fault(*table, "kv_heads", "must not be above heads");
  const double stages = std::max<double>(1, scenario.stages());
  if (layers < stages) return keys.fault(*table, "layers", "must be at least one for each of the stages");
  const double block = 2 * hidden * hidden * (1 + kv_heads / heads) + 3 * hidden * intermediate + 2 * hidden;
  const double parameters = std::ceil(layers / stages) * block;
  scenario.message_bytes = batch * sequence * hidden * wire_bytes;
  scenario.aggregation_bytes = 4 * parameters;  // sums go in fp32
  scenario.state_bytes = 12 * parameters;       // weights and two moments, in fp32
}

void read_sizes(const toml::table* table, Scenario& scenario, std::vector<std::string>& faults) {
  if (!table) return;
  Keys sizes(table, "sizes.", faults);
  sizes.number("message_bytes", scenario.message_bytes, 0, 1e13);
  sizes.number("aggregation_bytes", scenario.aggregation_bytes, 0, 1e15);
  sizes.number("state_bytes", scenario.state_bytes, 0, 1e15);
  sizes.number("backward_ratio", scenario.backward_ratio, 0.01, 100);
  sizes.integer("microbatches_per_data_node", scenario.microbatches_per_data_node, 1, 10000);
}

}  // namespace tributary::sim
