#include "swarm/node.h"

#include <algorithm>
#include <utility>

namespace tributary::swarm {
namespace {

// Gives only Raft, the sequencer or the detector something to do.
bool is_quiet(const wire::Body& body) {
  return std::visit(
      [](const auto& message) {
        using T = std::decay_t<decltype(message)>;
        return std::is_same_v<T, wire::Ping> || std::is_same_v<T, wire::Pong> || std::is_same_v<T, wire::VoteRequest> ||
               std::is_same_v<T, wire::VoteReply> || std::is_same_v<T, wire::AppendRequest> ||
               std::is_same_v<T, wire::AppendReply> || std::is_same_v<T, wire::Report> ||
               std::is_same_v<T, wire::Hello> || std::is_same_v<T, wire::Leave> || std::is_same_v<T, wire::Addresses> ||
               std::is_same_v<T, wire::Routing>;
      },
      body);
}

bool is_quiet(const Event& event) {
  if (const auto* received = std::get_if<Received>(&event)) return is_quiet(received->message.body);
  return std::holds_alternative<Woken>(event) || std::holds_alternative<Stored>(event) ||
         std::holds_alternative<LinkMeasured>(event) || std::holds_alternative<PeerUp>(event);
}

}  // namespace

Node::Node(const NodeOptions& options, const wire::DurableLog& log, Time now, PlantedBugs bugs)
    : context_(options, bugs),
      evaluation_(context_),
      pipeline_(context_),
      reduction_(context_, pipeline_),
      sync_(context_, reduction_),
      routing_(context_) {
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
  pipeline_.on_change = [this] {
    report_due_ = true;
    reduction_.touch();
  };
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
  busy_ = !is_quiet(event);
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
  } else if (const auto* link = std::get_if<LinkMeasured>(&event)) {
    context_.detector.measured(link->peer, link->bytes_per_s);
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
        context_.exit(ExitReason::kStopped, sequencer_->fatal());
      }
    }
    if (view() != seen_view_) {
      busy_ = true;
      reduction_.touch();
      seen_view_ = view();
    }
    reduction_.advance();
    pipeline_.pump();
    if (report_due_ && phase_ != Phase::kOutside && phase_ != Phase::kGone) report_now();
    if (local_.empty() && !(raft_ && raft_->pending() && raft_->ledger().index > latest_.index)) break;
  }
  if (phase_ != Phase::kGone) {
    finish();
    watch_peers();
    if (busy_) find_work_wake();
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
  constexpr bool kForWorkers =
      std::is_same_v<T, wire::Forward> || std::is_same_v<T, wire::Backward> || std::is_same_v<T, wire::Want>;
  // Others may learn before this node that it takes part now.
  const bool about_to_work = kForWorkers && phase_ == Phase::kListening && holding_;
  if (taking_part && epoch_fits && body.stamp.iteration == own.iteration && !about_to_work) {
    if constexpr (std::is_same_v<T, wire::Orders>) {
      on(from, body);
    } else if constexpr (std::is_same_v<T, wire::Want>) {
      pipeline_.receive(from, body);
    } else if constexpr (std::is_same_v<T, wire::Evaluate>) {
      evaluation_.receive(from, body, message.payload);
    } else if constexpr (std::is_same_v<T, wire::Partial> || std::is_same_v<T, wire::Gathered>) {
      reduction_.receive(from, body, message.payload);
    } else {
      pipeline_.receive(from, body, message.payload);
    }
  } else if (body.stamp > own || (body.stamp == own && (phase_ == Phase::kLoading || about_to_work))) {
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
          routing_.measured(from);
          if (body.stuck && sequencer_) sequencer_->stuck(from);
        } else if constexpr (std::is_same_v<T, wire::WantResult>) {
          if (body.stamp.epoch == context_.ledger.epoch) reduction_.receive(from, body);
        } else if constexpr (std::is_same_v<T, wire::WantState>) {
          sync_.serve(from, body, holding_ && !applying_, stage_, holding_ ? size_of(stage_) : 0);
        } else if constexpr (std::is_same_v<T, wire::StateChunk>) {
          sync_.receive(from, body, message.payload);
        } else if constexpr (std::is_same_v<T, wire::NoState>) {
          sync_.receive(from, body);
        } else if constexpr (std::is_same_v<T, wire::Routing>) {
          routing_.receive(from, body);
        } else if constexpr (std::is_same_v<T, wire::LedgerUpdate> || std::is_same_v<T, wire::LedgerTail> ||
                             std::is_same_v<T, wire::HelloReply> || std::is_same_v<T, wire::Hello> ||
                             std::is_same_v<T, wire::Report> || std::is_same_v<T, wire::Leave>) {
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
  if (before != context_.dead) ++context_.changes;
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

void Node::on(NodeId from, const wire::LedgerTail& tail) {
  if (tail.term >= context_.term) {
    context_.term = tail.term;
    context_.leader = from;
  }
  // A gap closes when the leader has heard in a report how far this node is.
  if (tail.previous_index <= latest_.index && tail.previous_index + tail.entries.size() > latest_.index) {
    for (auto i = latest_.index - tail.previous_index; i < tail.entries.size(); ++i)
      apply_decision(latest_, tail.entries[i].decision);
    follow_latest();
  }
  if (phase_ != Phase::kOutside) report_due_ = true;
}

void Node::on(NodeId from, const wire::HelloReply& reply) {
  if (!reply.refusal.empty()) {
    phase_ = Phase::kGone;
    context_.exit(ExitReason::kRefused, reply.refusal);
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
  if (sequencer_) sequencer_->touch();
  evaluation_.peer_lost(peer);
  pipeline_.peer_lost(peer);
  reduction_.peer_lost(peer);
  // What a committed result still lacks is not waited for any longer if its owner is gone.
  if (fetch_at_ != kNever && reduction_.silent_from() == Time::min()) fetch_at_ = context_.now;
  sync_.peer_lost(peer);
  routing_.peer_lost(peer);
}

// --- Time ------------------------------------------------------------------------------------------------------------

void Node::tick() {
  if (raft_) raft_->tick(context_.now);
  const auto due = context_.detector.due(context_.now);
  for (const auto peer : due.suspects) peer_lost(peer);
  for (const auto peer : due.pings)
    context_.send(peer, wire::Ping{static_cast<std::uint64_t>(context_.now.time_since_epoch().count())});
  routing_.tick();
  const bool changed = view() != seen_view_;
  if (!busy_ && !changed && context_.now < work_at_) return;
  busy_ = true;
  const bool reports = context_.now >= report_at_ + context_.options.pace.report;
  if (phase_ == Phase::kWorking || phase_ == Phase::kListening) {
    evaluation_.tick();
    pipeline_.tick(changed || reports);
    reduction_.tick();
    sync_.tick();
    if (phase_ == Phase::kListening && sync_.complete() && !applying_) {
      holding_ = true;
      sync_.stop();
      report_due_ = true;
    }
    if (latest_.epoch == context_.ledger.epoch && latest_.iteration > context_.ledger.iteration) pursue_commit();
  }
  if (context_.now >= save_again_at_) {
    save_again_at_ = kNever;
    save_if_due();
  }
  if (phase_ == Phase::kOutside && context_.now >= hello_at_) say_hello();
  if (phase_ != Phase::kOutside && reports) report_due_ = true;
}

void Node::say_hello() {
  hello_at_ = context_.now + context_.options.pace.report;
  wire::Hello hello;
  hello.incarnation = context_.incarnation;
  hello.slots = context_.options.slots;
  hello.data_node = context_.options.data_node;
  hello.configuration_hash = context_.options.run.hash;
  hello.tokenizer_hash = context_.options.run.tokenizer_hash;
  hello.corpus_hash = context_.options.run.corpus_hash;
  hello.stage = context_.options.data_node ? StageId(0) : context_.options.stage;
  hello.any_stage = context_.options.any_stage;
  hello.shared_disk = context_.options.shared_disk;
  hello.checkpoints.assign(inventory_.begin(), inventory_.end());
  to_leader(std::move(hello));
}

wire::Report Node::make_report() {
  wire::Report report;
  report.stamp = context_.stamp();
  report.ledger_index = latest_.index;
  report.incarnation = context_.incarnation;
  report.stage = stage_;
  report.ready = holding_;
  if (phase_ == Phase::kWorking || phase_ == Phase::kListening) {
    pipeline_.fill(report);
    reduction_.fill(report);
    routing_.fill(report);
  }
  report.weights_hash = weights_hash_;
  report.saved = saved_;
  report.shared_disk = context_.options.shared_disk;
  for (auto at = inventory_.rbegin(); at != inventory_.rend() && report.checkpoints.size() < 8; ++at)
    if (at->stage == stage_) report.checkpoints.push_back(*at);
  const auto in_us = [](Duration time) {
    return static_cast<std::uint32_t>(std::min<std::int64_t>(0xffffffff, time.count() / 1000));
  };
  report.forward_us = in_us(context_.forward_time(stage_));
  if (stage_ != StageId(0)) report.backward_us = in_us(context_.mean_of(TaskKind::kBackward));
  tell_links(report);
  report.repairs = context_.counters.repairs;
  return report;
}

// What has changed by more than measures waver, and all of it now and then or to a new leader. Its stage and those
// beside it first.
void Node::tell_links(wire::Report& report) {
  const auto& pace = context_.options.pace;
  auto& detector = context_.detector;
  if (told_term_ != context_.term || context_.now >= told_all_at_ + kRetold * pace.report) {
    told_links_.clear();
    detector.all_changed();
    told_all_at_ = context_.now;
    told_term_ = context_.term;
  }
  const int around = context_.stages() + 1;
  const auto differs = [](std::uint32_t a, std::uint32_t b) { return a > b + b / 8 || b > a + a / 8; };
  std::vector<const wire::Member*> near, far;
  const std::vector<NodeId> changed(detector.changed_links().begin(), detector.changed_links().end());
  for (const auto node : changed) {
    const auto* member = member_of(context_.ledger.plan, node);
    if (!member || node == context_.options.self) {
      detector.told(node);
      continue;
    }
    const int away = (member->stage.value() - stage_.value() + around) % around;
    (away <= 1 || away == around - 1 ? near : far).push_back(member);
  }
  near.insert(near.end(), far.begin(), far.end());
  for (const auto* member : near) {
    if (report.links.size() >= kMostLinksTold) return;
    detector.told(member->node);
    const auto delay = std::min<std::int64_t>(0xffffffff, detector.link_delay(member->node).count() / 1000);
    const wire::LinkSample now{member->node, static_cast<std::uint32_t>(delay), detector.kilobytes_per_s(member->node)};
    if (now.delay_us == 0 && now.kilobytes_per_s == 0) continue;
    auto& told = told_links_[member->node];
    if (!differs(now.delay_us, told.delay_us) && !differs(now.kilobytes_per_s, told.kilobytes_per_s)) continue;
    told = now;
    report.links.push_back(now);
  }
}

void Node::report_now() {
  report_due_ = false;
  report_at_ = context_.now;
  if (leaving_) to_leader(wire::Leave{context_.incarnation});
  to_leader(make_report());
}

void Node::watch_peers() {
  const auto watch = leading() ? sequencer_->watch_changes() : 0;
  if (!busy_ && watch == seen_watch_) return;
  seen_watch_ = watch;
  std::vector<NodeId> peers;
  evaluation_.add_awaited(peers);
  pipeline_.add_awaited(peers);
  reduction_.add_awaited(peers);
  sync_.add_awaited(peers);
  if (leading()) sequencer_->add_watched(peers);
  peers.push_back(context_.leader);
  // Suspects that the leader believes alive are probed, or a moment's silence would cut them off for good.
  for (const auto node : context_.suspects())
    if (!context_.dead.contains(node)) peers.push_back(node);
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  std::erase_if(peers, [&](NodeId node) { return node == context_.options.self || node == wire::kNobody; });
  context_.detector.watch(context_.now, peers);
}

void Node::find_work_wake() {
  if (phase_ == Phase::kOutside) {
    work_at_ = hello_at_;
    return;
  }
  work_at_ = std::min({evaluation_.next_wake(), pipeline_.next_wake(), reduction_.next_wake(), fetch_at_,
                       save_again_at_, report_at_ + context_.options.pace.report});
}

Time Node::next_wake() const {
  if (phase_ == Phase::kGone) return kNever;
  Time wake = std::min({context_.detector.next_wake(), work_at_, routing_.next_wake()});
  if (raft_) wake = std::min(wake, raft_->next_wake());
  if (sequencer_) wake = std::min(wake, sequencer_->next_wake());
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
