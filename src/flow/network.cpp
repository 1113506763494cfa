#include "flow/network.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace tributary::flow {
namespace {

using Json = nlohmann::json;

Error fault(const std::string& what) { return Error{"routing problem: " + what}; }

// An integer within [0, most], or nothing.
std::optional<std::int64_t> integer(const Json& value, std::int64_t most) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(most)) return std::nullopt;
  const auto number = value.get<std::int64_t>();
  if (number < 0 || number > most) return std::nullopt;
  return number;
}

Result<std::vector<std::uint32_t>> ids(const Json& value, const std::string& name) {
  std::vector<std::uint32_t> list;
  if (!value.is_array()) return fault(name + " is not a list of node ids");
  for (const auto& item : value) {
    const auto id = integer(item, kMaxNodes - 1);
    if (!id) return fault(name + " holds " + item.dump().substr(0, 40) + ", which is no node id");
    list.push_back(static_cast<std::uint32_t>(*id));
  }
  return list;
}

Result<void> read_matrix(const Json& matrix, Network& network) {
  const std::size_t nodes = network.size();
  if (!matrix.is_array() || matrix.size() != nodes)
    return fault("\"cost\" must have one row for each of the " + std::to_string(nodes) + " nodes");
  for (std::size_t i = 0; i < nodes; ++i) {
    if (!matrix[i].is_array() || matrix[i].size() != nodes)
      return fault("row " + std::to_string(i) + " of \"cost\" must have " + std::to_string(nodes) + " entries");
    for (std::size_t j = 0; j < nodes; ++j) {
      if (matrix[i][j].is_null()) continue;
      const auto cost = integer(matrix[i][j], kMaxCost);
      if (!cost)
        return fault("cost of " + std::to_string(i) + " -> " + std::to_string(j) + " must be an integer from 0 to " +
                     std::to_string(kMaxCost) + ", or null");
      network.links[i].push_back({static_cast<std::uint32_t>(j), *cost});
    }
  }
  return {};
}

Result<void> read_links(const Json& links, Network& network) {
  if (!links.is_array() || links.size() > kMaxLinks) return fault("\"links\" must be a list of [from, to, cost]");
  for (const auto& link : links) {
    const bool triple = link.is_array() && link.size() == 3;
    const auto last = static_cast<std::int64_t>(network.size()) - 1;
    const auto from = triple ? integer(link[0], last) : std::nullopt,
               to = triple ? integer(link[1], last) : std::nullopt,
               cost = triple ? integer(link[2], kMaxCost) : std::nullopt;
    if (!from || !to || !cost) return fault("link " + link.dump().substr(0, 60) + " is not [from, to, cost]");
    network.links[static_cast<std::size_t>(*from)].push_back({static_cast<std::uint32_t>(*to), *cost});
  }
  for (auto& list : network.links)
    std::stable_sort(list.begin(), list.end(), [](const Link& a, const Link& b) { return a.to < b.to; });
  return {};
}

}  // namespace

std::optional<Cost> Network::cost(std::uint32_t from, std::uint32_t to) const {
  const auto& list = links[from];
  const auto found =
      std::lower_bound(list.begin(), list.end(), to, [](const Link& link, std::uint32_t id) { return link.to < id; });
  if (found == list.end() || found->to != to) return std::nullopt;
  return found->cost;
}

Cost Network::mean_cost() const {
  Cost sum = 0;
  std::int64_t count = 0;
  for (const auto& list : links)
    for (const auto& link : list) {
      sum += link.cost;
      ++count;
    }
  return count ? sum / count : 0;
}

Result<void> Network::check() const {
  if (size() == 0 || size() > kMaxNodes) return fault("it must have 1 to " + std::to_string(kMaxNodes) + " nodes");
  if (links.size() != size()) return fault("links and capacities are for different numbers of nodes");
  if (data_nodes.empty()) return fault("it has no data node");
  if (stages.empty() || stages.size() > kMaxStages)
    return fault("it must have 1 to " + std::to_string(kMaxStages) + " stages");
  std::vector<std::size_t> stage_of(size(), ~std::size_t{0});
  const auto place = [&](const std::vector<std::uint32_t>& list, std::size_t stage) -> Result<void> {
    if (list.empty()) return fault("stage " + std::to_string(stage) + " has no node");
    for (const std::uint32_t node : list) {
      if (node >= size()) return fault("node " + std::to_string(node) + " has no capacity");
      if (stage_of[node] != ~std::size_t{0}) return fault("node " + std::to_string(node) + " stands in two places");
      stage_of[node] = stage;
    }
    return {};
  };
  if (auto good = place(data_nodes, 0); !good) return good;
  for (std::size_t s = 0; s < stages.size(); ++s)
    if (auto good = place(stages[s], s + 1); !good) return good;
  for (std::uint32_t node = 0; node < size(); ++node) {
    const std::string name = "node " + std::to_string(node);
    if (stage_of[node] == ~std::size_t{0}) return fault(name + " is in no stage and no data node");
    if (capacity[node] < 0 || capacity[node] > kMaxCapacity)
      return fault("the capacity of " + name + " must be 0 to " + std::to_string(kMaxCapacity));
    const std::size_t next = stage_of[node] == stages.size() ? 0 : stage_of[node] + 1;
    const Link* before = nullptr;
    for (const Link& link : links[node]) {
      const std::string arrow = std::to_string(node) + " -> " + std::to_string(link.to);
      if (link.to >= size() || stage_of[link.to] != next) return fault("link " + arrow + " skips a stage");
      if (before && before->to >= link.to) return fault("link " + arrow + " is given twice or out of order");
      if (link.cost < 0 || link.cost > kMaxCost) return fault("link " + arrow + " has an impossible cost");
      before = &link;
    }
  }
  return {};
}

