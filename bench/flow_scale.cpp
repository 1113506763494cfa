// A plan for ten thousand relays: processor seconds, and the gap to the bound of interchangeable data nodes (exact for
// one). Usage: flow_scale [STAGES RELAYS_OF_EACH]
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "flow/random_network.h"
#include "flow/router.h"

int main(int argc, char** argv) {
  using namespace tributary::flow;
  RandomNetworkOptions options;
  options.stages = argc > 2 ? static_cast<std::size_t>(std::atol(argv[1])) : 100;
  options.relays = argc > 2 ? static_cast<std::size_t>(std::atol(argv[2])) : 100;
  const auto router = make_router("planned");
  std::printf("| networks of %zu relays | flows (most) | gap to the bound %% | s |\n|---|---|---|---|\n",
              options.stages * options.relays);
  for (const std::size_t data_nodes : {1, 4, 16})
    for (const bool far : {false, true}) {
      options.data_nodes = data_nodes;
      options.ten_locations = far;
      const auto network = random_network(options, 1);
      const auto bound = interchangeable_bound(network);
      const auto start = std::clock();
      const auto solution = (*router)->solve(network, 1);
      const double took = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
      if (!solution) {
        std::printf("%s\n", solution.error().message.c_str());
        return 1;
      }
      if (const auto good = check(network, *solution); !good) {
        std::printf("WRONG: %s\n", good.error().message.c_str());
        return 1;
      }
      std::printf("| %zu data nodes, %s | %lld (%lld) | %.3f | %.1f |\n", data_nodes,
                  far ? "ten locations" : "costs 1-100", static_cast<long long>(solution->count),
                  static_cast<long long>(bound.count),
                  100 * (static_cast<double>(solution->cost) / static_cast<double>(bound.cost) - 1), took);
      std::fflush(stdout);
    }
  return 0;
}
