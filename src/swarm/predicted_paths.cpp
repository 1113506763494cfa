#include "swarm/predicted_paths.h"

#include <optional>
#include <utility>

namespace tributary::swarm {
namespace {

// Steps of the prediction's event queue that one plan may cost: some milliseconds.
constexpr std::size_t kMostSteps = 120'000;
constexpr std::size_t kMostMachines = 400;  // beyond, a prediction's tables are too large for a handler
constexpr double kWorthIt = 0.995;          // of the previous plan's time, to be left for a new one

}  // namespace

Paths predicted_paths(const RunOptions& run, const PlanStages& stages, std::uint16_t in_flight,
                      std::vector<Paths> starts, const Paths* previous, std::uint64_t seed) {
  TRIBUTARY_CHECK(!starts.empty(), "a search begins somewhere");
  const auto world = make_plan_world(run, stages, in_flight);
  const auto steps = PathSearch::steps(run);
  if (world.nodes.size() > kMostMachines || steps > kMostSteps || !world.predict.check()) return starts.front();
  PathSearch search(world, seed);
  const Paths* best = nullptr;
  PathSearch::Time best_time;
  for (const auto& start : starts) {
    const auto time = search.take(start);
    if (best && !(time < best_time)) continue;
    best = &start;
    best_time = time;
  }
  std::optional<PathSearch::Time> before;
  if (previous) before = search.take(*previous);
  search.take(before && !(best_time < *before) ? *previous : *best);
  search.improve(kMostSteps / steps);
  if (before && search.time().end > before->end * kWorthIt) return *previous;
  return search.paths();
}

}  // namespace tributary::swarm
