// What the leader knows of machines and links, as the cost model takes it (flow::PredictWorld).
#pragma once
#include <map>
#include <vector>

#include "flow/predict.h"
#include "swarm/planner.h"

namespace tributary::swarm {

using PlanStages = std::vector<std::vector<const Candidate*>>;  // by stage, full members only, in order of node

struct PlanWorld {
  flow::PredictWorld predict;
  std::vector<NodeId> nodes;                       // by index in `predict`
  std::map<NodeId, std::uint32_t> index;           // the other way round
  std::vector<std::vector<std::uint32_t>> stages;  // indices
};

// Links that were not measured are estimated. A delay: as the sender's others, or else as all. A rate: from the delay,
// by the power law that the measured links follow (far links are slow ones, where they are), corrected by how the
// sender's measured links differ from it. Pure.
PlanWorld make_plan_world(const RunOptions& run, const PlanStages& stages, std::uint16_t in_flight);

// A node that has computed nothing yet is taken for as fast as its stage's others, or else as all: it must get work to
// be measured.
std::vector<Candidate> with_estimates(std::vector<Candidate> candidates);

}  // namespace tributary::swarm
