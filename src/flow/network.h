// The routing problem: data nodes, stages of relays, capacities, and integer costs of the links between neighbouring
// stages. Pure values; safe to read from several threads. Costs are integers so that every machine agrees.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace tributary::flow {

using Cost = std::int64_t;

struct Link {
  std::uint32_t to = 0;
  Cost cost = 0;
};

// Nodes are numbered 0..n-1; a NodeId's value is that number. Build it with add_link(), then check().
struct Network {
  std::vector<std::uint32_t> data_nodes;           // stage 0
  std::vector<std::vector<std::uint32_t>> stages;  // [s] is stage s+1
  std::vector<std::int32_t> capacity;              // by node: flows at a time, data nodes too
  std::vector<std::vector<Link>> links;            // by node, ascending `to`; only to the next stage (last: data nodes)

  std::size_t size() const { return capacity.size(); }
  // The cost of the link, if there is one. Logarithmic in the node's links.
  std::optional<Cost> cost(std::uint32_t from, std::uint32_t to) const;
  Cost mean_cost() const;
  // Every node in exactly one place, links only between neighbouring stages, nothing negative, sizes within limits.
  Result<void> check() const;
};

// What a solution may cost and count at most is 64 bits wide, so sizes are bounded.
inline constexpr std::size_t kMaxNodes = 20000;
inline constexpr std::size_t kMaxStages = 1000;
inline constexpr std::size_t kMaxLinks = 20'000'000;
inline constexpr std::int32_t kMaxCapacity = 1'000'000;
inline constexpr Cost kMaxCost = 1'000'000'000;
inline constexpr std::size_t kMaxFileBytes = std::size_t{256} << 20;

// The answer of a router.
struct Solution {
  std::vector<std::vector<NodeId>> flows;  // [d, r1, .., rS, d] each
  std::int64_t count = 0;                  // flows.size()
  Cost cost = 0;                           // sum over all flows' links
  std::int64_t messages = 0;               // between nodes, if the router is decentralised
  std::int64_t rounds = 0;                 // mean round trips until it was quiet, if so
};
// Whether every flow goes through one relay of each stage over links that exist, back to the data node that it left,
// within all capacities, and count and cost are right.
Result<void> check(const Network& network, const Solution& solution);

// JSON: {"data_nodes": [ids], "stages": [[ids], ..], "capacity": [..], and either "cost": [[cost or null, ..], ..] by
// from and to, or "links": [[from, to, cost], ..]}; other keys are ignored, but for "optimum": {"flows", "cost"}.
struct NetworkFile {
  Network network;
  std::optional<std::int64_t> optimum_count;
  std::optional<Cost> optimum_cost;
};
Result<NetworkFile> parse_network(std::string_view json);
Result<NetworkFile> load_network(const std::string& path);

}  // namespace tributary::flow
