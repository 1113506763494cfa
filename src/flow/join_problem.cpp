// Joining problems: checked, drawn, read and written.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "flow/joining.h"

namespace tributary::flow {
namespace {

using Json = nlohmann::json;

Result<std::vector<std::uint32_t>> ids(const Json& list, const std::string& what) {
  std::vector<std::uint32_t> values;
  if (!list.is_array() || list.size() > kMostJoinNodes) return Error{what + " must be a list of node ids"};
  for (const auto& item : list) {
    if (!item.is_number_unsigned() || item.get<std::uint64_t>() >= kMostJoinNodes)
      return Error{what + " must hold node ids below " + std::to_string(kMostJoinNodes)};
    values.push_back(item.get<std::uint32_t>());
  }
  return values;
}

}  // namespace

Result<void> JoinProblem::check() const {
  if (size() > kMostJoinNodes) return Error{"more than " + std::to_string(kMostJoinNodes) + " nodes"};
  if (data_nodes.empty()) return Error{"\"data_nodes\" is empty"};
  if (stages.empty()) return Error{"\"stages\" is empty"};
  if (candidates.empty()) return Error{"\"candidates\" is empty: name the nodes that join"};
  if (candidates.size() > kMostCandidates) return Error{"more than " + std::to_string(kMostCandidates) + " candidates"};
  std::vector<int> seen(size(), 0);
  const auto look = [&](const std::vector<std::uint32_t>& list) -> Result<void> {
    for (const std::uint32_t id : list) {
      if (id >= size())
        return Error{"node " + std::to_string(id) + " has no capacity: there are " + std::to_string(size()) + " nodes"};
      if (seen[id]++ > 0) return Error{"node " + std::to_string(id) + " is in two places"};
    }
    return {};
  };
  if (auto good = look(data_nodes); !good) return good;
  for (const auto& stage : stages) {
    if (stage.empty()) return Error{"a stage has no relay"};
    if (auto good = look(stage); !good) return good;
  }
  if (auto good = look(candidates); !good) return good;
  for (std::size_t id = 0; id < size(); ++id) {
    if (seen[id] == 0) return Error{"node " + std::to_string(id) + " is nowhere: not on a stage and no candidate"};
    if (capacity[id] < 1 || capacity[id] > kMaxCapacity)
      return Error{"node " + std::to_string(id) + ": its capacity must be 1 to " + std::to_string(kMaxCapacity)};
  }
  if (cost.size() != size() * size()) return Error{"\"cost\" must have a row and a column for each node"};
  for (const Cost each : cost)
    if (each < 0 || each > kMaxCost) return Error{"costs must be 0 to " + std::to_string(kMaxCost)};
  return {};
}

const std::vector<JoinTest>& join_tests() {
  static const std::vector<JoinTest> tests = {
      {1, 8, 12, 20, 1, 100, 1}, {2, 8, 12, 20, 20, 100, 1}, {3, 8, 12, 5, 20, 100, 1}, {4, 8, 4, 5, 20, 100, 1},
      {5, 12, 8, 5, 20, 100, 1}, {7, 8, 12, 20, 20, 100, 5}, {9, 8, 4, 5, 20, 100, 5},  {10, 12, 8, 5, 20, 100, 5}};
  return tests;
}

JoinProblem random_join_problem(const JoinTest& test, std::uint64_t seed) {
  Random random(mix64(seed, static_cast<std::uint64_t>(test.number)));
  JoinProblem problem;
  std::uint32_t next = 0;
  problem.data_nodes = {next++};
  for (std::size_t s = 0; s < test.stages; ++s) {
    auto& stage = problem.stages.emplace_back();
    for (std::size_t r = 0; r < test.relays; ++r) stage.push_back(next++);
  }
  for (std::size_t k = 0; k < test.candidates; ++k) problem.candidates.push_back(next++);
  // The data node limits nobody.
  problem.capacity.assign(next, kMaxCapacity);
  for (std::uint32_t id = 1; id < next; ++id)
    problem.capacity[id] = static_cast<std::int32_t>(random.between(1, test.most_capacity));
  problem.cost.assign(std::size_t{next} * next, 0);
  for (std::uint32_t i = 0; i < next; ++i)
    for (std::uint32_t j = i + 1; j < next; ++j)
      problem.cost[std::size_t{i} * next + j] = problem.cost[std::size_t{j} * next + i] =
          random.between(test.least_cost, test.most_cost);
  return problem;
}

Result<JoinProblem> parse_join_problem(std::string_view text) {
  if (text.size() > kMaxFileBytes) return Error{"the file is larger than 256 MiB"};
  const auto json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return Error{"it is no JSON object"};
  for (const char* key : {"data_nodes", "stages", "candidates", "capacity", "cost"})
    if (!json.contains(key) || !json[key].is_array()) return Error{"\"" + std::string(key) + "\" must be a list"};
  JoinProblem problem;
  auto data = ids(json["data_nodes"], "\"data_nodes\"");
  if (!data) return data.error();
  problem.data_nodes = std::move(*data);
  if (json["stages"].size() > kMaxStages) return Error{"more than " + std::to_string(kMaxStages) + " stages"};
  for (const auto& list : json["stages"]) {
    auto stage = ids(list, "a stage");
    if (!stage) return stage.error();
    problem.stages.push_back(std::move(*stage));
  }
  auto candidates = ids(json["candidates"], "\"candidates\"");
  if (!candidates) return candidates.error();
  problem.candidates = std::move(*candidates);
  if (json["capacity"].size() > kMostJoinNodes) return Error{"more than " + std::to_string(kMostJoinNodes) + " nodes"};
  for (const auto& item : json["capacity"]) {
    if (!item.is_number_unsigned() || item.get<std::uint64_t>() > kMaxCapacity)
      return Error{"\"capacity\" must hold whole numbers of 1 to " + std::to_string(kMaxCapacity)};
    problem.capacity.push_back(item.get<std::int32_t>());
  }
  const Error shape{"\"cost\" must have a row and a column for each of the " + std::to_string(problem.size()) +
                    " nodes, of whole numbers"};
  if (json["cost"].size() != problem.size()) return shape;
  for (const auto& row : json["cost"]) {
    if (!row.is_array() || row.size() != problem.size()) return shape;
    for (const auto& item : row) {
      // Null, as in the files of networks: there is no such link. Here every link counts, so it is a very dear one.
      if (!item.is_null() && !item.is_number_unsigned()) return shape;
      problem.cost.push_back(
          item.is_null() ? kMaxCost : static_cast<Cost>(std::min<std::uint64_t>(item.get<std::uint64_t>(), kMaxCost)));
    }
  }
  if (auto good = problem.check(); !good) return good.error();
  return problem;
}

std::string to_json(const JoinProblem& problem) {
  nlohmann::ordered_json out = {{"data_nodes", problem.data_nodes},
                                {"stages", problem.stages},
                                {"candidates", problem.candidates},
                                {"capacity", problem.capacity}};
  auto& rows = out["cost"] = Json::array();
  const auto n = static_cast<std::ptrdiff_t>(problem.size());
  for (std::ptrdiff_t i = 0; i < n; ++i)
    rows.push_back(std::vector<Cost>(problem.cost.begin() + i * n, problem.cost.begin() + (i + 1) * n));
  return out.dump();
}

}  // namespace tributary::flow
