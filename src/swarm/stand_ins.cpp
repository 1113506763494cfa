#include "swarm/stand_ins.h"

#include <algorithm>
#include <vector>

namespace tributary::swarm {

std::map<std::pair<StageId, MicrobatchId>, NodeId> choose_stand_ins(const wire::Plan& plan) {
  std::map<std::pair<StageId, MicrobatchId>, NodeId> out;
  if (plan.paths.empty() || plan.paths.front().size() < 3) return out;
  const auto stages = plan.paths.front().size() - 2;
  std::map<NodeId, std::int64_t> work;  // microbatches by the plan
  for (const auto& path : plan.paths)
    for (std::size_t s = 1; s <= stages; ++s) ++work[path[s]];
  for (std::size_t s = 1; s <= stages; ++s) {
    const StageId stage(static_cast<std::uint16_t>(s));
    std::vector<NodeId> relays;
    for (const auto& member : plan.members)
      if (member.stage == stage && !member.listener) relays.push_back(member.node);
    if (relays.size() < 2) continue;
    const auto average = static_cast<std::int64_t>((plan.paths.size() + relays.size() - 1) / relays.size());
    const auto weight = [&](NodeId node) { return work.contains(node) ? work.at(node) : average; };
    // Round robin by weight, for each that may die: credit grows by the weight, and who is chosen pays for all.
    std::map<NodeId, std::map<NodeId, std::int64_t>> credits;
    for (std::size_t m = 0; m < plan.paths.size(); ++m) {
      const auto planned = plan.paths[m][s];
      auto& credit = credits[planned];
      std::int64_t sum = 0;
      NodeId best = wire::kNobody;
      for (const auto node : relays) {
        if (node == planned) continue;
        sum += weight(node);
        credit[node] += weight(node);
        if (best == wire::kNobody || credit[node] > credit[best]) best = node;
      }
      credit[best] -= sum;
      out[{stage, MicrobatchId(static_cast<std::uint32_t>(m))}] = best;
    }
  }
  return out;
}

}  // namespace tributary::swarm
