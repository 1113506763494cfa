#include "swarm/node.h"

#include <algorithm>
#include <utility>

namespace tributary::swarm {

Node::Node(const NodeOptions& options, const wire::DurableLog& log, Time now, PlantedBugs bugs)
    : context_(options, bugs), pipeline_(context_), reduction_(context_, pipeline_), sync_(context_, reduction_) {
  context_.now = now;
  const auto& voters = options.run.voters;
  if (std::find(voters.begin(), voters.end(), options.self) != voters.end()) {
    RaftOptions raft{.self = options.self, .voters = voters};
    raft.commit_alone = bugs.apply_before_commit;
    raft_.emplace(raft, log, Random(mix64(options.seed, options.self.value())), now);
    sequencer_.emplace(context_, *raft_);
    sequencer_->deliver = [this](NodeId to, wire::Body body) { deliver(to, std::move(body)); };
  }
  pipeline_.wants_fold = [this](std::uint32_t key) { return reduction_.wants(key); };
  pipeline_.on_change = [this] { report_due_ = true; };
  reduction_.on_change = [this] { report_due_ = true; };
  hello_at_ = now;
  inventory_.insert(options.checkpoints.begin(), options.checkpoints.end());
}

void Node::handle(Time now, const Event& event, std::vector<Effect>& effects) {
  if (phase_ == Phase::kGone) return;
  context_.now = now;
  context_.effects = &effects;
  dispatch(event);
  settle();
  context_.effects = nullptr;
}

void Node::dispatch(const Event& event) {
  if (const auto* received = std::get_if<Received>(&event)) {
    if (context_.detector.heard(context_.now, received->from)) ++context_.counters.false_suspicions;
    receive(received->from, received->message);
  } else if (const auto* computed = std::get_if<Computed>(&event)) {
    context_.computed(computed->result);
  } else if (const auto* stored = std::get_if<Stored>(&event)) {
    if (raft_) raft_->stored(context_.now, stored->sequence);
  } else if (const auto* up = std::get_if<PeerUp>(&event)) {
    context_.detector.heard(context_.now, up->peer);
  } else if (const auto* down = std::get_if<PeerDown>(&event)) {
    context_.detector.lost(down->peer);
    peer_lost(down->peer);
  } else if (std::holds_alternative<HaltAsked>(event)) {
    if (sequencer_) sequencer_->halt();
  } else if (std::holds_alternative<LeaveAsked>(event)) {
    leaving_ = true;
    phase_ == Phase::kOutside ? leave_now() : to_leader(wire::Leave{context_.incarnation});
  }
  if (phase_ != Phase::kGone) tick();
}

// Runs until nothing more follows from the event: messages to this node itself, the log's progress, the leader's view.
void Node::settle() {
  for (int round = 0; round < 64 && phase_ != Phase::kGone; ++round) {
    while (!local_.empty() && phase_ != Phase::kGone) {
      auto [from, body] = std::move(local_.front());
      local_.pop_front();
      receive(from, {std::move(body), nullptr});
    }
    if (raft_) {
      if (raft_->take_dirty()) context_.effects->push_back(StoreLog{raft_->store_sequence(), raft_->durable()});
      for (auto& [to, body] : raft_->take_messages()) context_.send(to, std::move(body));
      if (raft_->leader() != wire::kNobody) context_.leader = raft_->leader();
      follow(raft_->ledger());
      sequencer_->evaluate();
      if (!sequencer_->fatal().empty() && phase_ != Phase::kGone) {
        phase_ = Phase::kGone;
        context_.effects->push_back(Exit{ExitReason::kStopped, sequencer_->fatal()});
      }
    }
    reduction_.advance();
    pipeline_.pump();
    if (report_due_ && phase_ != Phase::kOutside && phase_ != Phase::kGone) report_now();
    if (local_.empty() && !(raft_ && raft_->pending() && raft_->ledger().index > latest_.index)) break;
  }
  if (phase_ != Phase::kGone) {
    finish();
    watch_peers();
  }
}

// --- Messages --------------------------------------------------------------------------------------------------------

void Node::deliver(NodeId to, wire::Body body) {
  if (to == context_.options.self) {
    local_.emplace_back(to, std::move(body));
  } else {
    context_.send(to, std::move(body));
  }
}

void Node::to_leader(wire::Body body) {
  auto to = context_.leader;
  if (to == wire::kNobody) {
    const auto& voters = context_.options.run.voters;
    to = voters[hello_turn_++ % voters.size()];
    if (to == context_.options.self && voters.size() > 1) to = voters[hello_turn_++ % voters.size()];
  }
  deliver(to, std::move(body));
}

template <class T>
void Node::receive_stamped(NodeId from, const T& body, const wire::Message& message) {
  const auto own = context_.stamp();
  const bool taking_part = phase_ == Phase::kWorking || phase_ == Phase::kListening;
  const bool epoch_fits = body.stamp.epoch == own.epoch || context_.bugs.skip_epoch_check;
  if (taking_part && epoch_fits && body.stamp.iteration == own.iteration) {
    if constexpr (std::is_same_v<T, wire::Orders>) {
      on(from, body);
    } else if constexpr (std::is_same_v<T, wire::Want>) {
      pipeline_.receive(from, body);
    } else if constexpr (std::is_same_v<T, wire::Partial> || std::is_same_v<T, wire::Gathered>) {
      reduction_.receive(from, body, message.payload);
    } else {
      pipeline_.receive(from, body, message.payload);
    }
  } else if (body.stamp > own || (body.stamp == own && phase_ == Phase::kLoading)) {
    if (early_.size() < kMostEarly) {
      ++context_.counters.early;
      early_.emplace_back(from, message);
    } else {
      ++context_.counters.dropped;
    }
  } else {
    ++context_.counters.dropped;
  }
}

void Node::receive(NodeId from, const wire::Message& message) {
  std::visit(
      [&](const auto& body) {
        using T = std::decay_t<decltype(body)>;
        if constexpr (std::is_same_v<T, wire::VoteRequest> || std::is_same_v<T, wire::VoteReply> ||
                      std::is_same_v<T, wire::AppendRequest> || std::is_same_v<T, wire::AppendReply>) {
          if (raft_) raft_->receive(context_.now, from, body);
        } else if constexpr (std::is_same_v<T, wire::Ping>) {
          context_.send(from, wire::Pong{body.nonce, context_.tasks_done(), context_.stuck()});
        } else if constexpr (std::is_same_v<T, wire::Pong>) {
          const auto sent = Time(Duration(static_cast<std::int64_t>(body.nonce)));
          if (sent <= context_.now && context_.now - sent < seconds(60))
            context_.detector.sample(context_.now, from, context_.now - sent);
          if (body.stuck && sequencer_) sequencer_->stuck(from);
        } else if constexpr (std::is_same_v<T, wire::WantResult>) {
          if (body.stamp.epoch == context_.ledger.epoch) reduction_.receive(from, body);
        } else if constexpr (std::is_same_v<T, wire::WantState>) {
          sync_.serve(from, body, holding_ && !applying_, stage_, holding_ ? size_of(stage_) : 0);
        } else if constexpr (std::is_same_v<T, wire::StateChunk>) {
          sync_.receive(from, body, message.payload);
        } else if constexpr (std::is_same_v<T, wire::NoState>) {
          sync_.receive(from, body);
        } else if constexpr (std::is_same_v<T, wire::LedgerUpdate> || std::is_same_v<T, wire::HelloReply> ||
                             std::is_same_v<T, wire::Hello> || std::is_same_v<T, wire::Report> ||
                             std::is_same_v<T, wire::Leave>) {
          on(from, body);
        } else if constexpr (!std::is_same_v<T, wire::Addresses>) {
          receive_stamped(from, body, message);
        }
      },
      message.body);
}

void Node::on(NodeId from, const wire::Orders& orders) {
  if (orders.term < context_.term) {
    ++context_.counters.stale_orders;
    return;
  }
  context_.term = std::max(context_.term, orders.term);
  context_.leader = from;
  if (!reduction_.receive(orders)) return;
  // Replaced, not added to: a new leader may know better than the one before.
  const auto before = std::exchange(context_.dead, {orders.dead.begin(), orders.dead.end()});
  for (const auto node : orders.dead)
    if (!before.contains(node) && node != context_.options.self) peer_lost(node);
  if (phase_ == Phase::kWorking)
    for (const auto& assignment : orders.assignments) pipeline_.assign(assignment);
  reduction_.advance();
  report_due_ = true;
}

void Node::on(NodeId from, const wire::LedgerUpdate& update) {
  if (update.term >= context_.term) {
    context_.term = update.term;
    context_.leader = from;
  }
  follow(update.ledger);
  if (phase_ != Phase::kOutside) report_due_ = true;
}

void Node::on(NodeId from, const wire::HelloReply& reply) {
  if (!reply.refusal.empty()) {
    phase_ = Phase::kGone;
    context_.effects->push_back(Exit{ExitReason::kRefused, reply.refusal});
    return;
  }
  if (reply.expired) {
    if (reply.incarnation == context_.incarnation) rejoin();
    return;
  }
  if (reply.leader == wire::kNobody || reply.leader == context_.leader || reply.leader == from) return;
  context_.leader = reply.leader;
  report_due_ = true;
  hello_at_ = context_.now;
}

void Node::on(NodeId from, const wire::Hello& hello) {
  if (leading()) {
    sequencer_->hello(from, hello);
  } else if (raft_ && from != context_.options.self) {
    context_.send(from, wire::HelloReply{raft_->leader(), {}, false, {}});
  }
}

void Node::on(NodeId from, const wire::Report& report) {
  if (leading()) {
    sequencer_->report(from, report);
  } else if (raft_ && from != context_.options.self) {
    context_.send(from, wire::HelloReply{raft_->leader(), {}, false, {}});
  }
}

void Node::on(NodeId from, const wire::Leave& leave) {
  if (leading()) sequencer_->leave(from, leave);
}

void Node::peer_lost(NodeId peer) {
  if (peer == context_.leader && !raft_) context_.leader = wire::kNobody;
  pipeline_.peer_lost(peer);
  reduction_.peer_lost(peer);
  sync_.peer_lost(peer);
}

// --- Following the log -----------------------------------------------------------------------------------------------

const wire::Commit* Node::commit_of(Iteration iteration) const {
  for (const auto& commit : latest_.recent)
    if (commit.iteration == iteration) return &commit;
  return nullptr;
}

void Node::follow(const wire::Ledger& ledger) {
  if (ledger.index <= latest_.index) return;
  latest_ = ledger;
  if (latest_.epoch == 0) return;
  if (latest_.epoch != context_.ledger.epoch || phase_ == Phase::kOutside) return enter_epoch();
  if (phase_ != Phase::kWorking && phase_ != Phase::kListening) return;
  if (latest_.iteration > context_.ledger.iteration) return pursue_commit();
  if (latest_.iteration != context_.ledger.iteration) return;
  const bool grown = latest_.excluded.size() > context_.ledger.excluded.size();
  context_.ledger = latest_;
  if (grown) {
    context_.counters.excluded += 1;
    pipeline_.drop_excluded();
    reduction_.drop_results();
    report_due_ = true;
  }
}

// Also for a node outside that sees the ledger move: perhaps there is a place for it now.
void Node::enter_epoch() {
  if (latest_.epoch != context_.ledger.epoch) {
    if (context_.ledger.epoch != 0 && phase_ != Phase::kOutside) ++context_.counters.rewinds;
    context_.reset_tasks();
    pipeline_.begin(false, StageId(0));
    reduction_.reset();
    sync_.reset();
    holding_ = applying_ = false;
    saved_ = {};
    phase_ = Phase::kOutside;
  }
  context_.ledger = latest_;
  context_.dead.clear();
  const auto* self = member_of(latest_.plan, context_.options.self);
  if (!self || self->incarnation != context_.incarnation) {
    if (leaving_) leave_now();
    return;
  }
  stage_ = self->stage;
  if (self->listener) {
    Task task;
    task.kind = TaskKind::kInit;
    task.stage = stage_;
    context_.run(task, nullptr);
    ++context_.counters.joins;
    phase_ = Phase::kListening;
    sync_.begin(stage_, size_of(stage_));
    begin_iteration();
    return;
  }
  if (latest_.iteration != latest_.checkpoint) return rejoin();  // the epoch went on without this node
  phase_ = Phase::kLoading;
  Task task;
  task.kind = latest_.checkpoint == Iteration(0) ? TaskKind::kInit : TaskKind::kLoad;
  task.stage = stage_;
  task.iteration = latest_.checkpoint;
  context_.run(task, [this](const TaskResult& result) { loaded(result); });
}

void Node::loaded(const TaskResult& result) {
  if (!result.ok) return rejoin();
  holding_ = true;
  weights_hash_ = result.hash;
  phase_ = Phase::kWorking;
  if (latest_.epoch != context_.ledger.epoch) return enter_epoch();
  begin_iteration();
}

// One link of the stage ahead an iteration, the one whose measure is oldest: else a relay that came back, first
// measured while it was busy starting, would look far away for ever and get no work.
void Node::probe_a_link() {
  const StageId ahead(static_cast<std::uint16_t>((stage_.value() + 1u) % (context_.stages() + 1u)));
  NodeId oldest = wire::kNobody;
  for (const auto& member : context_.ledger.plan.members) {
    if (member.stage != ahead || member.node == context_.options.self || !context_.reachable(member.node)) continue;
    if (oldest == wire::kNobody || context_.detector.sampled(member.node) < context_.detector.sampled(oldest))
      oldest = member.node;
  }
  if (oldest != wire::kNobody)
    context_.send(oldest, wire::Ping{static_cast<std::uint64_t>(context_.now.time_since_epoch().count())});
}

void Node::begin_iteration() {
  context_.iteration_begins();
  probe_a_link();
  if (latest_.iteration == context_.ledger.iteration) context_.ledger = latest_;
  context_.dead.clear();
  fetch_at_ = kNever;
  fetch_tries_ = 0;
  report_due_ = true;
  const bool behind = latest_.iteration > context_.ledger.iteration;
  reduction_.begin(stage_, size_of(stage_));
  if (behind || run_over()) {
    pipeline_.begin(false, stage_);
    if (run_over()) {
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
  pipeline_.begin(!self->listener, stage_);
  auto early = std::exchange(early_, {});
  for (auto& [from, message] : early) receive(from, message);
}

// The ledger is past this iteration. Takes the step once the committed result is here.
void Node::pursue_commit() {
  if (applying_) return;
  const auto* commit = commit_of(context_.ledger.iteration);
  if (!commit || stage_.value() >= commit->results.size()) return rejoin();
  const auto& wanted = commit->results[stage_.value()];
  const bool mismatch = reduction_.complete() && reduction_.hash() != wanted.hash;
  if (!reduction_.complete() || mismatch) {
    // Ranges may still be on their way to a listener; afterwards it asks.
    if (fetch_at_ == kNever)
      fetch_at_ = mismatch
                      ? context_.now
                      : context_.now + 2 * context_.detector.round_trip(wanted.source) + context_.options.pace.report;
    if (context_.now < fetch_at_) return;
    std::vector<NodeId> sources = {wanted.source};
    for (const auto& member : latest_.plan.members)
      if (member.stage == stage_ && !member.listener) sources.push_back(member.node);
    std::erase(sources, context_.options.self);
    if (sources.empty()) return rejoin();
    fetch_at_ = context_.now + context_.options.pace.retry_first;
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
  reduction_.keep(commit.iteration);
  if (holding_) context_.effects->push_back(Applied{commit, stage_, weights_hash});
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
    if (!result.ok) return;
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
  context_.reset_tasks();
  pipeline_.begin(false, StageId(0));
  reduction_.reset();
  sync_.reset();
  holding_ = applying_ = false;
  early_.clear();
  fetch_at_ = kNever;
  phase_ = Phase::kOutside;
  hello_at_ = context_.now;
}

void Node::leave_now() {
  phase_ = Phase::kGone;
  context_.effects->push_back(Exit{ExitReason::kLeft, {}});
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
  context_.effects->push_back(Exit{latest_.halted ? ExitReason::kHalted : ExitReason::kFinished, {}});
}

// --- Time ------------------------------------------------------------------------------------------------------------

void Node::tick() {
  if (raft_) raft_->tick(context_.now);
  for (const auto peer : context_.detector.newly_suspected(context_.now)) peer_lost(peer);
  for (const auto peer : context_.detector.due_pings(context_.now))
    context_.send(peer, wire::Ping{static_cast<std::uint64_t>(context_.now.time_since_epoch().count())});
  if (phase_ == Phase::kWorking || phase_ == Phase::kListening) {
    pipeline_.tick();
    reduction_.tick();
    sync_.tick();
    if (phase_ == Phase::kListening && sync_.complete() && !applying_) {
      holding_ = true;
      sync_.stop();
      report_due_ = true;
    }
    if (latest_.epoch == context_.ledger.epoch && latest_.iteration > context_.ledger.iteration) pursue_commit();
  }
  if (phase_ == Phase::kOutside && context_.now >= hello_at_) say_hello();
  if (phase_ != Phase::kOutside && context_.now >= report_at_ + context_.options.pace.report) report_due_ = true;
}

void Node::say_hello() {
  hello_at_ = context_.now + context_.options.pace.report;
  wire::Hello hello;
  hello.incarnation = context_.incarnation;
  hello.slots = context_.options.slots;
  hello.data_node = context_.options.data_node;
  hello.configuration_hash = context_.options.run.hash;
  hello.stage = context_.options.data_node ? StageId(0) : context_.options.stage;
  hello.any_stage = context_.options.any_stage;
  hello.shared_disk = context_.options.shared_disk;
  hello.checkpoints.assign(inventory_.begin(), inventory_.end());
  to_leader(std::move(hello));
}

wire::Report Node::make_report() const {
  wire::Report report;
  report.stamp = context_.stamp();
  report.ledger_index = latest_.index;
  report.incarnation = context_.incarnation;
  report.stage = stage_;
  report.ready = holding_;
  if (phase_ == Phase::kWorking || phase_ == Phase::kListening) {
    pipeline_.fill(report);
    reduction_.fill(report);
  }
  report.weights_hash = weights_hash_;
  report.saved = saved_;
  report.shared_disk = context_.options.shared_disk;
  for (auto at = inventory_.rbegin(); at != inventory_.rend() && report.checkpoints.size() < 8; ++at)
    if (at->stage == stage_) report.checkpoints.push_back(*at);
  const auto forward = context_.forward_time();
  report.forward_us = static_cast<std::uint32_t>(std::min<std::int64_t>(0xffffffff, forward.count() / 1000));
  for (const auto& member : context_.ledger.plan.members) {
    const bool next =
        member.stage.value() == stage_.value() + 1 || (member.stage == StageId(0) && stage_ != StageId(0));
    const auto round_trip = context_.detector.link_delay(member.node);
    if (next && round_trip > Duration::zero())
      report.links.push_back({member.node, static_cast<std::uint32_t>(round_trip.count() / 1000)});
  }
  report.repairs = context_.counters.repairs;
  return report;
}

void Node::report_now() {
  report_due_ = false;
  report_at_ = context_.now;
  if (leaving_) to_leader(wire::Leave{context_.incarnation});
  to_leader(make_report());
}

void Node::watch_peers() {
  std::set<NodeId> peers;
  pipeline_.add_awaited(peers);
  reduction_.add_awaited(peers);
  sync_.add_awaited(peers);
  if (leading()) sequencer_->add_watched(peers);
  if (context_.leader != wire::kNobody) peers.insert(context_.leader);
  // Suspects that the leader believes alive are probed, or a moment's silence would cut them off for good.
  for (const auto node : context_.suspects())
    if (!context_.dead.contains(node)) peers.insert(node);
  peers.erase(context_.options.self);
  peers.erase(wire::kNobody);
  context_.detector.watch(context_.now, peers);
}

Time Node::next_wake() const {
  if (phase_ == Phase::kGone) return kNever;
  Time wake = context_.detector.next_wake();
  if (raft_) wake = std::min(wake, raft_->next_wake());
  if (sequencer_) wake = std::min(wake, sequencer_->next_wake());
  if (phase_ == Phase::kOutside) return std::min(wake, hello_at_);
  wake = std::min({wake, pipeline_.next_wake(), reduction_.next_wake(), report_at_ + context_.options.pace.report});
  if (fetch_at_ != kNever) wake = std::min(wake, fetch_at_);
  // Never a spin, whatever a part believes to be due.
  return std::max(wake, context_.now + milliseconds(1));
}

std::string Node::describe() const {
  static constexpr const char* kPhases[] = {"outside", "loading", "listening", "working", "finishing", "gone"};
  std::string out = "node " + to_string(context_.options.self) + " incarnation " + to_string(context_.incarnation) +
                    " " + kPhases[static_cast<int>(phase_)] + " stage " + to_string(stage_) + " epoch " +
                    std::to_string(context_.ledger.epoch) + " iteration " + to_string(context_.ledger.iteration) +
                    (holding_ ? " holding" : "") + (applying_ ? " applying" : "") + (leading() ? " leading" : "") +
                    " follows node " + to_string(context_.leader) + ", log at " + std::to_string(latest_.index) +
                    " (iteration " + to_string(latest_.iteration) + ")\n";
  if (phase_ != Phase::kWorking && phase_ != Phase::kListening) return out;
  return out + pipeline_.describe() + reduction_.describe();
}

std::string Node::why_waiting() const {
  if (sequencer_ && leading() && !sequencer_->waiting_for().empty()) return sequencer_->waiting_for();
  if (phase_ == Phase::kOutside)
    return context_.leader == wire::kNobody ? "no leader found yet" : "a place in the plan";
  return {};
}

}  // namespace tributary::swarm
