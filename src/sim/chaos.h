// Chaos: a whole swarm drawn from a seed (its size, links, machines, faults), run under churn in the simulated world
// and checked after every event. Safety under faults; then the faults stop, everybody who can comes back, and the swarm
// must commit again and finish. A failing seed is a bug report: `tributary sim chaos --seed N` replays it.
#pragma once
#include <cstdint>
#include <string>

#include "sim/chaos_swarm.h"
#include "sim/world.h"

namespace tributary::sim {

struct ChaosOptions {
  std::uint64_t seed = 1;
  std::uint64_t iterations = 0;  // 0: drawn
  bool faults = true;
  swarm::PlantedBugs bugs;
  const ChaosModel* model = nullptr;  // computes real tensors; null: symbolic mathematics. Not owned
  ChaosCut cut;
  bool log = false;  // prints what happens to machines, and commits
};

struct ChaosResult {
  std::string violation;  // empty: none
  std::uint64_t trace_hash = 0;
  std::uint64_t events = 0;
  std::uint64_t messages = 0;
  double virtual_s = 0;
  std::uint64_t iterations = 0;
  std::uint64_t evaluations = 0;  // held-out losses
  std::uint64_t nodes = 0;
  std::uint64_t crashes = 0;
  std::uint32_t strikes = 0;  // drawn; those left out are among them
  double recovery_s = 0;      // from the end of all trouble to the next commit; 0: there was nothing left to commit
  double calm_bound_s = 0;    // within which it must come, by the detector's deadlines and the links
  swarm::Counters counters;
};

ChaosResult run_chaos(const ChaosOptions& options);
// The same with a swarm that was made rather than drawn; options.seed, iterations and cut do not count.
ChaosResult run_chaos(const ChaosOptions& options, const ChaosSwarm& swarm);

// What to type to see that seed again.
std::string replay_command(std::uint64_t seed);
std::string replay_command(std::uint64_t seed, const ChaosCut& cut);
// The cut that such a command names. Errors: what is no list of numbers.
Result<ChaosCut> parse_cut(const std::string& strikes, const std::string& without, std::uint64_t iterations);

}  // namespace tributary::sim
