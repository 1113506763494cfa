// Random routing problems for tests, benchmarks and the lab. Pure; the same seed gives the same network everywhere.
#pragma once
#include "flow/network.h"

namespace tributary::flow {

struct RandomNetworkOptions {
  std::size_t data_nodes = 1;
  std::size_t stages = 8;
  std::size_t relays = 8;  // of each stage
  std::int32_t least_capacity = 1;
  std::int32_t most_capacity = 5;
  // True: nodes at random among the ten locations, costs in ms: (c_i + c_j)/2 + latency + 33.6 MB / bandwidth, compute
  // times c of relays 100..410 ms, of data nodes 20 ms. False: costs 1..100 at random.
  bool ten_locations = false;
};

// All links between neighbouring stages are there; the data nodes together have room for what the relays can carry.
Network random_network(const RandomNetworkOptions& options, std::uint64_t seed);

}  // namespace tributary::flow