Result<void> check(const Network& network, const Solution& solution) {
  std::vector<std::int64_t> load(network.size(), 0);
  std::vector<std::size_t> stage_of(network.size(), 0);
  for (std::size_t s = 0; s < network.stages.size(); ++s)
    for (const std::uint32_t node : network.stages[s]) stage_of[node] = s + 1;
  Cost cost = 0;
  for (std::size_t f = 0; f < solution.flows.size(); ++f) {
    const auto& flow = solution.flows[f];
    const std::string name = "flow " + std::to_string(f);
    if (flow.size() != network.stages.size() + 2) return Error{name + " has the wrong number of hops"};
    for (std::size_t k = 0; k < flow.size(); ++k) {
      const std::uint32_t node = flow[k].value();
      if (node >= network.size() || stage_of[node] != k % (flow.size() - 1))
        return Error{name + ": node " + to_string(flow[k]) + " is not of stage " + std::to_string(k)};
      if (k + 1 == flow.size()) break;
      ++load[node];
      const auto link = network.cost(node, flow[k + 1].value());
      if (!link) return Error{name + " uses a link that does not exist"};
      cost += *link;
    }
    if (flow.front() != flow.back()) return Error{name + " does not return to its data node"};
  }
  for (std::size_t node = 0; node < network.size(); ++node)
    if (load[node] > network.capacity[node]) return Error{"node " + std::to_string(node) + " is over its capacity"};
  if (solution.count != static_cast<std::int64_t>(solution.flows.size())) return Error{"the count is wrong"};
  if (solution.cost != cost) return Error{"the cost is wrong: it is " + std::to_string(cost)};
  return {};
}

Result<NetworkFile> parse_network(std::string_view text) {
  if (text.size() > kMaxFileBytes) return fault("larger than " + std::to_string(kMaxFileBytes) + " bytes");
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object()) return fault("this is no JSON object");
  NetworkFile file;
  Network& network = file.network;
  for (const char* key : {"data_nodes", "stages", "capacity"})
    if (!json.contains(key)) return fault("\"" + std::string(key) + "\" is missing");
  auto data_nodes = ids(json["data_nodes"], "\"data_nodes\"");
  if (!data_nodes) return data_nodes.error();
  network.data_nodes = std::move(*data_nodes);
  if (!json["stages"].is_array() || json["stages"].size() > kMaxStages)
    return fault("\"stages\" must be a list of at most " + std::to_string(kMaxStages) + " lists");
  for (const auto& stage : json["stages"]) {
    auto list = ids(stage, "stage " + std::to_string(network.stages.size() + 1));
    if (!list) return list.error();
    network.stages.push_back(std::move(*list));
  }
  const Json& capacity = json["capacity"];
  if (!capacity.is_array() || capacity.empty() || capacity.size() > kMaxNodes)
    return fault("\"capacity\" must have 1 to " + std::to_string(kMaxNodes) + " entries");
  for (const auto& item : capacity) {
    const auto value = integer(item, kMaxCapacity);
    if (!value)
      return fault("the capacity of node " + std::to_string(network.capacity.size()) +
                   " must be an integer from 0 to " + std::to_string(kMaxCapacity));
    network.capacity.push_back(static_cast<std::int32_t>(*value));
  }
  network.links.resize(network.size());
  if (json.contains("cost") == json.contains("links")) return fault("it needs either \"cost\" or \"links\"");
  auto read = json.contains("cost") ? read_matrix(json["cost"], network) : read_links(json["links"], network);
  if (!read) return read.error();
  if (auto good = network.check(); !good) return good.error();
  if (const auto optimum = json.find("optimum"); optimum != json.end() && optimum->is_object()) {
    if (optimum->contains("flows")) file.optimum_count = integer((*optimum)["flows"], INT64_MAX);
    if (optimum->contains("cost")) file.optimum_cost = integer((*optimum)["cost"], INT64_MAX);
  }
  return file;
}

Result<NetworkFile> load_network(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return Error{"cannot read " + path + ": is the path right?"};
  std::string text;
  char block[1 << 16];
  while (in.read(block, sizeof block) || in.gcount() > 0) {
    text.append(block, static_cast<std::size_t>(in.gcount()));
    if (text.size() > kMaxFileBytes) return Error{path + " is larger than " + std::to_string(kMaxFileBytes) + " bytes"};
  }
  auto parsed = parse_network(text);
  if (!parsed) return Error{path + ": " + parsed.error().message};
  return parsed;
}

}  // namespace tributary::flow
