#include "flow/scenario_file.h"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

namespace tributary::flow {
namespace {

using Json = nlohmann::json;

Error fault(const std::string& what) { return Error{"scenario: " + what}; }

std::optional<double> number(const Json& value) {
  if (!value.is_number()) return std::nullopt;
  const double parsed = value.get<double>();
  return std::isfinite(parsed) ? std::optional(parsed) : std::nullopt;
}
std::optional<std::uint32_t> count(const Json& value) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > INT32_MAX) return std::nullopt;
  return value.get<std::uint32_t>();
}

// The number under `key`, or `otherwise` if there is none; without `otherwise` it must be there.
Result<double> number_at(const Json& object, const std::string& where, const char* key,
                         std::optional<double> otherwise) {
  const auto found = object.find(key);
  if (found == object.end()) {
    if (otherwise) return *otherwise;
    return fault(where + "\"" + key + "\" is missing");
  }
  if (const auto value = number(*found)) return *value;
  return fault(where + "\"" + key + "\" must be a number");
}
Result<std::uint32_t> count_at(const Json& object, const std::string& where, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return fault(where + "\"" + key + "\" is missing");
  if (const auto value = count(*found)) return *value;
  return fault(where + "\"" + key + "\" must be a number 0, 1, 2, ..");
}
Result<std::vector<std::uint32_t>> counts(const Json& list, const std::string& what) {
  std::vector<std::uint32_t> values;
  if (!list.is_array() || list.size() > kMaxScenarioNodes) return fault(what + " must be a list of node ids");
  for (const auto& item : list) {
    const auto value = count(item);
    if (!value) return fault(what + " must be a list of node ids");
    values.push_back(*value);
  }
  return values;
}
// A list under `key`, at most `most` long; an empty one if it is missing and need not be there.
Result<const Json*> list_at(const Json& object, const char* key, std::size_t most, bool needed) {
  static const Json kEmpty = Json::array();
  const auto found = object.find(key);
  if (found == object.end() && !needed) return &kEmpty;
  if (found == object.end() || !found->is_array() || found->size() > most)
    return fault("\"" + std::string(key) + "\" must be a list of at most " + std::to_string(most));
  return &*found;
}

Result<void> read_nodes(const Json& json, PredictWorld& world) {
  auto list = list_at(json, "nodes", kMaxScenarioNodes, true);
  if (!list) return list.error();
  for (const auto& item : **list) {
    const std::string where = "node " + std::to_string(world.nodes.size()) + ": ";
    if (!item.is_object()) return fault(where + "it must be an object");
    const auto id = count_at(item, where, "id"), stage = count_at(item, where, "stage"),
               capacity = count_at(item, where, "capacity");
    if (!id) return id.error();
    if (!stage) return stage.error();
    if (!capacity) return capacity.error();
    if (*id != world.nodes.size()) return fault(where + "ids must be 0, 1, 2, .. in that order");
    const auto forward = number_at(item, where, "forward_s", *stage == 0 ? std::optional(0.0) : std::nullopt);
    const auto head = number_at(item, where, "head_s", *stage == 0 ? std::nullopt : std::optional(0.0));
    if (!forward) return forward.error();
    if (!head) return head.error();
    world.nodes.push_back({*stage, *forward, *head, static_cast<std::int32_t>(*capacity)});
  }
  return {};
}

Result<std::vector<double>> read_matrix(const Json& json, const char* key, std::size_t n) {
  std::vector<double> values;
  auto rows = list_at(json, key, n, true);
  if (!rows) return rows.error();
  const Error shape = fault("\"" + std::string(key) + "\" must have a row and a column for each of the " +
                            std::to_string(n) + " nodes");
  if ((*rows)->size() != n) return shape;
  for (const auto& row : **rows) {
    if (!row.is_array() || row.size() != n) return shape;
    for (const auto& item : row) {
      const auto value = number(item);
      if (!value) return fault("\"" + std::string(key) + "\" holds something that is no number");
      values.push_back(*value);
    }
  }
  return values;
}

Result<void> read_microbatches(const Json& json, PredictPlan& plan) {
  auto list = list_at(json, "microbatches", kMaxScenarioMicrobatches, true);
  if (!list) return list.error();
  std::size_t hops = 0;
  for (const auto& item : **list) {
    const std::string where = "microbatch number " + std::to_string(plan.microbatches.size()) + ": ";
    if (!item.is_object() || !item.contains("path")) return fault(where + "it must be an object with a path");
    const auto id = count_at(item, where, "id"), data_node = count_at(item, where, "data_node");
    if (!id) return id.error();
    if (!data_node) return data_node.error();
    auto path = counts(item["path"], where + "its path");
    if (!path) return path.error();
    hops += path->size() + 1;
    if (hops > kMaxScenarioHops) return fault("the paths have more than " + std::to_string(kMaxScenarioHops) + " hops");
    plan.microbatches.push_back({*id, *data_node, std::move(*path)});
  }
  return {};
}

