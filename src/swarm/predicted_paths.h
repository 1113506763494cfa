// The planner's choice of paths by the predicted time of the iteration (flow::predict): slots, queues, uplinks and the
// aggregation count, not only the sum of delays. Pure.
#pragma once
#include <vector>

#include "swarm/path_search.h"

namespace tributary::swarm {

// The best of `starts` (each usable in these stages), improved by local search: one microbatch takes another relay of
// one stage, or two exchange theirs. So many trials that the sequencer's handler stays short; the next iteration's plan
// goes on from this one's. `previous` is kept unless the best one saves more than measurements waver by. Requires
// starts.
Paths predicted_paths(const RunOptions& run, const PlanStages& stages, std::uint16_t in_flight,
                      std::vector<Paths> starts, const Paths* previous, std::uint64_t seed);

}  // namespace tributary::swarm
