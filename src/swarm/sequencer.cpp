#include "swarm/sequencer.h"

#include <algorithm>
#include <cstdio>

namespace tributary::swarm {
namespace {

constexpr std::size_t kMostSaved = 256;  // checkpoints remembered of one node
constexpr int kMostFailedStarts = 3;     // from one checkpoint, before an older one is tried

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
}

void Sequencer::hello(NodeId from, const wire::Hello& hello) {
  auto& peer = peers_[from];
  if (hello.incarnation < peer.incarnation) return;
  if (hello.incarnation > peer.incarnation) peer = {};
  peer.incarnation = hello.incarnation;
  if (peer.dead) return tell_expired(from, peer);
  if (hello.configuration_hash != context_.options.run.hash) {
    peer.dead = true;
    peer.refusal =
        "the configuration, tokenizer or corpus differs from the run's: take them from `tributary run invite`";
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

void Sequencer::tell_expired(NodeId node, const Peer& peer) {
  deliver(node, wire::HelloReply{context_.options.self, peer.refusal, true, peer.incarnation});
}

void Sequencer::report(NodeId from, const wire::Report& report) {
  auto& peer = peers_[from];
  if (report.incarnation < peer.incarnation) return;
  if (peer.dead && report.incarnation == peer.incarnation) return tell_expired(from, peer);
  if (report.incarnation > peer.incarnation) {
    peer = {};
    peer.incarnation = report.incarnation;
  }
  remember_saved(peer, report.shared_disk, report.checkpoints);
  peer.report = report;
  peer.heard_term = raft_.term();
}

void Sequencer::leave(NodeId from, const wire::Leave& leave) {
  auto& peer = peers_[from];
  if (peer.incarnation == leave.incarnation) peer.leaving = true;
}

void Sequencer::stuck(NodeId from) {
  const auto at = peers_.find(from);
  if (at != peers_.end()) at->second.dead = true;
}

void Sequencer::add_watched(std::set<NodeId>& peers) const {
  for (const auto& [node, peer] : peers_)
    if (node != context_.options.self && !peer.dead) peers.insert(node);
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
    if (context_.now >= peer.silent_since + context_.detector.deadline(node)) peer.dead = true;
  }
}

bool Sequencer::live(NodeId node) const {
  const auto* member = member_of(raft_.ledger().plan, node);
  return member && live(*member);
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
  std::vector<const wire::Member*> out;
  for (const auto& member : raft_.ledger().plan.members)
    if (member.stage == stage && live(member) && (listeners || !member.listener)) out.push_back(&member);
  return out;
}

void Sequencer::evaluate() {
  if (!raft_.ready()) return;
  if (active_term_ != raft_.term()) activate();
  judge_silence();
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
    for (auto& [node, peer] : peers_) peer.orders_sent_at = Time::min();
  }
  if (ledger.excluded.size() != excluded_) {
    excluded_ = ledger.excluded.size();
    excluded_index_ = ledger.index;
  }
  spread_ledger();
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
    if (peer.ledger_sent >= ledger.index && context_.now < peer.ledger_sent_at + pause) continue;
    peer.ledger_sent = ledger.index;
    peer.ledger_sent_at = context_.now;
    deliver(node, wire::LedgerUpdate{raft_.term(), ledger});
  }
}

