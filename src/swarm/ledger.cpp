#include "swarm/ledger.h"

#include <algorithm>
#include <utility>

namespace tributary::swarm {
namespace {

void fold(wire::Ledger&, const wire::NewTerm&) {}

void fold(wire::Ledger& ledger, const wire::Start& start) {
  if (start.epoch != ledger.epoch + 1) return;
  ledger.epoch = start.epoch;
  ledger.checkpoint = start.checkpoint;
  ledger.iteration = start.checkpoint;
  ledger.plan = start.plan;
  ledger.halted = false;
  ledger.excluded.clear();
  ledger.recent.clear();
  std::erase_if(ledger.checkpoints, [&](Iteration c) { return c > start.checkpoint; });
  // A log that was begun anew over checkpoints that were there before.
  if (ledger.checkpoints.empty() && start.checkpoint > Iteration(0)) ledger.checkpoints.push_back(start.checkpoint);
}

void fold(wire::Ledger& ledger, const wire::Commit& commit) {
  if (commit.epoch != ledger.epoch || commit.iteration != ledger.iteration) return;
  ledger.plan = commit.next;
  ledger.halted = commit.halt;
  ledger.recent.push_back(commit);
  ledger.recent.back().next = {};
  if (ledger.recent.size() > 2) ledger.recent.erase(ledger.recent.begin());
  ledger.excluded.clear();
  ledger.iteration = Iteration(ledger.iteration.value() + 1);
}

void fold(wire::Ledger& ledger, const wire::Exclude& exclude) {
  if (exclude.epoch != ledger.epoch || exclude.iteration != ledger.iteration) return;
  for (const auto microbatch : exclude.microbatches) {
    const auto at = std::lower_bound(ledger.excluded.begin(), ledger.excluded.end(), microbatch);
    if (at == ledger.excluded.end() || *at != microbatch) ledger.excluded.insert(at, microbatch);
  }
}

void fold(wire::Ledger& ledger, const wire::Admit& admit) {
  if (admit.epoch != ledger.epoch || admit.iteration != ledger.iteration || ledger.halted) return;
  auto& members = ledger.plan.members;
  for (auto member : admit.members) {
    const bool full = !std::exchange(member.listener, true);
    const auto at = std::lower_bound(members.begin(), members.end(), member,
                                     [](const auto& a, const auto& b) { return a.node < b.node; });
    if (at != members.end() && at->node == member.node) {
      if (full && at->incarnation == member.incarnation) at->listener = false;
      if (at->incarnation >= member.incarnation) continue;
      // The weight stays: the cut of the stage's ranges must not change within an iteration.
      member.share = at->stage == member.stage ? at->share : std::uint16_t{0};
      if (at->share > 0 && at->stage != member.stage) continue;
      *at = member;
    } else {
      member.share = 0;
      members.insert(at, member);
    }
  }
}

void fold(wire::Ledger& ledger, const wire::CheckpointComplete& complete) {
  if (complete.epoch != ledger.epoch) return;
  if (!ledger.checkpoints.empty() && ledger.checkpoints.back() >= complete.checkpoint) return;
  ledger.checkpoints.push_back(complete.checkpoint);
  if (ledger.checkpoints.size() > 2) ledger.checkpoints.erase(ledger.checkpoints.begin());
}

}  // namespace

void apply_decision(wire::Ledger& ledger, const wire::Decision& decision) {
  ++ledger.index;
  std::visit([&](const auto& d) { fold(ledger, d); }, decision);
}

const wire::Member* member_of(const wire::Plan& plan, NodeId node) {
  const auto at = std::lower_bound(plan.members.begin(), plan.members.end(), node,
                                   [](const auto& member, NodeId id) { return member.node < id; });
  return at != plan.members.end() && at->node == node ? &*at : nullptr;
}

std::vector<std::uint32_t> full_set(StageId stage, std::uint32_t microbatches,
                                    const std::vector<MicrobatchId>& excluded) {
  std::vector<std::uint32_t> keys;
  const std::uint32_t count = stage.value() == 0 ? 2 * microbatches : microbatches;
  for (std::uint32_t key = 0; key < count; ++key)
    if (!std::binary_search(excluded.begin(), excluded.end(), MicrobatchId(key % microbatches))) keys.push_back(key);
  return keys;
}

std::uint64_t hash_of(const std::vector<std::uint32_t>& keys) { return checksum64(std::as_bytes(std::span(keys))); }

}  // namespace tributary::swarm
