#include "sim/baseline_policies.h"

namespace tributary::sim {
namespace {

constexpr double kOld = 0.6, kStart = 0.5;

// The relay that would have computed first what `from` sends it now, by the work given to each.
std::uint32_t stand_in(const flow::PredictWorld& world, const flow::PredictPolicy::View& view, std::uint32_t from,
                       std::uint32_t stage) {
  std::uint32_t best = flow::PredictPolicy::kWait;
  double least = 0;
  for (std::uint32_t to = 0; to < world.nodes.size(); ++to) {
    if (world.nodes[to].stage != stage || view.knows_dead(from, to)) continue;
    const double takes = world.latency(from, to) + world.message_bytes / world.bandwidth(from, to) +
                         world.nodes[to].forward_s * (1 + world.backward_ratio) * (1 + view.given(to));
    if (best == flow::PredictPolicy::kWait || takes < least) best = to, least = takes;
  }
  return best;
}

}  // namespace

SwarmPolicy::SwarmPolicy(const flow::PredictWorld& world, SwarmKind kind, std::uint64_t seed)
    : world_(world),
      kind_(kind),
      random_(seed),
      average_(world.nodes.size() * world.nodes.size(), kStart),
      account_(average_.size(), 0) {}

std::uint32_t SwarmPolicy::choose(const View& view, std::uint32_t from, std::uint32_t, std::uint32_t stage,
                                  std::uint32_t) {
  const std::size_t n = world_.nodes.size();
  const auto& rank = kind_ == SwarmKind::kRoundRobin ? account_ : average_;
  std::uint32_t best = kWait, ties = 0;
  for (std::uint32_t to = 0; to < n; ++to) {
    if (world_.nodes[to].stage != stage || view.knows_dead(from, to)) continue;
    if (kind_ == SwarmKind::kRefusing && view.given(to) >= world_.nodes[to].capacity) continue;
    const double value = rank[from * n + to];
    if (best == kWait || value < rank[from * n + best]) {
      best = to;
      ties = 1;
    } else if (value == rank[from * n + best] && random_.below(++ties) == 0) {
      best = to;
    }
  }
  if (best != kWait) account_[from * n + best] += average_[from * n + best];
  return best;
}

void SwarmPolicy::seen(std::uint32_t from, std::uint32_t to, double took_s) {
  double& average = average_[from * world_.nodes.size() + to];
  average = kOld * average + (1 - kOld) * took_s;
}

void FlowPolicy::set_flows(std::vector<std::vector<std::uint32_t>> flows, std::size_t microbatches) {
  flows_ = std::move(flows);
  free_.assign(flows_.size(), true);
  flow_of_.assign(microbatches, flows_.size());
}

std::uint32_t FlowPolicy::choose(const View& view, std::uint32_t from, std::uint32_t microbatch, std::uint32_t stage,
                                 std::uint32_t) {
  std::size_t& flow = flow_of_[microbatch];
  if (flow == flows_.size()) {
    // Its own data node's first, else any: the relays are the same.
    for (std::size_t k = 0; k < flows_.size(); ++k)
      if (free_[k] && (flow == flows_.size() || (flows_[k][0] == from && flows_[flow][0] != from))) flow = k;
    if (flow == flows_.size()) return kWait;
    free_[flow] = false;
  }
  const std::uint32_t planned = flows_[flow][stage];
  if (!view.knows_dead(from, planned)) return planned;
  return stand_in(world_, view, from, stage);
}

std::uint32_t PlanPolicy::choose(const View& view, std::uint32_t from, std::uint32_t, std::uint32_t stage,
                                 std::uint32_t planned) {
  return view.knows_dead(from, planned) ? stand_in(world_, view, from, stage) : planned;
}

void FlowPolicy::done(std::uint32_t microbatch) {
  if (flow_of_[microbatch] < flows_.size()) free_[flow_of_[microbatch]] = true;
}

}  // namespace tributary::sim
