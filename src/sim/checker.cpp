#include "sim/checker.h"

namespace tributary::sim {

Checker::Checker(const swarm::RunOptions& run, SymbolicOptions symbolic)
    : run_(run),
      reference_(symbolic, run.microbatches, [run](Iteration iteration, double sum_squares, std::uint32_t used) {
        return swarm::step_parameters(run.step, iteration, sum_squares, used, run.microbatches);
      }) {}

void Checker::broken(NodeId id, const std::string& rule) {
  if (violation_.empty()) violation_ = "node " + to_string(id) + ": " + rule;
}

void Checker::applied(NodeId id, const swarm::Applied& applied) {
  const auto& commit = applied.commit;
  newest_ = std::max(newest_, commit.iteration.value() + 1);
  // Exactly once, and crash equivalence: the weights are those of a run without crashes in one process.
  if (applied.weights_hash != reference_.hash_after(commit.iteration, applied.stage))
    broken(id, "stage " + to_string(applied.stage) + " after iteration " + to_string(commit.iteration) +
                   " differs from the undisturbed run");
  wire::Commit decision = commit;
  decision.next = {};
  wire::Ledger holder;
  holder.recent = {decision};
  const auto hash = checksum64(wire::encode_ledger(holder));
  const auto [at, added] = commits_.try_emplace({commit.epoch, commit.iteration}, hash);
  if (!added && at->second != hash) broken(id, "two commits for iteration " + to_string(commit.iteration));
}

void Checker::after_event(NodeId id, const swarm::Node& node) {
  auto& seen = seen_[id];
  const auto& context = node.context();
  if (node.incarnation() != seen.incarnation) seen = {0, 0, node.incarnation()};
  if (const auto* raft = node.raft()) {
    if (raft->term() < seen.term) broken(id, "a voter's term went back");
    seen.term = raft->term();
    if (raft->ledger().index < seen.index) broken(id, "a voter's log went back");
    seen.index = raft->ledger().index;
  }
  const int most_slots = context.options.slots + static_cast<int>(run_.microbatches);
  if (node.pipeline().slots_used() > most_slots) broken(id, "more slots in use than microbatches");
  if (node.pipeline().slots_used() < 0) broken(id, "a slot was released twice");
  if (node.pipeline().kept_bytes() > std::uint64_t{4} * 8 * 2 * run_.microbatches)
    broken(id, "more payloads kept than one iteration has");
}

}  // namespace tributary::sim
