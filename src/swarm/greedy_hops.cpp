#include "swarm/greedy_hops.h"

#include <tuple>

#include "base/random.h"

namespace tributary::swarm {

double GreedyHops::average(NodeId relay) const {
  const auto at = average_s_.find(relay);
  return at == average_s_.end() ? kStart_s : at->second;
}

NodeId GreedyHops::choose(StageId stage, MicrobatchId microbatch, const std::set<NodeId>& avoid) {
  NodeId best = wire::kNobody;
  std::tuple<double, double, std::uint64_t> least;
  for (const auto& member : context_.ledger.plan.members) {
    if (member.stage != stage || member.listener || !context_.reachable(member.node) || avoid.contains(member.node))
      continue;
    const auto out = out_.find(member.node);
    const double load = (out == out_.end() ? 0 : out->second) / std::max<double>(1, member.slots);
    const std::tuple rank(load < 1 ? 0 : load, average(member.node), mix64(microbatch.value(), member.node.value()));
    if (best != wire::kNobody && rank >= least) continue;
    best = member.node;
    least = rank;
  }
  if (best != wire::kNobody) ++out_[best];
  return best;
}

void GreedyHops::took(NodeId relay, Duration delay) {
  average_s_[relay] = kOld * average(relay) + (1 - kOld) * to_seconds(delay);
  if (auto out = out_.find(relay); out != out_.end() && out->second > 0) --out->second;
}

}  // namespace tributary::swarm
