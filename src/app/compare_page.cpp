#include "app/compare_page.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "app/ablation_table.h"
#include "app/assets.h"
#include "base/ten_locations.h"

namespace tributary::app {
namespace {

using Json = nlohmann::ordered_json;

// Where the ten locations lie; the text beside a place goes where the others leave room.
struct Place {
  double longitude, latitude;
  const char* label;  // a side: "w", "e", "n" or "s"
};
constexpr Place kPlaces[ten_locations::kSites] = {
    {-119.7, 45.8, "w"}, {-77.5, 39.0, "e"},  {-83.0, 40.0, "w"}, {139.7, 35.7, "e"}, {127.0, 37.6, "n"},
    {103.8, 1.4, "s"},   {151.2, -33.9, "s"}, {-0.1, 51.5, "s"},  {8.7, 50.1, "e"},   {-6.3, 53.3, "n"}};

double rounded(double value) { return std::round(value * 1e3) / 1e3; }
Json or_null(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json row_json(const sim::CompareRow& row) {
  return {{"policy", row.policy},
          {"churn", row.churn},
          {"runs", row.runs},
          {"iterations", row.iterations},
          {"crashes", row.crashes},
          {"iteration_s", row.iteration_s},
          {"iteration_error_s", row.iteration_error_s},
          {"accepted_per_10_s", row.accepted_per_10_s},
          {"accepted_error", row.accepted_error},
          {"parts_per_10_s", row.parts_per_10_s},
          {"per_accepted_s", or_null(row.per_accepted_s)},
          {"per_accepted_error_s", or_null(row.per_accepted_error_s)},
          {"wait_s", row.wait_s},
          {"transfer_s", row.transfer_s},
          {"compute_s", row.compute_s},
          {"last_s", row.last_s},
          {"end_s", row.end_s},
          {"redone_share", row.redone_share},
          {"messages", row.messages < 0 ? Json() : Json(row.messages)},
          {"control_bytes", row.control_bytes < 0 ? Json() : Json(row.control_bytes)},
          {"lower_bound_s", row.lower_bound_s > 0 ? Json(row.lower_bound_s) : Json()},
          {"troubles", row.troubles}};
}

Json timeline_json(const sim::Scenario& scenario, const PageTimeline& from) {
  const auto id = [](std::uint32_t value) { return value == sim::Bar::kNone ? Json() : Json(value); };
  Json bars = Json::array(), crashes = Json::array(), paths = Json::array();
  for (const auto& bar : from.timeline.bars)
    bars.push_back({std::string(1, static_cast<char>(bar.kind)), bar.node, id(bar.microbatch), id(bar.to),
                    rounded(bar.begin_s), rounded(bar.end_s)});
  for (const auto& crash : from.timeline.crashes) crashes.push_back({rounded(crash.at_s), crash.node});
  for (const auto& path : sim::paths_of(scenario, from.timeline)) {
    Json& hops = paths.emplace_back(Json::array());
    for (const auto node : path) hops.push_back(id(node));
  }
  return {{"policy", from.cell.policy},
          {"churn", from.cell.churn},
          {"seed", from.cell.seed},
          {"iteration", from.timeline.iteration + 1},
          {"duration_s", rounded(from.timeline.duration_s)},
          {"bars", bars},
          {"crashes", crashes},
          {"paths", paths}};
}

Json page_json(const PageContent& content) {
  Json out = {{"command", content.command},
              {"version", kVersion},
              {"seeds", content.seeds},
              {"iterations", content.iterations}};
  for (const auto& scenario : content.scenarios)
    out["scenarios"].push_back({{"name", scenario.name},
                                {"machines", scenario.machines.size()},
                                {"data_nodes", scenario.data_nodes()},
                                {"stages", scenario.stages()},
                                {"microbatches", scenario.microbatches()}});
  const auto& first = content.scenarios.front();
  out["machines"] = Json::array();
  if (first.machines.size() <= kMostLanes)
    for (const auto& machine : first.machines)
      out["machines"].push_back({{"stage", machine.stage},
                                 {"site", machine.site},
                                 {"compute_s", machine.compute_s},
                                 {"slots", machine.slots}});
  for (std::size_t k = 0; k < ten_locations::kSites; ++k)
    out["places"].push_back({{"name", ten_locations::kSiteNames[k]},
                             {"longitude", kPlaces[k].longitude},
                             {"latitude", kPlaces[k].latitude},
                             {"label", kPlaces[k].label}});
  out["rows"] = Json::array();
  for (const auto& row : content.rows) out["rows"].push_back(row_json(row));
  out["ideas"] = ablation_json(content.ideas);
  out["timelines"] = Json::array();
  for (const auto& timeline : content.timelines)
    if (first.machines.size() <= kMostLanes && timeline.timeline.bars.size() <= kMostBars)
      out["timelines"].push_back(timeline_json(first, timeline));
  return out;
}

// No text of the data may end the element that it stands in.
std::string in_script(std::string json) {
  for (std::size_t at = 0; (at = json.find('<', at)) != std::string::npos;) json.replace(at, 1, "\\u003c");
  return json;
}

void fill(std::string& page, std::string_view mark, std::string_view with) {
  const auto at = page.find(mark);
  if (at != std::string::npos) page.replace(at, mark.size(), with);
}

}  // namespace

std::string compare_page(const PageContent& content) {
  std::string page(kComparePage);
  const std::string data = in_script(page_json(content).dump(-1, ' ', false, Json::error_handler_t::replace));
  // Last to first, so that nothing that was put in is looked through for marks.
  fill(page, "{{map}}", kComparePageMap);
  fill(page, "{{timeline}}", kComparePageTimeline);
  fill(page, "{{charts}}", kComparePageCharts);
  fill(page, "{{chart.js}}", kChartJs);
  fill(page, "{{data}}", data);
  fill(page, "{{style}}", kComparePageStyle);
  return page;
}

}  // namespace tributary::app
