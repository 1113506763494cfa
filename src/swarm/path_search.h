// Local search for the paths of an iteration on the cost model. Internal to the planner.
#pragma once
#include <vector>

#include "base/random.h"
#include "swarm/plan_world.h"

namespace tributary::swarm {

using Paths = std::vector<std::vector<NodeId>>;  // as wire::Plan::paths

class PathSearch {
 public:
  struct Time {
    double end = 0, sum = 0;
    bool operator<(const Time& other) const {
      // The last one counts; among equals, the sooner all are done the less a disturbance costs.
      return end < other.end * (1 - 1e-9) || (end <= other.end * (1 + 1e-9) && sum < other.sum * (1 - 1e-9));
    }
  };
  using Microbatches = std::vector<flow::PredictMicrobatch>;

  // Keeps a reference to the world. Its stages may change between calls; then restaged() must be called.
  PathSearch(const PlanWorld& world, std::uint64_t seed);

  // Begins from there. Requires that the paths fit the world's stages.
  Time take(const Paths& paths);
  Time take(const Microbatches& microbatches);
  // One microbatch takes another relay of one stage, or two exchange theirs: kept if that is sooner.
  void improve(std::size_t trials);
  void restaged() { predictor_.restage(); }

  Time time() const { return time_; }
  Paths paths() const;
  const Microbatches& microbatches() const { return plan_.microbatches; }
  // Event steps that one prediction costs, about.
  static std::size_t steps(const RunOptions& run) { return run.microbatches * (6 * (run.stages + 1u) + 6); }

 private:
  Time evaluate();

  const PlanWorld& world_;
  flow::Predictor predictor_;
  Random random_;
  flow::PredictPlan plan_;
  Time time_;
};

}  // namespace tributary::swarm
