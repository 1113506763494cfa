#include "swarm/sequencer.h"

#include <algorithm>
#include <cstdio>

namespace tributary::swarm {
namespace {

// More than that its sender lives and how fast it is.
bool tells_more(const wire::Report& now, const wire::Report& before) {
  return now.stamp != before.stamp || now.term != before.term || now.revision != before.revision ||
         now.ledger_index != before.ledger_index || now.incarnation != before.incarnation ||
         now.stage != before.stage || now.ready != before.ready || now.folded != before.folded ||
         now.hops != before.hops || now.bad != before.bad || now.shares_done != before.shares_done ||
         now.result_complete != before.result_complete || now.result_hash != before.result_hash ||
         now.saved != before.saved || now.checkpoints != before.checkpoints;
}

}  // namespace

void Sequencer::activate() {
  active_term_ = raft_.term();
  ++context_.counters.elections;
  context_.leader = context_.options.self;
  context_.term = raft_.term();
  stamp_ = {};
  excluded_ = raft_.ledger().excluded.size();
  excluded_index_ = raft_.ledger().index;
  orders_.clear();
  for (auto& [node, peer] : peers_) {
    peer.silent_since = kNever;
    peer.ledger_sent_at = peer.orders_sent_at = Time::min();
    peer.ledger_sent = 0;
  }
  // Members of the plan that are not known here yet are taken for alive until their silence says otherwise.
  for (const auto& member : raft_.ledger().plan.members) {
    auto [at, added] = peers_.try_emplace(member.node);
    if (added) at->second.incarnation = member.incarnation;
  }
  ++watch_changes_;
}

void Sequencer::hello(NodeId from, const wire::Hello& hello) {
  touched_ = true;
  ++watch_changes_;
  auto& peer = peers_[from];
  if (hello.incarnation < peer.incarnation) return;
  if (hello.incarnation > peer.incarnation) reborn(peer, hello.incarnation);
  if (peer.dead) return tell_expired(from, peer);
  if (auto difference = difference_from_run(from, hello); !difference.empty()) {
    peer.dead = true;
    ++watch_changes_;
    peer.refusal = std::move(difference);
    return tell_expired(from, peer);
  }
  peer.hello = hello;
  peer.heard_term = raft_.term();
  peer.report.reset();  // it is outside now, whatever it reported as a member
  remember_saved(peer, hello.shared_disk, hello.checkpoints);
  deliver(from, wire::LedgerUpdate{raft_.term(), raft_.ledger()});
  peer.ledger_sent = raft_.ledger().index;
  peer.ledger_sent_at = context_.now;
}

std::string Sequencer::difference_from_run(NodeId from, const wire::Hello& hello) const {
  const auto& run = context_.options.run;
  if (hello.configuration_hash != run.hash)
    return "the configuration differs from the run's: take it from `tributary run invite`";
  if (hello.tokenizer_hash != run.tokenizer_hash)
    return "the tokenizer differs from the run's (data.tokenizer): take it from `tributary run invite`";
  if (hello.corpus_hash == 0) return {};
  auto corpus = run.corpus_hash;
  for (const auto& [node, peer] : peers_)
    if (corpus == 0 && node != from && !peer.dead && peer.hello) corpus = peer.hello->corpus_hash;
  if (corpus != 0 && hello.corpus_hash != corpus)
    return "the corpus differs from the run's (data.corpus): copy the very files, in the same order, or data.held_out "
           "cuts them otherwise";
  return {};
}

void Sequencer::tell_expired(NodeId node, const Peer& peer) {
  deliver(node, wire::HelloReply{context_.options.self, peer.refusal, true, peer.incarnation});
}

void Sequencer::report(NodeId from, const wire::Report& report) {
  auto& peer = peers_[from];
  if (report.incarnation < peer.incarnation) return;
  if (peer.dead && report.incarnation == peer.incarnation) return tell_expired(from, peer);
  if (report.incarnation > peer.incarnation) reborn(peer, report.incarnation);
  remember_saved(peer, report.shared_disk, report.checkpoints);
  measure(peer, report);
  if (!peer.report || peer.heard_term != raft_.term() || peer.silent_since != kNever) touched_ = true;
  if (!peer.report || tells_more(report, *peer.report)) {
    reported_ = true;
    to_order_.insert(report.stage);
    if (peer.report) to_order_.insert(peer.report->stage);
  }
  peer.report = report;
  peer.heard_term = raft_.term();
}

void Sequencer::reborn(Peer& peer, Incarnation incarnation) {
  ++watch_changes_;
  touched_ = true;
  Peer anew;
  anew.incarnation = incarnation;
  anew.forward_us = peer.forward_us;
  anew.backward_us = peer.backward_us;
  anew.links = std::move(peer.links);
  anew.stage = peer.stage;
  peer = std::move(anew);
}

void Sequencer::measure(Peer& peer, const wire::Report& report) {
  constexpr std::size_t kMostLinks = 256;
  if (report.forward_us > 0) peer.forward_us = report.forward_us;
  if (report.backward_us > 0) peer.backward_us = report.backward_us;
  for (const auto& link : report.links)
    if (peer.links.size() < kMostLinks || peer.links.contains(link.peer)) peer.links[link.peer] = link;
  peer.stage = report.stage;
}

void Sequencer::leave(NodeId from, const wire::Leave& leave) {
  touched_ = true;
  auto& peer = peers_[from];
  if (peer.incarnation == leave.incarnation) peer.leaving = true;
}

void Sequencer::stuck(NodeId from) {
  touched_ = true;
  const auto at = peers_.find(from);
  if (at == peers_.end()) return;
  at->second.dead = true;
  ++watch_changes_;
}

void Sequencer::add_watched(std::vector<NodeId>& peers) const {
  for (const auto& [node, peer] : peers_)
    if (node != context_.options.self && !peer.dead) peers.push_back(node);
}

// Suspicion is enough for a neighbour to route around; only silence for as long again makes the leader declare a death,
// since for the declared one it is final.
void Sequencer::judge_silence() {
  for (auto& [node, peer] : peers_) {
    if (node == context_.options.self || peer.dead) continue;
    if (!context_.detector.suspected(node)) {
      peer.silent_since = kNever;
      continue;
    }
    if (peer.silent_since == kNever) peer.silent_since = context_.now;
    const auto death = peer.silent_since + context_.detector.deadline(node);
    if (context_.now >= death) {
      peer.dead = true;
      ++watch_changes_;
      peer.died_at = context_.now;
    } else {
      look_again_at_ = std::min(look_again_at_, death);
    }
  }
}

bool Sequencer::serves(NodeId node, StageId stage) const {
  const auto* member = member_of(raft_.ledger().plan, node);
  return member && member->stage == stage && !member->listener && live(*member);
}

bool Sequencer::live(const wire::Member& member) const {
  const auto at = peers_.find(member.node);
  if (at == peers_.end() || at->second.dead) return false;
  return at->second.incarnation == member.incarnation || context_.bugs.trust_old_incarnation;
}

const wire::Report* Sequencer::current_report(const wire::Member& member) const {
  if (!live(member)) return nullptr;
  const auto& report = peers_.at(member.node).report;
  return report && report->stamp == stamp_ && report->incarnation == member.incarnation ? &*report : nullptr;
}

const wire::Report* Sequencer::settled_report(const wire::Member& member) const {
  const auto* report = current_report(member);
  const bool knows = report && report->ledger_index >= excluded_index_;
  return knows || context_.bugs.count_stale_results ? report : nullptr;
}

std::vector<const wire::Member*> Sequencer::members(StageId stage, bool listeners) const {
  auto out = by_stage_[stage.value()];
  if (!listeners) std::erase_if(out, [](const auto* member) { return member->listener; });
  return out;
}

void Sequencer::index_members() {
  by_stage_.assign(context_.stages() + 1u, {});
  dead_.clear();
  for (const auto& member : raft_.ledger().plan.members) {
    if (!live(member)) {
      dead_.push_back(member.node);
    } else if (member.stage.value() < by_stage_.size()) {
      by_stage_[member.stage.value()].push_back(&member);
    }
  }
}

void Sequencer::evaluate() {
  if (!raft_.ready() || nothing_new()) return;
  if (active_term_ != raft_.term()) activate();
  touched_ = reported_ = false;
  decided_at_ = context_.now;
  look_again_at_ = context_.now + context_.options.pace.report / 2;
  judge_silence();
  decide();
  plan_ahead();
  seen_index_ = raft_.ledger().index;
  seen_pending_ = raft_.pending();
}

bool Sequencer::nothing_new() const {
  const bool gathered = reported_ && context_.now >= decided_at_ + gather();
  return !touched_ && !gathered && active_term_ == raft_.term() && seen_index_ == raft_.ledger().index &&
         seen_pending_ == raft_.pending() && context_.now < look_again_at_;
}

Duration Sequencer::gather() const {
  constexpr std::size_t kFew = 64;  // nodes
  constexpr std::int64_t kEachNs = 500'000;
  return peers_.size() <= kFew ? Duration::zero() : Duration(kEachNs * static_cast<std::int64_t>(peers_.size()));
}

void Sequencer::decide() {
  const auto& ledger = raft_.ledger();
  const wire::Stamp stamp{ledger.epoch, ledger.iteration};
  if (stamp != stamp_) {
    if (stamp_.epoch == stamp.epoch && stamp_.epoch != 0) {
      const double took = to_seconds(context_.now - iteration_since_);
      usual_iteration_s_ = usual_iteration_s_ == 0 ? took : usual_iteration_s_ + 0.2 * (took - usual_iteration_s_);
    }
    iteration_since_ = context_.now;
    stamp_ = stamp;
    assigned_.clear();
    uncovered_since_.clear();
    orders_.clear();
    ordered_index_ = 0;
    for (auto& [node, peer] : peers_) peer.orders_sent_at = Time::min();
  }
  if (ledger.excluded.size() != excluded_) {
    excluded_ = ledger.excluded.size();
    excluded_index_ = ledger.index;
  }
  spread_ledger();
  index_members();
  complete_checkpoints();
  const bool over = ledger.epoch > 0 && (ledger.halted || ledger.iteration.value() >= context_.options.run.iterations);
  if (over && (finishing_ || !ledger.halted) && !ledger.checkpoints.empty() &&
      ledger.checkpoints.back() == ledger.iteration)
    return;
  if (raft_.pending()) return;
  waiting_for_.clear();
  bool stage_lost = ledger.epoch == 0;
  for (std::uint16_t s = 0; s <= context_.stages() && !stage_lost; ++s)
    if (members(StageId(s), false).empty()) stage_lost = true;
  if (stage_lost) {
    try_start();
    return;
  }
  start_possible_since_ = kNever;
  if (over) return;
  index_reports();
  if (exclude_bad()) return;
  if (context_.options.run.switches.admit_at_once && admit_newcomers()) return;
  assign_orphans();
  send_orders();
  try_commit();
}

void Sequencer::spread_ledger() {
  const auto& ledger = raft_.ledger();
  const auto pause = context_.options.pace.report;
  for (auto& [node, peer] : peers_) {
    if (peer.dead) continue;
    const auto known = peer.report ? peer.report->ledger_index : 0;
    if (known >= ledger.index) continue;
    const bool on_its_way = context_.now < peer.ledger_sent_at + pause;
    if (peer.ledger_sent >= ledger.index && on_its_way) continue;
    // What was sent a moment ago arrives before this.
    const auto from = on_its_way ? std::max(known, peer.ledger_sent) : known;
    peer.ledger_sent = ledger.index;
    peer.ledger_sent_at = context_.now;
    auto tail = known > 0 ? raft_.committed_since(from) : std::nullopt;
    if (tail) {
      deliver(node, wire::LedgerTail{raft_.term(), from, std::move(*tail)});
    } else {
      deliver(node, wire::LedgerUpdate{raft_.term(), ledger});
    }
  }
}

// An iteration that takes several times as long as usual does not move; before, there is nothing to explain.
std::string Sequencer::waiting_for() const {
  const double since = to_seconds(context_.now - iteration_since_);
  if (waiting_for_.empty() || since < std::max(5.0, 3 * usual_iteration_s_)) return {};
  char seconds_text[32];
  std::snprintf(seconds_text, sizeof seconds_text, "%.0f", since);
  return waiting_for_ + " (for " + seconds_text + " s)";
}

bool Sequencer::may_exit() const {
  for (const auto& [node, peer] : peers_) {
    const auto told = peer.report ? peer.report->ledger_index : peer.ledger_sent;
    if (node != context_.options.self && !peer.dead && !context_.detector.suspected(node) &&
        told < raft_.ledger().index)
      return false;
  }
  return true;
}

Time Sequencer::next_wake() const {
  if (!raft_.ready()) return kNever;
  return reported_ ? std::min(look_again_at_, decided_at_ + gather()) : look_again_at_;
}

}  // namespace tributary::swarm
