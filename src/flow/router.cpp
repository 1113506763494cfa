#include "flow/router.h"

#include <nlohmann/json.hpp>

#include "flow/dtfm.h"
#include "flow/gwtf.h"
#include "flow/labels.h"
#include "flow/planned.h"
#include "flow/routers.h"

namespace tributary::flow {

namespace {

struct Row {
  const char* name;
  std::unique_ptr<Router> (*make)();
};
// The first is the default.
constexpr Row kRouters[] = {
    {"planned", [] { return std::unique_ptr<Router>(std::make_unique<PlannedRouter>()); }},
    {"labels", [] { return std::unique_ptr<Router>(std::make_unique<LabelsRouter>()); }},
    {"gwtf", [] { return std::unique_ptr<Router>(std::make_unique<GwtfRouter>()); }},
    {"dtfm", [] { return std::unique_ptr<Router>(std::make_unique<DtfmRouter>()); }},
    {"swarm", [] { return std::unique_ptr<Router>(std::make_unique<SwarmRouter>(SwarmForm::kGreedy)); }},
    {"swarm-refusing", [] { return std::unique_ptr<Router>(std::make_unique<SwarmRouter>(SwarmForm::kRefusing)); }},
    {"swarm-round-robin",
     [] { return std::unique_ptr<Router>(std::make_unique<SwarmRouter>(SwarmForm::kRoundRobin)); }},
    {"optimal", [] { return std::unique_ptr<Router>(std::make_unique<OptimalRouter>()); }},
};

}  // namespace

const std::vector<std::string>& router_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const auto& row : kRouters) list.emplace_back(row.name);
    return list;
  }();
  return names;
}

Result<std::unique_ptr<Router>> make_router(std::string_view name) {
  std::string known;
  for (const auto& row : kRouters) {
    if (name == row.name) return row.make();
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  return Error{"no router is called \"" + std::string(name) + "\"; there are " + known};
}

Result<std::string> solve_file_json(const std::string& path, std::string_view name, std::uint64_t seed) {
  auto router = make_router(name);
  if (!router) return router.error();
  auto file = load_network(path);
  if (!file) return file.error();
  auto solution = (*router)->solve(file->network, seed);
  if (!solution) return Error{path + ": " + solution.error().message};
  if (auto good = check(file->network, *solution); !good)
    return Error{path + ": router " + std::string(name) + " gave a wrong answer: " + good.error().message};
  auto flows = nlohmann::json::array();
  for (const auto& flow : solution->flows) {
    auto nodes = nlohmann::json::array();
    for (const NodeId node : flow) nodes.push_back(node.value());
    flows.push_back(std::move(nodes));
  }
  nlohmann::ordered_json answer;
  answer["flows"] = std::move(flows);
  answer["count"] = solution->count;
  answer["cost"] = solution->cost;
  answer["messages"] = solution->messages;
  answer["rounds"] = solution->rounds;
  return answer.dump();
}

}  // namespace tributary::flow
