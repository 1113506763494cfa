// How far each router is from the best possible: a table of gaps over random networks, and over files given as
// arguments. Usage: flow_gap [FILE.json ..]. Gaps are to the exact optimum (files: to the one that they name).
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "flow/random_network.h"
#include "flow/router.h"

namespace tributary::flow {
namespace {

struct Case {
  Network network;
  std::int64_t count;
  Cost cost;
};

struct Row {
  std::vector<double> gaps;
  int short_of_flows = 0;
  double messages = 0, rounds = 0, seconds = 0;
};

Row run(const Router& router, const std::vector<Case>& cases, std::uint64_t seeds) {
  Row row;
  for (const Case& each : cases)
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
      const auto start = std::chrono::steady_clock::now();
      const auto solution = router.solve(each.network, seed);
      row.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      if (!solution) continue;
      if (const auto good = check(each.network, *solution); !good)
        std::printf("WRONG: %s\n", good.error().message.c_str());
      row.short_of_flows += solution->count < each.count;
      row.gaps.push_back(100 * (static_cast<double>(solution->cost) / static_cast<double>(each.cost) - 1));
      row.messages += static_cast<double>(solution->messages) / static_cast<double>(each.network.size());
      row.rounds += static_cast<double>(solution->rounds);
    }
  std::sort(row.gaps.begin(), row.gaps.end());
  return row;
}

void print(const char* what, const std::vector<Case>& cases, std::uint64_t seeds) {
  for (const auto& name : router_names()) {
    const auto router = make_router(name);
    const Row row = run(**router, cases, seeds);
    if (row.gaps.empty()) continue;
    double sum = 0;
    for (const double gap : row.gaps) sum += gap;
    const double n = static_cast<double>(row.gaps.size());
    std::printf("| %-34s | %-17s | %3.0f | %6.2f | %6.2f | %6.2f | %3d | %6.0f | %5.0f | %7.4f |\n", what, name.c_str(),
                n, sum / n, row.gaps[row.gaps.size() * 95 / 100], row.gaps.back(), row.short_of_flows, row.messages / n,
                row.rounds / n, row.seconds / n);
  }
}

std::vector<Case> random_cases(std::size_t data_nodes, bool far, std::int32_t most_capacity) {
  std::vector<Case> cases;
  for (const auto& [stages, relays] : {std::pair{4, 4}, {6, 6}, {8, 12}, {12, 8}, {5, 16}})
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      RandomNetworkOptions options;
      options.data_nodes = data_nodes;
      options.stages = static_cast<std::size_t>(stages);
      options.relays = static_cast<std::size_t>(relays);
      options.most_capacity = most_capacity;
      options.ten_locations = far;
      auto network = random_network(options, seed);
      const auto best = (*make_router("optimal"))->solve(network, seed);
      if (!best) {
        std::printf("left out: %s\n", best.error().message.c_str());
        continue;
      }
      cases.push_back({std::move(network), best->count, best->cost});
    }
  return cases;
}

}  // namespace
}  // namespace tributary::flow

int main(int argc, char** argv) {
  using namespace tributary::flow;
  std::printf("| %-34s | router            | n   | mean %% | p95 %%  | worst  | <max | msgs/n | rounds | s       |\n",
              "networks");
  std::printf("|---|---|---|---|---|---|---|---|---|---|\n");
  for (int k = 1; k < argc; ++k) {
    auto file = load_network(argv[k]);
    if (!file) {
      std::printf("%s\n", file.error().message.c_str());
      return 1;
    }
    const Bound bound = interchangeable_bound(file->network);
    const std::string path = argv[k];
    const std::string name = path.substr(path.find_last_of('/') + 1);
    print(name.c_str(),
          {{std::move(file->network), file->optimum_count.value_or(bound.count),
            file->optimum_cost.value_or(bound.cost)}},
          10);
  }
  for (const std::size_t data_nodes : {1, 3})
    for (const bool far : {false, true})
      for (const std::int32_t capacity : {5, 20}) {
        const std::string what = std::to_string(data_nodes) + " data, " + (far ? "ten locations" : "uniform 1-100") +
                                 ", capacity 1-" + std::to_string(capacity);
        print(what.c_str(), random_cases(data_nodes, far, capacity), 1);
      }
  return 0;
}
