#include "flow/random_network.h"

#include <algorithm>

#include "base/random.h"
#include "base/ten_locations.h"

namespace tributary::flow {
namespace {

constexpr std::int64_t kActivationBytes = 33'600'000;

// Half a microsecond does not matter: costs are rounded to ms, in integers, the same on every machine.
Cost far_cost(std::size_t from, std::size_t to, std::int64_t compute_from, std::int64_t compute_to) {
  const std::int64_t transfer_us = kActivationBytes * 8 / ten_locations::kBandwidthMbps[from][to];
  const std::int64_t us =
      (compute_from + compute_to) * 500 + ten_locations::kLatencyMs[from][to] * std::int64_t{1000} + transfer_us;
  return (us + 500) / 1000;
}

}  // namespace

Network random_network(const RandomNetworkOptions& options, std::uint64_t seed) {
  Random random(seed);
  Network network;
  std::uint32_t next = 0;
  for (std::size_t d = 0; d < options.data_nodes; ++d) network.data_nodes.push_back(next++);
  for (std::size_t s = 0; s < options.stages; ++s) {
    auto& stage = network.stages.emplace_back();
    for (std::size_t r = 0; r < options.relays; ++r) stage.push_back(next++);
  }
  network.capacity.resize(next);
  std::int64_t narrowest = INT64_MAX;
  for (const auto& stage : network.stages) {
    std::int64_t sum = 0;
    for (const std::uint32_t relay : stage)
      sum += network.capacity[relay] =
          static_cast<std::int32_t>(random.between(options.least_capacity, options.most_capacity));
    narrowest = std::min(narrowest, sum);
  }
  const auto share =
      (narrowest + static_cast<std::int64_t>(options.data_nodes) - 1) / static_cast<std::int64_t>(options.data_nodes);
  for (const std::uint32_t d : network.data_nodes)
    network.capacity[d] = static_cast<std::int32_t>(share + random.between(0, share / 4));
  std::vector<std::size_t> site(next);
  std::vector<std::int64_t> compute(next);
  for (std::uint32_t node = 0; node < next; ++node) {
    site[node] = random.below(ten_locations::kSites);
    compute[node] = node < options.data_nodes ? 20 : random.between(100, 410);
  }
  network.links.resize(next);
  const auto connect = [&](const std::vector<std::uint32_t>& from, const std::vector<std::uint32_t>& to) {
    for (const std::uint32_t i : from)
      for (const std::uint32_t j : to)
        network.links[i].push_back(
            {j, options.ten_locations ? far_cost(site[i], site[j], compute[i], compute[j]) : random.between(1, 100)});
  };
  connect(network.data_nodes, network.stages.front());
  for (std::size_t s = 0; s + 1 < options.stages; ++s) connect(network.stages[s], network.stages[s + 1]);
  connect(network.stages.back(), network.data_nodes);
  return network;
}

}  // namespace tributary::flow
