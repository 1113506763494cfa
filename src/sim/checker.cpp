#include "sim/checker.h"

namespace tributary::sim {

void Checker::watch(World& world) {
  world.on_event = [this, &world](NodeId id, const swarm::Node& node) { after_event(world.now(), id, node); };
  world.on_end = [this, &world](NodeId id, const swarm::Node& node) { ended(world.now(), id, node); };
  world.on_applied = [this](NodeId id, const swarm::Applied& applied) { this->applied(id, applied); };
  world.on_evaluated = [this](NodeId id, const swarm::Evaluated& done) { evaluated(id, done); };
}

void Checker::broken(NodeId id, const std::string& rule) {
  if (violation_.empty()) violation_ = "node " + to_string(id) + ": " + rule;
}

void Checker::applied(NodeId id, const swarm::Applied& applied) {
  const auto& commit = applied.commit;
  newest_ = std::max(newest_, commit.iteration.value() + 1);
  const auto where = "stage " + to_string(applied.stage) + " after iteration " + to_string(commit.iteration);
  const auto [replica, first] =
      weights_.try_emplace({commit.epoch, commit.iteration, applied.stage}, applied.weights_hash);
  if (!first && replica->second != applied.weights_hash) broken(id, where + " differs from another replica's");
  // Exactly once, and crash equivalence: the weights are those of a run without crashes in one process.
  if (options_.hash_after && applied.weights_hash != options_.hash_after(commit.iteration, applied.stage))
    broken(id, where + " differs from the undisturbed run");
  wire::Commit decision = commit;
  decision.next = {};
  wire::Ledger holder;
  holder.recent = {decision};
  const auto hash = checksum64(wire::encode_ledger(holder));
  const auto [at, added] = commits_.try_emplace({commit.epoch, commit.iteration}, hash);
  if (!added && at->second != hash) broken(id, "two commits for iteration " + to_string(commit.iteration));
}

void Checker::evaluated(NodeId id, const swarm::Evaluated& evaluated) {
  ++evaluations_;
  if (options_.held_out_before && evaluated.loss != options_.held_out_before(evaluated.iteration))
    broken(id, "the held-out loss before iteration " + to_string(evaluated.iteration) +
                   " differs from the undisturbed run's");
}

void Checker::ended(Time now, NodeId id, const swarm::Node& node) { deaths_[{id, node.incarnation()}] = now; }

void Checker::after_event(Time now, NodeId id, const swarm::Node& node) {
  auto& seen = seen_[id];
  if (node.incarnation() != seen.incarnation) {
    // A node that was declared dead took the next incarnation by itself: its former one died just now.
    if (seen.incarnation < node.incarnation()) deaths_.try_emplace({id, seen.incarnation}, now);
    seen = {0, 0, node.incarnation(), {}};
  }
  check_log(id, node, seen);
  check_bounds(id, node);
  check_plan(now, id, node, seen);
}

void Checker::check_log(NodeId id, const swarm::Node& node, Seen& seen) {
  const auto* raft = node.raft();
  if (!raft) return;
  if (raft->term() < seen.term) broken(id, "a voter's term went back");
  seen.term = raft->term();
  if (raft->ledger().index < seen.index) broken(id, "a voter's log went back");
  seen.index = raft->ledger().index;
}

void Checker::check_bounds(NodeId id, const swarm::Node& node) {
  using Phase = swarm::Node::Phase;
  const int most_slots = node.context().options.slots + static_cast<int>(options_.run.microbatches);
  if (node.pipeline().slots_used() > most_slots) broken(id, "more slots in use than microbatches");
  if (node.pipeline().slots_used() < 0) broken(id, "a slot was released twice");
  const auto kept = node.pipeline().kept_bytes();
  if (kept > options_.most_kept_bytes) broken(id, "more payloads kept than one iteration has");
  const bool idle = node.phase() == Phase::kOutside || node.phase() == Phase::kFinishing;
  if (idle && (kept != 0 || node.pipeline().slots_used() != 0))
    broken(id, "payloads or slots kept after the iteration");
  if (node.early_messages() > swarm::Node::kMostEarly) broken(id, "more early messages than the bound");
}

// When the leader's log goes one iteration on, the plan it made names nobody that has been dead for long.
void Checker::check_plan(Time now, NodeId id, const swarm::Node& node, Seen& seen) {
  if (!node.leading()) {
    seen.led = {};
    return;
  }
  const auto& ledger = node.raft()->ledger();
  const wire::Stamp stamp{ledger.epoch, ledger.iteration};
  if (stamp == seen.led) return;
  const bool its_own = seen.led != wire::Stamp{};
  seen.led = stamp;
  if (!its_own) return;
  for (const auto& member : ledger.plan.members) {
    const auto death = deaths_.find({member.node, member.incarnation});
    if (death != deaths_.end() && now > death->second + options_.detection_bound)
      broken(id, "the plan of iteration " + to_string(ledger.iteration) + " names node " + to_string(member.node) +
                     ", long dead");
  }
}

}  // namespace tributary::sim
