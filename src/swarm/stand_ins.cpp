#include "swarm/stand_ins.h"

#include <algorithm>

namespace tributary::swarm {

std::vector<NodeId> choose_stand_ins(const wire::Plan& plan, StageId stage) {
  if (plan.paths.empty() || stage == StageId(0) || plan.paths.front().size() < stage.value() + 2u) return {};
  std::vector<NodeId> relays;
  for (const auto& member : plan.members)
    if (member.stage == stage && !member.listener) relays.push_back(member.node);
  if (relays.size() < 2) return {};
  const auto place_of = [&](NodeId node) {
    const auto at = std::lower_bound(relays.begin(), relays.end(), node);
    return at != relays.end() && *at == node ? static_cast<std::size_t>(at - relays.begin()) : relays.size();
  };
  // Microbatches by the plan. The last place: of whoever is on a path and no relay here any more.
  std::vector<std::int64_t> work(relays.size() + 1, 0);
  for (const auto& path : plan.paths) ++work[place_of(path[stage.value()])];
  const auto average = static_cast<std::int64_t>((plan.paths.size() + relays.size() - 1) / relays.size());
  for (auto& microbatches : work)
    if (microbatches == 0) microbatches = average;
  // Round robin by weight, for each that may die: credit grows by the weight, and who is chosen pays for all.
  std::vector<std::vector<std::int64_t>> credits(work.size());
  std::vector<NodeId> out;
  for (const auto& path : plan.paths) {
    const auto planned = place_of(path[stage.value()]);
    auto& credit = credits[planned];
    credit.resize(relays.size(), 0);
    std::int64_t sum = 0;
    std::size_t best = relays.size();
    for (std::size_t i = 0; i < relays.size(); ++i) {
      if (i == planned) continue;
      sum += work[i];
      credit[i] += work[i];
      if (best == relays.size() || credit[i] > credit[best]) best = i;
    }
    credit[best] -= sum;
    out.push_back(relays[best]);
  }
  return out;
}

}  // namespace tributary::swarm
