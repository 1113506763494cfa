#include "sim/baseline_account.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

namespace tributary::sim {

WhereTimeGoes where_time_goes(const flow::PredictWorld& world, const flow::PredictPlan& plan,
                              const flow::Prediction& prediction, const flow::PredictTrace& trace, double duration_s) {
  WhereTimeGoes result;
  std::set<std::tuple<std::uint32_t, std::uint32_t, char>> computed;  // microbatch, stage, kind
  for (const auto& task : trace.tasks) {
    const double took = task.end_s - task.start_s;
    result.computed_s += took;
    if (task.kind != 'R' && computed.insert({task.microbatch, world.nodes[task.node].stage, task.kind}).second) {
      result.compute_s += took;
    } else {
      result.redone_s += took;
    }
  }
  // With one stage a microbatch crosses the same pair of stages for its activation and for its gradient.
  const std::uint32_t crossings = world.stages() == 1 ? 2 : 1;
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, std::uint32_t> moved;  // microbatch, stages
  for (const auto& send : trace.sends) {
    auto& times = moved[{send.microbatch, world.nodes[send.from].stage, world.nodes[send.to].stage}];
    if (times++ < crossings) result.transfer_s += send.arrive_s - send.start_s;
  }
  const auto count = static_cast<double>(std::max<std::size_t>(1, plan.microbatches.size()));
  double sum = 0;
  for (const double done : prediction.done_s) sum += done;
  result.compute_s /= count;
  result.transfer_s /= count;
  result.wait_s = sum / count - result.compute_s - result.transfer_s;
  result.last_s = prediction.pipeline_end_s - sum / count;
  result.end_s = duration_s - prediction.pipeline_end_s;
  return result;
}

}  // namespace tributary::sim
