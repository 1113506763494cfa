// The sequencer's decisions about epochs: where training begins, who takes part from the start, what is safely on disk.
#include <algorithm>
#include <optional>

#include "swarm/sequencer.h"

namespace tributary::swarm {
namespace {

constexpr std::size_t kMostSaved = 256;  // checkpoints remembered of one node
constexpr int kMostFailedStarts = 3;     // from one checkpoint, before an older one is tried

}  // namespace

void Sequencer::remember_saved(Peer& peer, bool shared_disk, const std::vector<wire::SavedState>& states) {
  const auto insert = [&](std::set<wire::SavedState>& into) {
    into.insert(states.begin(), states.end());
    while (into.size() > kMostSaved) into.erase(into.begin());
  };
  peer.shared_disk = shared_disk;
  insert(shared_disk ? shared_saved_ : peer.saved);
}

bool Sequencer::can_load(const Peer& peer, StageId stage, Iteration checkpoint) const {
  const wire::SavedState state{stage, checkpoint};
  return checkpoint == Iteration(0) || peer.saved.contains(state) ||
         (peer.shared_disk && shared_saved_.contains(state));
}

Candidate Sequencer::candidate(NodeId node, const Peer& peer, StageId stage, bool listener) const {
  Candidate out;
  const auto* member = member_of(raft_.ledger().plan, node);
  const std::uint16_t slots = peer.hello ? peer.hello->slots : member ? member->slots : 1;
  out.member = {node, peer.incarnation, stage, slots, listener};
  out.forward = Duration(std::int64_t{1000} * peer.forward_us);
  out.backward = Duration(std::int64_t{1000} * peer.backward_us);
  for (const auto& [to, link] : peer.links) {
    if (link.delay_us > 0) out.round_trip[to] = Duration(std::int64_t{1000} * link.delay_us);
    if (link.kilobytes_per_s > 0) out.bytes_per_s[to] = 1000.0 * link.kilobytes_per_s;
  }
  return out;
}

std::optional<wire::Plan> Sequencer::plan_from_checkpoint(Iteration checkpoint, bool with_leaving) {
  const auto& run = context_.options.run;
  std::vector<std::vector<NodeId>> by_stage(run.stages + 1);
  std::vector<NodeId> free;
  for (const auto& [node, peer] : peers_) {
    const auto* member = member_of(raft_.ledger().plan, node);
    // Who has not spoken to this leader yet may be long dead: it must not begin an epoch that only it could fill.
    const bool known = (peer.hello || member) && peer.heard_term == raft_.term();
    if (peer.dead || (peer.leaving && !with_leaving) || !known) continue;
    const bool data_node = peer.hello ? peer.hello->data_node : member->stage == StageId(0);
    const auto wish = peer.hello ? peer.hello->stage : member->stage;
    const auto held = member ? member->stage : wish;
    if (data_node) {
      if (can_load(peer, StageId(0), checkpoint)) by_stage[0].push_back(node);
    } else if (held.value() >= 1 && held.value() <= run.stages && can_load(peer, held, checkpoint)) {
      by_stage[held.value()].push_back(node);
    } else if (!peer.hello || peer.hello->any_stage) {
      free.push_back(node);
    }
  }
  // Relays without a stage fill the gaps, then the thinnest stages; an empty stage takes one from the fullest.
  const auto place = [&](NodeId node) {
    std::size_t best = 0;
    for (std::size_t s = 1; s < by_stage.size(); ++s) {
      if (!can_load(peers_.at(node), StageId(static_cast<std::uint16_t>(s)), checkpoint)) continue;
      if (best == 0 || by_stage[s].size() < by_stage[best].size()) best = s;
    }
    if (best != 0) by_stage[best].push_back(node);
  };
  for (const auto node : free) place(node);
  for (std::size_t s = 1; s < by_stage.size(); ++s) {
    while (by_stage[s].empty()) {
      std::size_t from = 0;
      NodeId moved = wire::kNobody;
      for (std::size_t t = 1; t < by_stage.size(); ++t) {
        if (by_stage[t].size() < 2 || (from != 0 && by_stage[t].size() <= by_stage[from].size())) continue;
        for (const auto node : by_stage[t]) {
          const auto& peer = peers_.at(node);
          if (peer.hello && !peer.hello->any_stage) continue;
          if (!can_load(peer, StageId(static_cast<std::uint16_t>(s)), checkpoint)) continue;
          from = t;
          moved = node;
        }
      }
      if (moved == wire::kNobody) break;
      std::erase(by_stage[from], moved);
      by_stage[s].push_back(moved);
    }
  }
  bool enough = true;
  for (std::size_t s = 0; s < by_stage.size(); ++s) {
    if (by_stage[s].empty()) {
      waiting_for_ = (s == 0 ? std::string("a data node") : "a relay for stage " + std::to_string(s)) +
                     (checkpoint == Iteration(0) ? "" : " that has checkpoint " + to_string(checkpoint)) +
                     "; start one, or restart one that left";
      start_possible_since_ = kNever;
      return std::nullopt;
    }
    enough = enough && (s == 0 || by_stage[s].size() >= run.replicas_at_start);
  }
  if (start_possible_since_ == kNever) start_possible_since_ = context_.now;
  if (!enough && context_.now < start_possible_since_ + run.wait_at_start) {
    waiting_for_ = "more relays before the first iteration";
    return std::nullopt;
  }
  std::vector<Candidate> candidates;
  for (std::size_t s = 0; s < by_stage.size(); ++s)
    for (const auto node : by_stage[s])
      candidates.push_back(candidate(node, peers_.at(node), StageId(static_cast<std::uint16_t>(s)), false));
  return make_plan(run, candidates);
}

// A new log over old checkpoints (a single process's, or of voters whose disks are gone): the newest that can be loaded
// for every stage. Iteration 0, the initial state, otherwise.
Iteration Sequencer::found_checkpoint() const {
  if (raft_.ledger().epoch > 0) return Iteration(0);
  std::set<Iteration, std::greater<>> known;
  for (const auto& state : shared_saved_) known.insert(state.checkpoint);
  for (const auto& [node, peer] : peers_)
    for (const auto& state : peer.saved) known.insert(state.checkpoint);
  for (const auto checkpoint : known) {
    bool whole = checkpoint.value() <= context_.options.run.iterations;
    for (std::uint16_t s = 0; s <= context_.stages() && whole; ++s)
      whole = std::any_of(peers_.begin(), peers_.end(), [&](const auto& entry) {
        const auto& peer = entry.second;
        return !peer.dead && peer.hello && peer.hello->data_node == (s == 0) && can_load(peer, StageId(s), checkpoint);
      });
    if (whole) return checkpoint;
  }
  return Iteration(0);
}

bool Sequencer::try_start() {
  const auto& ledger = raft_.ledger();
  auto checkpoint = ledger.checkpoints.empty() ? found_checkpoint() : ledger.checkpoints.back();
  // An epoch that ended before its first commit: perhaps the checkpoint cannot be loaded. Not too fast, and not for
  // ever.
  if (ledger.epoch > 0 && ledger.iteration == ledger.checkpoint && failed_epoch_ != ledger.epoch) {
    failed_epoch_ = ledger.epoch;
    ++failed_starts_;
    start_again_at_ = context_.now + context_.options.pace.report;
  } else if (ledger.iteration != ledger.checkpoint) {
    failed_starts_ = 0;
  }
  if (context_.now < start_again_at_) return false;
  if (failed_starts_ >= kMostFailedStarts && ledger.checkpoints.size() > 1) checkpoint = ledger.checkpoints.front();
  auto plan = plan_from_checkpoint(checkpoint, false);
  // Who wants to leave is asked to stay if a stage cannot be filled without it.
  if (!plan && start_possible_since_ == kNever) plan = plan_from_checkpoint(checkpoint, true);
  if (!plan) return false;
  start_possible_since_ = kNever;
  return raft_.propose(context_.now, wire::Start{ledger.epoch + 1, checkpoint, std::move(*plan)});
}

void Sequencer::complete_checkpoints() {
  const auto& ledger = raft_.ledger();
  if (ledger.epoch == 0 || raft_.pending()) return;
  // The newest iteration that every stage has saved, twice where there are two to save it.
  std::optional<Iteration> newest;
  for (std::uint16_t s = 0; s <= context_.stages(); ++s) {
    std::vector<Iteration> saved;
    Iteration shared;
    std::size_t holders = 0;
    for (const auto* member : members(StageId(s), false)) {
      ++holders;
      const auto& report = peers_.at(member->node).report;
      if (!report || report->stamp.epoch != ledger.epoch) continue;
      saved.push_back(report->saved);
      if (report->shared_disk) shared = std::max(shared, report->saved);
    }
    const std::size_t needed = std::min<std::size_t>(2, holders);
    if (holders == 0 || (saved.size() < needed && shared == Iteration(0))) return;
    std::sort(saved.begin(), saved.end(), std::greater<>());
    // One copy on a disk that others see is as good as two.
    const auto stage_newest = std::max(shared, saved.size() < needed ? Iteration(0) : saved[needed - 1]);
    if (!newest || stage_newest < *newest) newest = stage_newest;
  }
  if (!newest || *newest <= ledger.checkpoint || *newest > ledger.iteration) return;
  if (!ledger.checkpoints.empty() && *newest <= ledger.checkpoints.back()) return;
  raft_.propose(context_.now, wire::CheckpointComplete{ledger.epoch, *newest});
}

}  // namespace tributary::swarm