Result<void> read_faults(const Json& json, PredictFaults& faults) {
  auto crashes = list_at(json, "crashes", kMaxScenarioNodes, false);
  if (!crashes) return crashes.error();
  for (const auto& item : **crashes) {
    if (!item.is_object()) return fault("a crash must be an object with \"t\" and \"node\"");
    const auto at = number_at(item, "a crash: ", "t", std::nullopt);
    const auto node = count_at(item, "a crash: ", "node");
    if (!at) return at.error();
    if (!node) return node.error();
    faults.crashes.push_back({*at, *node});
  }
  const auto detection = number_at(json, "", "detection_s", faults.crashes.empty() ? std::optional(0.0) : std::nullopt);
  if (!detection) return detection.error();
  faults.detection_s = *detection;
  const Json recovery = json.value("backward_recovery", Json("repair"));
  if (recovery != "repair" && recovery != "restart")
    return fault("\"backward_recovery\" must be \"repair\" or \"restart\"");
  faults.recovery = recovery == "repair" ? BackwardRecovery::kRepair : BackwardRecovery::kRestart;
  const Json replacements = json.value("replacements", Json::object());
  if (!replacements.is_object() || replacements.size() > kMaxScenarioNodes)
    return fault("\"replacements\" must be an object of lists by stage");
  for (const auto& [key, list] : replacements.items()) {
    const Json stage = Json::parse(key, nullptr, false);
    const auto at = stage.is_discarded() ? std::nullopt : count(stage);
    if (!at || *at == 0 || *at > kMaxScenarioNodes)
      return fault("\"replacements\": \"" + key.substr(0, 40) + "\" is no stage");
    auto ids = counts(list, "the replacements of stage " + key);
    if (!ids) return ids.error();
    if (faults.replacements.size() <= *at) faults.replacements.resize(*at + 1);
    faults.replacements[*at] = std::move(*ids);
  }
  return {};
}

}  // namespace

Result<ScenarioFile> parse_scenario(std::string_view text) {
  if (text.size() > kMaxScenarioBytes)
    return fault("it is larger than " + std::to_string(kMaxScenarioBytes) + " bytes");
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return fault("it is no JSON object");
  ScenarioFile file;
  if (auto read = read_nodes(json, file.world); !read) return read.error();
  auto latency = read_matrix(json, "latency_s", file.world.nodes.size());
  if (!latency) return latency.error();
  auto bandwidth = read_matrix(json, "bandwidth_Bps", file.world.nodes.size());
  if (!bandwidth) return bandwidth.error();
  file.world.latency_s = std::move(*latency);
  file.world.bandwidth_Bps = std::move(*bandwidth);
  const auto bytes = number_at(json, "", "message_bytes", std::nullopt),
             ratio = number_at(json, "", "backward_ratio", std::nullopt),
             aggregation = number_at(json, "", "aggregation_bytes", 0.0);
  if (!bytes) return bytes.error();
  if (!ratio) return ratio.error();
  if (!aggregation) return aggregation.error();
  file.world.message_bytes = *bytes;
  file.world.backward_ratio = *ratio;
  file.world.aggregation_bytes = *aggregation;
  const Json order = json.value("order", Json("fifo"));
  if (order != "fifo" && order != "backward-first") return fault("\"order\" must be \"fifo\" or \"backward-first\"");
  file.plan.order = order == "fifo" ? TaskOrder::kFifo : TaskOrder::kBackwardFirst;
  if (auto read = read_microbatches(json, file.plan); !read) return read.error();
  if (auto read = read_faults(json, file.faults); !read) return read.error();
  if (auto good = file.world.check(); !good) return good.error();
  if (auto good = file.plan.check(file.world); !good) return good.error();
  if (auto good = file.faults.check(file.world); !good) return good.error();
  return file;
}

Result<ScenarioFile> load_scenario(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return Error{"cannot read " + path + ": is the path right?"};
  std::string text;
  char block[1 << 16];
  while (in.read(block, sizeof block) || in.gcount() > 0) {
    text.append(block, static_cast<std::size_t>(in.gcount()));
    if (text.size() > kMaxScenarioBytes)
      return Error{path + " is larger than " + std::to_string(kMaxScenarioBytes) + " bytes"};
  }
  auto parsed = parse_scenario(text);
  if (!parsed) return Error{path + ": " + parsed.error().message};
  return parsed;
}

Result<std::string> play_scenario_json(const ScenarioFile& scenario) {
  PredictTrace trace;
  const auto played = predict(scenario.world, scenario.plan, scenario.faults, &trace);
  if (!played) return played.error();
  for (std::size_t k = 0; k < played->done_s.size(); ++k)
    if (!std::isfinite(played->done_s[k]))
      return fault("microbatch " + std::to_string(scenario.plan.microbatches[k].id) +
                   " never ends: nobody live can take it up, or a link that it needs has no bandwidth");
  nlohmann::ordered_json out;
  out["microbatch_done_s"] = played->done_s;
  out["pipeline_end_s"] = played->pipeline_end_s;
  out["iteration_end_s"] = played->iteration_end_s;
  out["completed_tasks"] = out["completed_sends"] = out["detections"] = Json::array();
  for (const auto& task : trace.tasks)
    out["completed_tasks"].push_back({{"node", task.node},
                                      {"microbatch", task.microbatch},
                                      {"kind", std::string(1, task.kind)},
                                      {"start", task.start_s},
                                      {"end", task.end_s}});
  for (const auto& send : trace.sends)
    out["completed_sends"].push_back({{"from", send.from},
                                      {"to", send.to},
                                      {"microbatch", send.microbatch},
                                      {"start", send.start_s},
                                      {"end", send.end_s},
                                      {"arrive", send.arrive_s}});
  for (const auto& detection : trace.detections)
    out["detections"].push_back({{"t", detection.at_s}, {"node", detection.node}, {"dead", detection.dead}});
  return out.dump();
}

}  // namespace tributary::flow
