// How a node follows the log: into an epoch, from iteration to iteration by the commits, out of the plan and back, to
// the end of the run.
#include <algorithm>
#include <utility>

#include "swarm/node.h"

namespace tributary::swarm {

const wire::Commit* Node::commit_of(Iteration iteration) const {
  for (const auto& commit : latest_.recent)
    if (commit.iteration == iteration) return &commit;
  return nullptr;
}

void Node::follow(const wire::Ledger& ledger) {
  if (ledger.index <= latest_.index) return;
  latest_ = ledger;
  follow_latest();
}

void Node::follow_latest() {
  if (latest_.epoch == 0) return;
  if (latest_.epoch != context_.ledger.epoch || phase_ == Phase::kOutside) return enter_epoch();
  if (phase_ != Phase::kWorking && phase_ != Phase::kListening) return;
  if (latest_.iteration > context_.ledger.iteration) return pursue_commit();
  if (latest_.iteration != context_.ledger.iteration) return;
  const bool grown = latest_.excluded.size() > context_.ledger.excluded.size();
  std::vector<NodeId> reborn;
  auto now = latest_.plan.members.begin();
  for (const auto& member : context_.ledger.plan.members) {
    while (now != latest_.plan.members.end() && now->node < member.node) ++now;
    const bool there = now != latest_.plan.members.end() && now->node == member.node;
    if (there && now->incarnation != member.incarnation && member.node != context_.options.self)
      reborn.push_back(member.node);
  }
  // Within an iteration only its members and what is excluded change.
  context_.ledger.index = latest_.index;
  context_.ledger.plan.members = latest_.plan.members;
  context_.ledger.excluded = latest_.excluded;
  context_.ledger.halted = latest_.halted;
  context_.ledger.checkpoints = latest_.checkpoints;
  ++context_.changes;
  // What the former life had is gone, and what was sent to it too.
  for (const auto node : reborn) peer_lost(node);
  if (grown) {
    context_.counters.excluded += 1;
    pipeline_.drop_excluded();
    reduction_.drop_results();
    report_due_ = true;
  }
  const auto* self = member_of(latest_.plan, context_.options.self);
  const bool full = self && self->incarnation == context_.incarnation && !self->listener;
  if (full && holding_ && phase_ == Phase::kListening) take_part();
}

// A listener that has caught up within the iteration.
void Node::take_part() {
  ++context_.counters.promoted;
  ++context_.changes;
  phase_ = Phase::kWorking;
  evaluation_.begin(true, stage_);
  pipeline_.begin(true, stage_);
  report_due_ = true;
  auto early = std::exchange(early_, {});
  for (auto& [from, message] : early) receive(from, message);
}

void Node::drop_work() {
  context_.reset_tasks();
  evaluation_.begin(false, StageId(0));
  pipeline_.begin(false, StageId(0));
  routing_.begin(false, StageId(0));
  reduction_.reset();
  sync_.reset();
  holding_ = applying_ = false;
}

// Also for a node outside that sees the ledger move: perhaps there is a place for it now.
void Node::enter_epoch() {
  if (latest_.epoch != context_.ledger.epoch) {
    if (context_.ledger.epoch != 0 && phase_ != Phase::kOutside) ++context_.counters.rewinds;
    drop_work();
    saved_ = {};
    phase_ = Phase::kOutside;
  }
  context_.ledger = latest_;
  context_.dead.clear();
  ++context_.changes;
  const auto* self = member_of(latest_.plan, context_.options.self);
  if (!self || self->incarnation != context_.incarnation) {
    if (leaving_) leave_now();
    return;
  }
  stage_ = self->stage;
  if (self->listener) {
    ++context_.counters.joins;
    return listen();
  }
  if (latest_.iteration != latest_.checkpoint) return rejoin();  // the epoch went on without this node
  phase_ = Phase::kLoading;
  Task task;
  task.kind = latest_.checkpoint == Iteration(0) ? TaskKind::kInit : TaskKind::kLoad;
  task.stage = stage_;
  task.iteration = latest_.checkpoint;
  context_.run(task, [this](const TaskResult& result) { loaded(result); });
}

// Begins to fetch the stage's state, beside the others' training.
void Node::listen() {
  Task task;
  task.kind = TaskKind::kInit;
  task.stage = stage_;
  context_.run(task, nullptr);
  phase_ = Phase::kListening;
  sync_.begin(stage_, size_of(stage_));
  begin_iteration();
}

// The plan gives this relay another stage. What it held of the former one, the others of that stage hold too.
void Node::move_to(StageId stage) {
  ++context_.counters.moved;
  drop_work();
  saved_ = {};
  stage_ = stage;
  context_.ledger = latest_;
  listen();
}

void Node::loaded(const TaskResult& result) {
  if (!result.ok) return rejoin();
  holding_ = true;
  weights_hash_ = result.hash;
  phase_ = Phase::kWorking;
  if (latest_.epoch != context_.ledger.epoch) return enter_epoch();
  begin_iteration();
}

// Links are measured with a ping each: those never measured, so that the leader can tell whether a relay would do
// better in another stage; and two an iteration again, that of the stage ahead and that of all whose measure is oldest:
// else a relay that came back, first measured while it was busy starting, would look far away for ever and get no work.
void Node::probe_links() {
  constexpr std::size_t kMostNew = 16;  // an iteration
  const StageId ahead(static_cast<std::uint16_t>((stage_.value() + 1u) % (context_.stages() + 1u)));
  std::set<NodeId> probed;
  NodeId oldest = wire::kNobody, oldest_ahead = wire::kNobody;
  const auto older = [&](NodeId node, NodeId than) {
    return than == wire::kNobody || context_.detector.sampled(node) < context_.detector.sampled(than);
  };
  for (const auto& member : context_.ledger.plan.members) {
    if (member.node == context_.options.self || !context_.reachable(member.node)) continue;
    if (context_.detector.sampled(member.node) == Time::min() && probed.size() < kMostNew) probed.insert(member.node);
    if (older(member.node, oldest)) oldest = member.node;
    if (member.stage == ahead && older(member.node, oldest_ahead)) oldest_ahead = member.node;
  }
  probed.insert({oldest, oldest_ahead});
  probed.erase(wire::kNobody);
  for (const auto node : probed)
    context_.send(node, wire::Ping{static_cast<std::uint64_t>(context_.now.time_since_epoch().count())});
}

void Node::begin_iteration() {
  context_.iteration_begins();
  ++context_.changes;
  if (latest_.iteration == context_.ledger.iteration) context_.ledger = latest_;
  probe_links();
  context_.dead.clear();
  fetch_at_ = kNever;
  fetch_tries_ = 0;
  sourceless_since_.reset();
  report_due_ = true;
  const bool behind = latest_.iteration > context_.ledger.iteration;
  if (const auto* place = member_of(latest_.plan, context_.options.self);
      place && place->incarnation == context_.incarnation && place->listener && place->stage != stage_ && !run_over())
    return move_to(place->stage);
  reduction_.begin(stage_, size_of(stage_));
  if (behind || run_over()) {
    evaluation_.begin(false, stage_);
    pipeline_.begin(false, stage_);
    if (run_over()) {
      routing_.begin(false, stage_);
      phase_ = Phase::kFinishing;
      if (sequencer_) sequencer_->finishing();
    }
    if (behind) pursue_commit();
    return;
  }
  const auto* self = member_of(context_.ledger.plan, context_.options.self);
  if (!self || self->incarnation != context_.incarnation) {
    return leaving_ ? leave_now() : rejoin();
  }
  if (!self->listener && !holding_) return rejoin();
  phase_ = self->listener ? Phase::kListening : Phase::kWorking;
  evaluation_.begin(!self->listener, stage_);
  pipeline_.begin(!self->listener, stage_);
  routing_.begin(!self->listener, stage_);
  auto early = std::exchange(early_, {});
  for (auto& [from, message] : early) receive(from, message);
}

// Who may have the committed result of the iteration before the newest plan: its full members, and who has left since.
std::vector<NodeId> Node::result_sources(NodeId named) const {
  std::vector<NodeId> sources;
  const auto* member = member_of(latest_.plan, named);
  if (!member || !member->listener) sources.push_back(named);
  for (const auto& other : latest_.plan.members)
    if (other.stage == stage_ && !other.listener && other.node != named) sources.push_back(other.node);
  std::erase_if(sources,
                [&](NodeId node) { return node == context_.options.self || context_.detector.suspected(node); });
  return sources;
}

// The ledger is past this iteration. Takes the step once the committed result is here.
void Node::pursue_commit() {
  if (applying_) return;
  const auto* commit = commit_of(context_.ledger.iteration);
  if (!commit || stage_.value() >= commit->results.size()) return rejoin();
  const auto& wanted = commit->results[stage_.value()];
  const bool mismatch = reduction_.complete() && reduction_.hash() != wanted.hash;
  if (!reduction_.complete() || mismatch) {
    // Ranges may still be on their way to a listener; when no more come, it asks.
    if (fetch_at_ == kNever)
      fetch_at_ = mismatch
                      ? context_.now
                      : context_.now + 2 * context_.detector.round_trip(wanted.source) + context_.options.pace.report;
    if (context_.now < fetch_at_) return;
    if (!mismatch && context_.now < reduction_.silent_from()) {
      fetch_at_ = reduction_.silent_from();
      return;
    }
    const auto sources = result_sources(wanted.source);
    const auto& pace = context_.options.pace;
    if (sources.empty()) {
      // Silence may end. If it does not, this stage's result has died with its holders.
      if (!sourceless_since_) sourceless_since_ = context_.now;
      if (context_.now >= *sourceless_since_ + 2 * pace.retry_first) return rejoin();
      fetch_at_ = context_.now + pace.report;
      return;
    }
    sourceless_since_.reset();
    fetch_at_ = context_.now + pace.retry_first;
    reduction_.fetch(sources[fetch_tries_++ % sources.size()]);
    return;
  }
  applying_ = true;
  const StepParameters step{commit->learning_rate, commit->gradient_scale, commit->iteration.value() + 1};
  if (!holding_) {
    sync_.apply(*commit, step);
    context_.after_tasks([this, commit = *commit] { applied(commit, 0); });
    return;
  }
  Task task;
  task.kind = TaskKind::kApply;
  task.stage = stage_;
  task.iteration = commit->iteration;
  task.range = {0, size_of(stage_)};
  task.step = step;
  context_.run(task, [this, commit = *commit](const TaskResult& result) { applied(commit, result.hash); });
}

void Node::applied(const wire::Commit& commit, std::uint64_t weights_hash) {
  applying_ = false;
  weights_hash_ = weights_hash;
  const bool next_known = latest_.epoch == commit.epoch && latest_.iteration.value() == commit.iteration.value() + 1;
  reduction_.keep(commit.iteration, next_known ? latest_.plan : wire::Plan{});
  if (holding_) context_.effects->emplace_back(Applied{commit, stage_, weights_hash});
  if (commit.iteration >= Iteration(2)) {
    Task task;
    task.kind = TaskKind::kForget;
    task.stage = stage_;
    task.iteration = Iteration(commit.iteration.value() - 2);
    context_.run(task, nullptr);
  }
  context_.ledger.iteration = Iteration(commit.iteration.value() + 1);
  context_.ledger.excluded.clear();
  context_.ledger.plan = latest_.plan;
  context_.ledger.halted = commit.halt;
  save_if_due();
  begin_iteration();
}

void Node::save_if_due() {
  const auto done = context_.ledger.iteration.value();
  const auto every = context_.options.run.checkpoint_every;
  if (!holding_ || !(run_over() || (every > 0 && done % every == 0))) return;
  Task task;
  task.kind = TaskKind::kSave;
  task.stage = stage_;
  task.iteration = context_.ledger.iteration;
  context_.run(task, [this, iteration = context_.ledger.iteration](const TaskResult& result) {
    if (!result.ok) {
      // The next one is due before long; but after the last iteration nobody may end without it.
      if (run_over()) save_again_at_ = context_.now + context_.options.pace.retry_floor;
      return;
    }
    saved_ = iteration;
    inventory_.insert({stage_, iteration});
    while (inventory_.size() > kMostSaved) inventory_.erase(inventory_.begin());
    report_due_ = true;
  });
}

// Declared dead, or too far behind: everything of the old life is dropped, and the node asks for a place anew.
void Node::rejoin() {
  ++context_.counters.rejoins;
  context_.incarnation = Incarnation(context_.incarnation.value() + 1);
  drop_work();
  early_.clear();
  fetch_at_ = save_again_at_ = kNever;
  phase_ = Phase::kOutside;
  hello_at_ = context_.now;
}

void Node::leave_now() {
  phase_ = Phase::kGone;
  context_.exit(ExitReason::kLeft, "");
}

// Everything is done and saved, and so says the log.
void Node::finish() {
  const bool over = latest_.halted || latest_.iteration.value() >= context_.options.run.iterations;
  if (!over || latest_.epoch == 0 || latest_.checkpoints.empty() || latest_.checkpoints.back() != latest_.iteration)
    return;
  // A process that resumes a halted run finds this in its log, and waits for the next epoch.
  const bool resumed = latest_.halted && phase_ != Phase::kFinishing;
  if (resumed || (leading() && !sequencer_->may_exit())) return;
  if (!leading() && phase_ != Phase::kOutside) to_leader(make_report());
  phase_ = Phase::kGone;
  context_.exit(latest_.halted ? ExitReason::kHalted : ExitReason::kFinished, "");
}

}  // namespace tributary::swarm
