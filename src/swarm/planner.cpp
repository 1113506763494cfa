#include "swarm/planner.h"

#include <algorithm>

namespace tributary::swarm {
namespace {

Duration compute_time(const Candidate& candidate) {
  return candidate.forward == Duration::zero() ? milliseconds(100) : candidate.forward;
}

Duration one_way(const Candidate& from, NodeId to) {
  const auto at = from.round_trip.find(to);
  return at == from.round_trip.end() ? milliseconds(1) : at->second / 2;
}

}  // namespace

wire::Plan make_plan(const RunOptions& run, const std::vector<Candidate>& candidates) {
  wire::Plan plan;
  std::vector<std::vector<const Candidate*>> stages(run.stages + 1);
  for (const auto& candidate : candidates) {
    plan.members.push_back(candidate.member);
    if (!candidate.member.listener) stages[candidate.member.stage.value()].push_back(&candidate);
  }
  std::sort(plan.members.begin(), plan.members.end(), [](const auto& a, const auto& b) { return a.node < b.node; });
  for (auto& members : stages) {
    TRIBUTARY_CHECK(!members.empty(), "a plan needs a member in every stage");
    std::sort(members.begin(), members.end(), [](auto* a, auto* b) { return a->member.node < b->member.node; });
  }

  std::size_t thinnest = ~std::size_t{0};
  for (std::size_t s = 1; s < stages.size(); ++s) {
    std::size_t slots = 0;
    for (const auto* member : stages[s]) slots += member->member.slots;
    thinnest = std::min(thinnest, slots);
  }
  // More in flight than slots: inputs wait where they are needed next (headroom.md: 5 more is enough).
  plan.in_flight = static_cast<std::uint16_t>(std::min<std::size_t>(0xffff, thinnest / stages[0].size() + 5));

  // Earliest finish: a relay's work so far is the time until it is free for one more forward and backward.
  std::map<NodeId, Duration> busy;
  for (std::uint32_t m = 0; m < run.microbatches; ++m) {
    const auto* data_node = stages[0][m % stages[0].size()];
    std::vector<NodeId> path = {data_node->member.node};
    const Candidate* at = data_node;
    for (std::size_t s = 1; s < stages.size(); ++s) {
      const Candidate* best = nullptr;
      Duration best_finish{};
      for (const auto* relay : stages[s]) {
        const auto finish = busy[relay->member.node] + 3 * compute_time(*relay) + 2 * one_way(*at, relay->member.node);
        if (!best || finish < best_finish) {
          best = relay;
          best_finish = finish;
        }
      }
      busy[best->member.node] += 3 * compute_time(*best);
      path.push_back(best->member.node);
      at = best;
    }
    path.push_back(data_node->member.node);
    plan.paths.push_back(std::move(path));
  }
  return plan;
}

StageId neediest_stage(const RunOptions& run, const std::vector<Candidate>& members) {
  std::vector<double> speed(run.stages + 1, 0);
  for (const auto& member : members)
    speed[member.member.stage.value()] += 1 / std::max(1e-6, to_seconds(compute_time(member)));
  std::size_t best = 1;
  for (std::size_t s = 2; s < speed.size(); ++s)
    if (speed[s] < speed[best]) best = s;
  return StageId(static_cast<std::uint16_t>(best));
}

std::vector<wire::Share> make_shares(std::uint64_t size, const std::vector<NodeId>& owners, std::size_t count,
                                     std::uint64_t block) {
  std::vector<wire::Share> shares;
  count = std::clamp<std::size_t>(count, 1, kMostShares);
  const std::uint64_t blocks = (size + block - 1) / block;
  for (std::size_t i = 0; i < count; ++i) {
    const auto begin = std::min(size, blocks * i / count * block);
    const auto end = i + 1 == count ? size : std::min(size, blocks * (i + 1) / count * block);
    if (begin < end) shares.push_back({owners[i % owners.size()], begin, end});
  }
  return shares;
}

}  // namespace tributary::swarm