// --- Beginning an epoch ----------------------------------------------------------------------------------------------

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
  if (peer.report) {
    out.forward = Duration(std::int64_t{1000} * peer.report->forward_us);
    for (const auto& link : peer.report->links)
      out.round_trip[link.peer] = Duration(std::int64_t{1000} * link.delay_us);
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

bool Sequencer::try_start() {
  const auto& ledger = raft_.ledger();
  auto checkpoint = ledger.checkpoints.empty() ? Iteration(0) : ledger.checkpoints.back();
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

// --- The running iteration -------------------------------------------------------------------------------------------

void Sequencer::index_reports() {
  holders_.clear();
  hops_.clear();
  const auto m = context_.microbatches();
  const auto head = context_.head_part();
  for (const auto& member : raft_.ledger().plan.members) {
    const auto* report = member.listener ? nullptr : current_report(member);
    if (!report || report->stage != member.stage) continue;
    std::size_t embeddings = 0;
    for (const auto key : report->folded) {
      if (key >= 2 * m) continue;
      const auto part = member.stage != StageId(0) ? PartId(member.stage.value()) : key < m ? PartId(0) : head;
      const MicrobatchId microbatch(key % m);
      holders_[{part, microbatch}].push_back(member.node);
      if (part != PartId(0) || embeddings >= report->hops.size()) continue;
      const auto& hops = report->hops[embeddings++];
      if (hops.size() == head.value() + 1u) hops_.try_emplace(microbatch, &hops);
    }
  }
}

bool Sequencer::exclude_bad() {
  const auto& ledger = raft_.ledger();
  std::set<MicrobatchId> bad;
  for (const auto& member : ledger.plan.members)
    if (const auto* report = current_report(member))
      for (const auto microbatch : report->bad)
        if (microbatch.value() < context_.microbatches() &&
            !std::binary_search(ledger.excluded.begin(), ledger.excluded.end(), microbatch))
          bad.insert(microbatch);
  if (bad.empty()) return false;
  const auto most = context_.options.run.most_excluded * context_.microbatches();
  if (static_cast<double>(bad.size() + ledger.excluded.size()) > most) {
    fatal_ =
        "iteration " + to_string(ledger.iteration) + ": " + std::to_string(bad.size() + ledger.excluded.size()) +
        " of " + std::to_string(context_.microbatches()) +
        " microbatches have results that are not finite; lower the learning rate, or resume from an earlier checkpoint";
  }
  raft_.propose(context_.now, wire::Exclude{ledger.epoch, ledger.iteration, {bad.begin(), bad.end()}});
  return true;
}

// Requires that nobody living is assigned: spreads the work over the part's members.
void Sequencer::assign(PartKey key) {
  std::map<NodeId, int> load;
  for (const auto* member : members(context_.stage_of(key.first), false)) load[member->node] = 0;
  for (const auto& [other, assignee] : assigned_)
    if (other != key && load.contains(assignee)) ++load[assignee];
  NodeId best = wire::kNobody;
  for (const auto& [candidate, count] : load)
    if (best == wire::kNobody || count < load[best]) best = candidate;
  if (best == wire::kNobody) return;
  assigned_[key] = best;
  // What it needs from a neighbour is lost too.
  for (const int step : {-1, 1}) {
    const PartKey beside{PartId(static_cast<std::uint16_t>(key.first.value() + step)), key.second};
    if (assigned_.contains(beside) && !holders_.contains(beside)) ++context_.counters.deep_replays;
  }
}

// Contributions whose maker is gone: the part's survivors make them again.
void Sequencer::assign_orphans() {
  const auto& ledger = raft_.ledger();
  const auto head = context_.head_part();
  const auto grace = 4 * context_.options.pace.report;
  for (std::uint32_t i = 0; i < context_.microbatches(); ++i) {
    const MicrobatchId m(i);
    if (std::binary_search(ledger.excluded.begin(), ledger.excluded.end(), m)) continue;
    if (!holders_.contains({PartId(0), m})) {
      // Still on its way, unless the data node that drives it is gone.
      const auto driver = assigned_.contains({PartId(0), m}) ? assigned_[{PartId(0), m}] : ledger.plan.paths[i].front();
      if (!live(driver)) {
        assigned_.erase({PartId(0), m});
        assign({PartId(0), m});
      }
      continue;
    }
    const auto hops = hops_.find(m);
    for (std::uint16_t p = 1; p <= head.value(); ++p) {
      const PartKey key{PartId(p), m};
      if (holders_.contains(key)) {
        uncovered_since_.erase(key);
        continue;
      }
      // The embedding's gradient is there, so somebody did this part. If it lives, its report is on its way.
      const auto [since, added] = uncovered_since_.try_emplace(key, context_.now);
      const bool maker_gone = hops == hops_.end() || !live((*hops->second)[p]);
      if (!maker_gone && context_.now < since->second + grace) continue;
      const auto assigned = assigned_.find(key);
      if (assigned != assigned_.end() && live(assigned->second)) continue;
      assigned_.erase(key);
      assign(key);
    }
  }
}

NodeId Sequencer::neighbour(PartId part, MicrobatchId microbatch) const {
  const auto held = holders_.find({part, microbatch});
  if (held != holders_.end()) return held->second.front();
  const auto assigned = assigned_.find({part, microbatch});
  if (assigned != assigned_.end() && live(assigned->second)) return assigned->second;
  const auto hops = hops_.find(microbatch);
  if (hops != hops_.end() && live((*hops->second)[part.value()])) return (*hops->second)[part.value()];
  const auto planned = raft_.ledger().plan.paths[microbatch.value()][part.value()];
  if (live(planned)) return planned;
  const auto others = members(context_.stage_of(part), false);
  return others.empty() ? wire::kNobody : others[microbatch.value() % others.size()]->node;
}

wire::Orders Sequencer::make_orders(StageId stage) const {
  const auto& ledger = raft_.ledger();
  const auto m = context_.microbatches();
  wire::Orders orders;
  orders.stamp = stamp_;
  orders.term = raft_.term();
  for (const auto& member : ledger.plan.members)
    if (!live(member)) orders.dead.push_back(member.node);
  for (const auto* member : members(stage, true)) orders.receivers.push_back(member->node);

  const auto before = orders_.find(stage);
  const bool sealed_before = before != orders_.end() && before->second.content.sealed;
  std::map<NodeId, std::vector<std::uint32_t>> owners;
  std::map<std::uint32_t, NodeId> owner_before;
  if (sealed_before)
    for (const auto& owned : before->second.content.owners)
      for (const auto key : owned.keys) owner_before[key] = owned.node;
  for (const auto key : full_set(stage, m, ledger.excluded)) {
    const auto part = stage != StageId(0) ? PartId(stage.value()) : key < m ? PartId(0) : context_.head_part();
    const PartKey part_key{part, MicrobatchId(key % m)};
    const auto held = holders_.find(part_key);
    const auto assigned = assigned_.find(part_key);
    const auto kept = owner_before.find(key);
    NodeId owner = wire::kNobody;
    if (held != holders_.end()) {
      const bool keep = kept != owner_before.end() &&
                        std::find(held->second.begin(), held->second.end(), kept->second) != held->second.end();
      owner = keep ? kept->second : held->second.front();
    } else if (sealed_before && assigned != assigned_.end() && live(assigned->second)) {
      owner = assigned->second;
    } else if (sealed_before && kept != owner_before.end() && live(kept->second)) {
      owner = kept->second;
    } else {
      return orders;  // not all there yet
    }
    owners[owner].push_back(key);
  }
  orders.sealed = true;
  for (auto& [node, keys] : owners) orders.owners.push_back({node, std::move(keys)});

  std::vector<NodeId> summers;
  std::size_t replicas = 0;
  for (const auto& member : ledger.plan.members) replicas += member.stage == stage && !member.listener;
  for (const auto* member : members(stage, false)) summers.push_back(member->node);
  orders.shares =
      make_shares(context_.options.run.state_sizes[stage.value()], summers, replicas, context_.options.run.block);
  for (std::size_t i = 0; i < orders.shares.size(); ++i) {
    auto& share = orders.shares[i];
    // A living owner keeps its range; a dead one's goes to somebody who has the result already, if anybody does.
    if (sealed_before && i < before->second.content.shares.size() && live(before->second.content.shares[i].owner)) {
      share.owner = before->second.content.shares[i].owner;
      continue;
    }
    for (const auto* member : members(stage, false)) {
      const auto* report = settled_report(*member);
      if (report && std::find(report->shares_done.begin(), report->shares_done.end(), i) != report->shares_done.end()) {
        share.owner = member->node;
        break;
      }
    }
  }
  return orders;
}

void Sequencer::send_orders() {
  const auto& ledger = raft_.ledger();
  std::map<StageId, std::map<NodeId, std::vector<wire::Assignment>>> assignments;
  for (const auto& [key, node] : assigned_) {
    if (!live(node)) continue;
    const auto [part, microbatch] = key;
    const auto held = holders_.find(key);
    if (held != holders_.end() && std::find(held->second.begin(), held->second.end(), node) != held->second.end())
      continue;
    wire::Assignment a{part, microbatch, wire::kNobody, wire::kNobody};
    if (part > PartId(0)) a.previous = neighbour(PartId(static_cast<std::uint16_t>(part.value() - 1)), microbatch);
    if (part < context_.head_part())
      a.next = neighbour(PartId(static_cast<std::uint16_t>(part.value() + 1)), microbatch);
    assignments[context_.stage_of(part)][node].push_back(a);
  }
  for (std::uint16_t s = 0; s <= context_.stages(); ++s) {
    const StageId stage(s);
    auto fresh = make_orders(stage);
    auto& current = orders_[stage];
    fresh.revision = current.revision;
    const auto differs = [](const wire::Orders& a, const wire::Orders& b) {
      return wire::encode(a) != wire::encode(b);
    };
    const auto same_assignments = [&] {
      const auto& now = assignments[stage];
      if (now.size() != current.assignments.size()) return false;
      for (const auto& [node, list] : now) {
        const auto at = current.assignments.find(node);
        if (at == current.assignments.end() || at->second.size() != list.size()) return false;
        for (std::size_t i = 0; i < list.size(); ++i) {
          const auto &x = list[i], &y = at->second[i];
          if (x.part != y.part || x.microbatch != y.microbatch || x.previous != y.previous || x.next != y.next)
            return false;
        }
      }
      return true;
    };
    const bool nothing_yet = current.revision == 0 && !fresh.sealed && fresh.dead.empty() && assignments[stage].empty();
    const bool changed = !nothing_yet && (differs(fresh, current.content) || !same_assignments());
    if (changed) {
      fresh.revision = ++current.revision;
      current.content = fresh;
      current.assignments = assignments[stage];
    }
    if (current.revision == 0) continue;
    for (const auto& member : ledger.plan.members) {
      if (member.stage != stage || !live(member)) continue;
      auto& peer = peers_.at(member.node);
      const auto* report = current_report(member);
      const bool seen = report && report->term == raft_.term() && report->revision >= current.revision;
      if (!changed && (seen || context_.now < peer.orders_sent_at + context_.options.pace.report)) continue;
      peer.orders_sent_at = context_.now;
      auto orders = current.content;
      const auto mine = current.assignments.find(member.node);
      if (mine != current.assignments.end()) orders.assignments = mine->second;
      deliver(member.node, std::move(orders));
    }
  }
}

bool Sequencer::try_commit() {
  const auto& ledger = raft_.ledger();
  const auto& run = context_.options.run;
  wire::Commit commit;
  commit.epoch = ledger.epoch;
  commit.iteration = ledger.iteration;
  double sum_squares = 0;
  for (std::uint16_t s = 0; s <= run.stages; ++s) {
    const StageId stage(s);
    std::map<std::uint64_t, std::vector<NodeId>> by_hash;
    double squares = 0;
    for (const auto* member : members(stage, false)) {
      const auto* report = settled_report(*member);
      if (!report || !report->result_complete) {
        waiting_for_ =
            "node " + to_string(member->node) + " (stage " + std::to_string(s) + ")" +
            (context_.detector.suspected(member->node) ? ", which is silent; if it stays so, others take over"
                                                       : ", which is at work; its log says at what");
        return false;
      }
      by_hash[report->result_hash].push_back(member->node);
    }
    const auto most = std::max_element(by_hash.begin(), by_hash.end(),
                                       [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    const auto source = most->second.front();
    squares = peers_.at(source).report->sum_squares;
    commit.results.push_back({most->first, source});
    sum_squares += squares;
  }
  // Losses in microbatch order, whoever reports them.
  std::map<std::uint32_t, std::pair<double, std::uint64_t>> losses;
  for (const auto* member : members(StageId(0), false)) {
    const auto* report = current_report(*member);
    std::size_t i = 0;
    for (const auto key : report->folded)
      if (key >= run.microbatches && i < report->losses.size() && i < report->tokens.size()) {
        losses.try_emplace(key, report->losses[i], report->tokens[i]);
        ++i;
      }
  }
  double loss = 0;
  for (const auto& [key, value] : losses) {
    loss += value.first;
    commit.tokens += value.second;
  }
  commit.loss = losses.empty() ? 0 : loss / static_cast<double>(losses.size());
  commit.excluded = static_cast<std::uint32_t>(ledger.excluded.size());
  const auto step = step_parameters(run.step, ledger.iteration, sum_squares, run.microbatches - commit.excluded,
                                    run.microbatches, &commit.gradient_norm);
  commit.learning_rate = step.learning_rate;
  commit.gradient_scale = step.gradient_scale;
  commit.halt = halt_;
  commit.next = next_plan();
  return raft_.propose(context_.now, std::move(commit));
}

wire::Plan Sequencer::next_plan() const {
  const auto& ledger = raft_.ledger();
  std::vector<Candidate> candidates;
  std::vector<std::size_t> full(context_.stages() + 1, 0);
  for (const auto& member : ledger.plan.members) {
    if (!live(member)) continue;
    const auto& peer = peers_.at(member.node);
    const auto* report = current_report(member);
    bool listener = member.listener;
    // A listener that has the state takes part from the next iteration on. The running one's result it has or fetches;
    // were it awaited here, a stage with one quick member would always commit first, and never take a second one in.
    if (listener && report && report->ready) listener = false;
    candidates.push_back(candidate(member.node, peer, member.stage, listener));
    if (!listener && !peer.leaving) ++full[member.stage.value()];
  }
  // Who leaves may go once somebody else holds its stage.
  std::erase_if(candidates, [&](const Candidate& c) {
    return peers_.at(c.member.node).leaving && (c.member.listener || full[c.member.stage.value()] > 0);
  });
  for (const auto& [node, peer] : peers_) {
    if (peer.dead || peer.leaving || !peer.hello) continue;
    const auto* member = member_of(ledger.plan, node);
    if (member && member->incarnation == peer.incarnation) continue;
    const auto wish = peer.hello->stage;
    const bool fixed = !peer.hello->any_stage && wish.value() >= 1 && wish.value() <= context_.stages();
    const auto stage = peer.hello->data_node ? StageId(0)
                       : fixed               ? wish
                                             : neediest_stage(context_.options.run, candidates);
    candidates.push_back(candidate(node, peer, stage, true));
  }
  return make_plan(context_.options.run, candidates);
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
  return context_.now + context_.options.pace.report / 2;
}

}  // namespace tributary::swarm
