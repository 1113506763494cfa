// Looks for a seed that breaks a rule, and for the least of it that still does: fewer strikes, machines and iterations.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/chaos.h"
#include "sim/rehearsal.h"

namespace tributary::sim {

struct SearchOptions {
  std::uint64_t first = 1;
  swarm::PlantedBugs bugs;
  std::uint32_t most_shrinking_runs = 2000;
  // After each seed; false ends the search.
  std::function<bool(const ChaosResult&)> go_on = [](const ChaosResult&) { return true; };
  // After each run of the shrinking.
  std::function<void(std::uint32_t runs, std::size_t strikes)> on_shrink = [](std::uint32_t, std::size_t) {};
};

struct Finding {
  std::uint64_t seed = 0;
  std::string violation;        // of the whole seed
  std::string least_violation;  // of what is left: the same rule, perhaps of another node or iteration
  ChaosCut cut;
  std::uint32_t strikes = 0, nodes = 0;  // before ...
  std::uint64_t iterations = 0;
  std::uint32_t strikes_left = 0, nodes_left = 0;  // ... and after
  std::uint64_t iterations_left = 0;
  std::uint32_t runs = 0;        // that the shrinking took
  std::uint64_t trace_hash = 0;  // of what is left
};

struct SearchResult {
  std::uint64_t seeds = 0;
  std::uint64_t crashes = 0, strikes = 0, events = 0;
  double slowest_recovery_s = 0;  // from the end of all trouble to the next commit
  double its_bound_s = 0;         // that of the same seed
  std::uint64_t slowest_seed = 0;
  std::optional<Finding> found;
};

// Goes on from seed to seed until one breaks a rule or go_on says no.
SearchResult search(const SearchOptions& options);

// The same for a scenario, rehearsed and checked from seed to seed. What is left out is parts of its trouble
// (trouble_parts) and iterations.
struct ScenarioFinding {
  std::uint64_t seed = 0;
  std::string violation, least_violation;
  std::vector<std::string> without;
  std::uint64_t iterations = 0, iterations_left = 0;
  std::uint32_t runs = 0;
  std::uint64_t trace_hash = 0;  // of what is left
};
struct ScenarioSearchOptions {
  std::uint64_t first = 1;
  swarm::PlantedBugs bugs;
  std::function<bool(const Rehearsal&)> go_on = [](const Rehearsal&) { return true; };
  std::function<void(std::uint32_t runs)> on_shrink = [](std::uint32_t) {};
};
struct ScenarioSearchResult {
  std::uint64_t seeds = 0, events = 0;
  std::optional<ScenarioFinding> found;
};
// Errors: the router's name.
Result<ScenarioSearchResult> search(const Scenario& scenario, const ScenarioSearchOptions& options);

// The rule that was broken, without numbers: two failures of the same kind are taken for the same.
std::string kind_of(const std::string& violation);

}  // namespace tributary::sim
