// Joining: on which stage newcomers serve. The published rule and ours, on problems where every node's costs to every
// other are known. Pure and deterministic.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "flow/network.h"

namespace tributary::flow {

struct JoinProblem {
  std::vector<std::uint32_t> data_nodes;
  std::vector<std::vector<std::uint32_t>> stages;  // [s] is stage s+1
  std::vector<std::uint32_t> candidates;           // on no stage yet
  std::vector<std::int32_t> capacity;              // by node
  std::vector<Cost> cost;  // [i * n + j] for any two nodes; between relays of one stage: of aggregating

  std::size_t size() const { return capacity.size(); }
  Cost link(std::uint32_t i, std::uint32_t j) const { return cost[i * size() + j]; }
  // Every node in exactly one place, nothing negative, sizes within limits.
  Result<void> check() const;
};
inline constexpr std::size_t kMostJoinNodes = 2000, kMostCandidates = 64;

// Stages of the candidates, in their order: 1..S; 0: not placed.
using Placement = std::vector<std::uint32_t>;

// What a placement is worth: the most flows, of those the least sum of link costs (network simplex; with several data
// nodes flows may return to any). The time of an iteration as GWTF counts it is 2 P + A.
struct JoinValue {
  std::int64_t flows = 0;
  Cost dearest = 0;      // P: over the hops, the sum of the dearest links used
  Cost aggregation = 0;  // A: the dearest link between two relays of a stage
  // The cost per microbatch; infinite without flows.
  double per_microbatch() const;
};
JoinValue evaluate(const JoinProblem& problem, const Placement& placement);

// GWTF's rule: one newcomer after the other goes to the stage used most, and of those that wait the one goes first that
// saves most by the rule's own estimate. docs/methods.md says what was reconstructed.
Placement join_gwtf(const JoinProblem& problem);

// Ours: all newcomers together. Each in turn where it is best, then moves of one and exchanges of two while any helps,
// from several orders; each placement is weighed by evaluate(). `orders`: more take longer and miss less.
Placement join_planned(const JoinProblem& problem, std::uint64_t seed, std::size_t orders = 8);

// All placements, if there are at most `most`; else nothing.
std::optional<Placement> join_exhaustively(const JoinProblem& problem, std::size_t most);

// GWTF's rebalancing: two relays exchange their stages where that lowers the larger of their two costs (the mean cost
// of a relay's links to the stages beside its own), else with probability exp(-loss / T). T starts at 3 and is
// multiplied by 0.992 at each try; nothing that raises the value of the whole is looked at. Returns how many exchanges
// were made.
std::size_t rebalance_gwtf(JoinProblem& problem, std::uint64_t seed, std::size_t tries = 2000);

// The networks of the joining tests of the GWTF thesis, drawn anew.
struct JoinTest {
  int number;
  std::size_t stages, relays;  // relays of each stage
  std::int32_t most_capacity;  // 1 to this
  Cost least_cost, most_cost;
  std::size_t candidates;
};
const std::vector<JoinTest>& join_tests();
JoinProblem random_join_problem(const JoinTest& test, std::uint64_t seed);

// JSON: {"data_nodes": [ids], "stages": [[ids], ..], "candidates": [ids], "capacity": [..], "cost": [[..], ..]}; other
// keys are ignored.
Result<JoinProblem> parse_join_problem(std::string_view json);
std::string to_json(const JoinProblem& problem);

}  // namespace tributary::flow
