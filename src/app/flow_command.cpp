#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "app/lab_commands.h"
#include "flow/random_network.h"
#include "flow/router.h"

namespace tributary::app {
namespace {

using Json = nlohmann::ordered_json;

// What one router did on one file, over seeds.
struct Row {
  std::string file, router;
  std::int64_t best_count = 0, worst_count = INT64_MAX;
  double cost = 0, messages = 0, rounds = 0;
  std::vector<double> gaps;  // per cent above the reference, of seeds that found all flows
  std::string failure;       // instead
};

// What costs are compared with: the optimum that the file names, else the exact one, else a lower bound.
struct Reference {
  const char* kind;
  std::int64_t count;
  flow::Cost cost;
};
Reference reference(const flow::NetworkFile& file, std::uint64_t seed) {
  if (file.optimum_count && file.optimum_cost)
    return {"optimum named by the file", *file.optimum_count, *file.optimum_cost};
  const auto optimal = (*flow::make_router("optimal"))->solve(file.network, seed);
  if (optimal) return {"exact optimum", optimal->count, optimal->cost};
  const auto bound = flow::interchangeable_bound(file.network);
  return {"lower bound", bound.count, bound.cost};
}

Row run(const flow::NetworkFile& file, const flow::Router& router, const Reference& best, std::uint64_t seeds) {
  Row row;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const auto solution = router.solve(file.network, seed);
    if (!solution) {
      row.failure = solution.error().message;
      return row;
    }
    if (const auto good = flow::check(file.network, *solution); !good) {
      row.failure = "a wrong answer: " + good.error().message;
      return row;
    }
    row.best_count = std::max(row.best_count, solution->count);
    row.worst_count = std::min(row.worst_count, solution->count);
    const auto n = static_cast<double>(seeds);
    row.cost += static_cast<double>(solution->cost) / n;
    row.messages += static_cast<double>(solution->messages) / n;
    row.rounds += static_cast<double>(solution->rounds) / n;
    if (solution->count == best.count && best.cost > 0)
      row.gaps.push_back(100 * (static_cast<double>(solution->cost) / static_cast<double>(best.cost) - 1));
  }
  return row;
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

Json to_json(const Row& row, const Reference& best) {
  Json out = {{"file", row.file}, {"router", row.router}};
  if (!row.failure.empty()) {
    out["failure"] = row.failure;
    return out;
  }
  out["count"] = row.worst_count;
  out["best_count"] = row.best_count;
  out["possible_count"] = best.count;
  out["cost"] = row.cost;
  out["reference_cost"] = best.cost;
  out["reference"] = best.kind;
  out["gap_percent"] = row.gaps.empty() ? Json() : Json(mean(row.gaps));
  out["worst_gap_percent"] = row.gaps.empty() ? Json() : Json(*std::max_element(row.gaps.begin(), row.gaps.end()));
  out["messages"] = row.messages;
  out["rounds"] = row.rounds;
  return out;
}

void print(const Row& row, const Reference& best) {
  if (!row.failure.empty()) {
    std::printf("| %-34s | %-17s | %s |\n", row.file.c_str(), row.router.c_str(), row.failure.c_str());
    return;
  }
  char gaps[40] = "misses flows";
  if (!row.gaps.empty())
    std::snprintf(gaps, sizeof gaps, "%.2f / %.2f", mean(row.gaps),
                  *std::max_element(row.gaps.begin(), row.gaps.end()));
  std::printf("| %-34s | %-17s | %4lld of %-4lld | %10.0f | %-14s | %9.0f | %6.0f |\n", row.file.c_str(),
              row.router.c_str(), static_cast<long long>(row.worst_count), static_cast<long long>(best.count), row.cost,
              gaps, row.messages, row.rounds);
}

}  // namespace

int flow_solve(const FlowSolveArguments& arguments) {
  auto solved = flow::solve_file_json(arguments.file, arguments.router, arguments.seed);
  if (!solved) return fail(solved.error().message);
  if (arguments.json) {
    std::printf("%s\n", solved->c_str());
    return kDone;
  }
  const auto solution = nlohmann::json::parse(*solved);
  for (const auto& path : solution["flows"]) {
    std::string line;
    for (const auto& node : path) line += (line.empty() ? "" : " -> ") + node.dump();
    std::printf("%s\n", line.c_str());
  }
  std::printf("%s flows, cost %s; %s messages in %s rounds\n", solution["count"].dump().c_str(),
              solution["cost"].dump().c_str(), solution["messages"].dump().c_str(), solution["rounds"].dump().c_str());
  return kDone;
}

int flow_compare(const FlowCompareArguments& arguments) {
  const auto& names = arguments.routers.empty() ? flow::router_names() : arguments.routers;
  for (const auto& name : names)
    if (const auto router = flow::make_router(name); !router) return fail(router.error().message, kWrongUse);
  Json rows = Json::array();
  if (!arguments.json)
    std::printf("| %-34s | %-17s | %-12s | %10s | %-14s | %9s | %6s |\n|---|---|---|---|---|---|---|\n", "file",
                "router", "flows", "cost", "gap %: mean/worst", "messages", "rounds");
  bool failed = false;
  for (const auto& path : arguments.files) {
    const auto file = flow::load_network(path.string());
    if (!file) return fail(file.error().message);
    const Reference best = reference(*file, 1);
    for (const auto& name : names) {
      Row row = run(*file, **flow::make_router(name), best, arguments.seeds);
      row.file = path.filename().string();
      row.router = name;
      failed |= !row.failure.empty();
      if (arguments.json) {
        rows.push_back(to_json(row, best));
      } else {
        print(row, best);
      }
    }
  }
  if (arguments.json) std::printf("%s\n", rows.dump().c_str());
  return failed ? kFailed : kDone;
}

int flow_generate(const FlowGenerateArguments& arguments) {
  flow::RandomNetworkOptions options;
  options.data_nodes = arguments.data_nodes;
  options.stages = arguments.stages;
  options.relays = arguments.relays;
  options.least_capacity = arguments.least_capacity;
  options.most_capacity = arguments.most_capacity;
  options.ten_locations = arguments.ten_locations;
  if (arguments.least_capacity > arguments.most_capacity)
    return fail("the least capacity is above the most: swap --least-capacity and --most-capacity", kWrongUse);
  const auto nodes = options.data_nodes + options.stages * options.relays;
  if (nodes > flow::kMaxNodes)
    return fail("that would be " + std::to_string(nodes) + " nodes; at most " + std::to_string(flow::kMaxNodes) +
                    " are possible",
                kWrongUse);
  const std::size_t links = options.relays * (2 * options.data_nodes + (options.stages - 1) * options.relays);
  if (links > flow::kMaxLinks)
    return fail("that would be " + std::to_string(links) + " links; at most " + std::to_string(flow::kMaxLinks) +
                    " are possible",
                kWrongUse);
  const flow::Network network = flow::random_network(options, arguments.seed);
  Json out = {{"data_nodes", network.data_nodes}, {"stages", network.stages}, {"capacity", network.capacity}};
  Json& list = out["links"] = Json::array();
  for (std::uint32_t from = 0; from < network.size(); ++from)
    for (const auto& link : network.links[from]) list.push_back({from, link.to, link.cost});
  if (arguments.out.empty()) {
    std::printf("%s\n", out.dump().c_str());
    return kDone;
  }
  std::ofstream file(arguments.out, std::ios::binary);
  file << out.dump() << '\n';
  file.close();
  if (!file) return fail("cannot write " + arguments.out.string() + ": does the folder exist, is there room?");
  return kDone;
}

}  // namespace tributary::app
