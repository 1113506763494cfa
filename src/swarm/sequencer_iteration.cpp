// The sequencer's orders and decisions within an iteration: who owns which contribution, what is done again, who sums
// which range, and the commit with the next plan.
#include <algorithm>
#include <utility>

#include "swarm/sequencer.h"

namespace tributary::swarm {

void Sequencer::index_reports() {
  const auto m = context_.microbatches();
  const auto head = context_.head_part();
  holders_.resize((head.value() + 1u) * std::size_t{m});
  for (auto& holders : holders_) holders.clear();
  hops_.assign(m, nullptr);
  for (std::uint16_t s = 0; s <= context_.stages(); ++s)
    for (const auto* member : by_stage_[s]) {
      const auto* report = member->listener ? nullptr : current_report(*member);
      if (!report || report->stage != member->stage) continue;
      std::size_t embeddings = 0;
      for (const auto key : report->folded) {
        if (key >= 2 * m) continue;
        const auto part = s != 0 ? PartId(s) : key < m ? PartId(0) : head;
        holders_[part.value() * std::size_t{m} + key % m].push_back(member->node);
        if (part != PartId(0) || embeddings >= report->hops.size()) continue;
        const auto& hops = report->hops[embeddings++];
        if (hops.size() == head.value() + 1u && !hops_[key % m]) hops_[key % m] = &hops;
      }
    }
}

bool Sequencer::all_back() const {
  const auto& excluded = raft_.ledger().excluded;
  for (std::uint32_t i = 0; i < context_.microbatches(); ++i)
    if (!held({PartId(0), MicrobatchId(i)}) && !std::binary_search(excluded.begin(), excluded.end(), MicrobatchId(i)))
      return false;
  return true;
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
    if (assigned_.contains(beside) && !held(beside)) ++context_.counters.deep_replays;
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
    if (!held({PartId(0), m})) {
      // Still on its way, unless the data node that drives it is gone.
      const auto driver = assigned_.contains({PartId(0), m}) ? assigned_[{PartId(0), m}] : ledger.plan.paths[i].front();
      if (!serves(driver, StageId(0))) {
        assigned_.erase({PartId(0), m});
        assign({PartId(0), m});
      }
      continue;
    }
    const auto* hops = hops_[i];
    for (std::uint16_t p = 1; p <= head.value(); ++p) {
      const PartKey key{PartId(p), m};
      if (held(key)) {
        if (!uncovered_since_.empty()) uncovered_since_.erase(key);
        continue;
      }
      // The embedding's gradient is there, so somebody did this part. If it lives, its report is on its way.
      const auto [since, added] = uncovered_since_.try_emplace(key, context_.now);
      const bool maker_gone = !hops || !serves((*hops)[p], context_.stage_of(key.first));
      if (!maker_gone && context_.now < since->second + grace) continue;
      const auto assigned = assigned_.find(key);
      if (assigned != assigned_.end() && serves(assigned->second, context_.stage_of(key.first))) continue;
      assigned_.erase(key);
      assign(key);
    }
  }
}

NodeId Sequencer::neighbour(PartId part, MicrobatchId microbatch) const {
  if (held({part, microbatch})) return holders({part, microbatch}).front();
  const auto stage = context_.stage_of(part);
  const auto assigned = assigned_.find({part, microbatch});
  if (assigned != assigned_.end() && serves(assigned->second, stage)) return assigned->second;
  const auto* hops = hops_[microbatch.value()];
  if (hops && serves((*hops)[part.value()], stage)) return (*hops)[part.value()];
  const auto planned = raft_.ledger().plan.paths[microbatch.value()][part.value()];
  if (serves(planned, stage)) return planned;
  const auto others = members(stage, false);
  return others.empty() ? wire::kNobody : others[microbatch.value() % others.size()]->node;
}

wire::Orders Sequencer::make_orders(StageId stage) const {
  const auto& ledger = raft_.ledger();
  const auto m = context_.microbatches();
  wire::Orders orders;
  orders.stamp = stamp_;
  orders.term = raft_.term();
  orders.dead = dead_;
  for (const auto* member : members(stage, true)) orders.receivers.push_back(member->node);

  const auto before = orders_.find(stage);
  const bool sealed_before = before != orders_.end() && before->second.content.sealed;
  if (!context_.options.run.switches.early_aggregation && !sealed_before && !all_back()) return orders;
  std::map<NodeId, std::vector<std::uint32_t>> owners;
  std::map<std::uint32_t, NodeId> owner_before;
  if (sealed_before)
    for (const auto& owned : before->second.content.owners)
      for (const auto key : owned.keys) owner_before[key] = owned.node;
  for (const auto key : full_set(stage, m, ledger.excluded)) {
    const auto part = stage != StageId(0) ? PartId(stage.value()) : key < m ? PartId(0) : context_.head_part();
    const PartKey part_key{part, MicrobatchId(key % m)};
    const auto& holding = holders(part_key);
    const auto assigned = assigned_.find(part_key);
    const auto kept = owner_before.find(key);
    NodeId owner = wire::kNobody;
    if (!holding.empty()) {
      const bool keep =
          kept != owner_before.end() && std::find(holding.begin(), holding.end(), kept->second) != holding.end();
      owner = keep ? kept->second : holding.front();
    } else if (sealed_before && assigned != assigned_.end() && serves(assigned->second, stage)) {
      owner = assigned->second;
    } else if (sealed_before && kept != owner_before.end() && serves(kept->second, stage)) {
      owner = kept->second;
    } else {
      return orders;  // not all there yet
    }
    owners[owner].push_back(key);
  }
  orders.sealed = true;
  for (auto& [node, keys] : owners) orders.owners.push_back({node, std::move(keys)});

  std::vector<NodeId> summers;
  for (const auto* member : members(stage, false)) summers.push_back(member->node);
  orders.shares = make_shares(context_.options.run, ledger.plan, stage);
  for (std::size_t i = 0; i < orders.shares.size(); ++i) {
    auto& share = orders.shares[i];
    // A living owner keeps its range; a dead one's goes to somebody who has the result already, if anybody does.
    if (sealed_before && i < before->second.content.shares.size() &&
        serves(before->second.content.shares[i].owner, stage)) {
      share.owner = before->second.content.shares[i].owner;
      continue;
    }
    if (!serves(share.owner, stage)) share.owner = summers[i % summers.size()];
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
    const auto [part, microbatch] = key;
    if (!serves(node, context_.stage_of(part))) continue;
    const auto& holding = holders(key);
    if (std::find(holding.begin(), holding.end(), node) != holding.end()) continue;
    wire::Assignment a{part, microbatch, wire::kNobody, wire::kNobody};
    if (part > PartId(0)) a.previous = neighbour(PartId(static_cast<std::uint16_t>(part.value() - 1)), microbatch);
    if (part < context_.head_part())
      a.next = neighbour(PartId(static_cast<std::uint16_t>(part.value() + 1)), microbatch);
    assignments[context_.stage_of(part)][node].push_back(a);
  }
  const bool all = ordered_index_ != ledger.index || ordered_dead_ != dead_ || ordered_assigned_ != assigned_ ||
                   !context_.options.run.switches.early_aggregation;
  ordered_index_ = ledger.index;
  ordered_dead_ = dead_;
  ordered_assigned_ = assigned_;
  const auto to_order = std::exchange(to_order_, {});
  for (std::uint16_t s = 0; s <= context_.stages(); ++s) {
    const StageId stage(s);
    auto& current = orders_[stage];
    bool changed = false;
    // Whatever an assignment says of its neighbours may have changed.
    if (all || !assigned_.empty() || to_order.contains(stage)) {
      auto fresh = make_orders(stage);
      fresh.revision = current.revision;
      const bool nothing_yet =
          current.revision == 0 && !fresh.sealed && fresh.dead.empty() && assignments[stage].empty();
      changed = !nothing_yet && (fresh != current.content || assignments[stage] != current.assignments);
      if (changed) {
        fresh.revision = ++current.revision;
        current.content = std::move(fresh);
        current.assignments = assignments[stage];
      }
    }
    if (current.revision == 0) continue;
    for (const auto* member : by_stage_[s]) {
      auto& peer = peers_.at(member->node);
      const auto* report = current_report(*member);
      const bool seen = report && report->term == raft_.term() && report->revision >= current.revision;
      if (!changed && (seen || context_.now < peer.orders_sent_at + context_.options.pace.report)) continue;
      peer.orders_sent_at = context_.now;
      auto orders = current.content;
      const auto mine = current.assignments.find(member->node);
      if (mine != current.assignments.end()) orders.assignments = mine->second;
      deliver(member->node, std::move(orders));
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

StageId Sequencer::place_for(NodeId node, const wire::Hello& hello,
                             const std::function<std::vector<Candidate>()>& others) const {
  if (hello.data_node) return StageId(0);
  const bool fixed = !hello.any_stage && hello.stage.value() >= 1 && hello.stage.value() <= context_.stages();
  if (fixed) return hello.stage;
  const auto candidates = others();
  const auto neediest = neediest_stage(context_.options.run, candidates);
  const auto target = target_.stages.find(node);
  // Who comes back within the iteration finds its own paths and range there, unless another stage is about to be lost.
  const auto* former = member_of(raft_.ledger().plan, node);
  const auto count = std::count_if(candidates.begin(), candidates.end(),
                                   [&](const Candidate& c) { return c.member.stage == neediest; });
  if (count <= 1) return neediest;
  if (target != target_.stages.end()) return target->second;
  return former && former->stage != StageId(0) ? former->stage : neediest;
}

// A newcomer begins to fetch its stage's state now. A relay that has it takes part at once, while its stage has work to
// do: its paths are those of its former life, and it may stand in for others.
bool Sequencer::admit_newcomers() {
  const auto& ledger = raft_.ledger();
  wire::Admit admit{ledger.epoch, ledger.iteration, {}};
  for (std::uint16_t s = 1; s <= context_.stages() && context_.options.run.switches.promote; ++s)
    for (const auto* member : by_stage_[s]) {
      if (!member->listener || peers_.at(member->node).leaving) continue;
      const auto* report = current_report(*member);
      if (!report || !report->ready || make_orders(member->stage).sealed) continue;
      admit.members.push_back(*member);
      admit.members.back().listener = false;
    }
  std::vector<Candidate> newcomers;
  const auto others = [&] {
    std::vector<Candidate> candidates;
    for (const auto& stage : by_stage_)
      for (const auto* member : stage)
        candidates.push_back(candidate(member->node, peers_.at(member->node), member->stage, member->listener));
    candidates.insert(candidates.end(), newcomers.begin(), newcomers.end());
    return candidates;
  };
  for (const auto& [node, peer] : peers_) {
    if (peer.dead || peer.leaving || !peer.hello) continue;
    const auto* member = member_of(ledger.plan, node);
    if (member && member->incarnation >= peer.incarnation) continue;
    const auto stage = place_for(node, *peer.hello, others);
    // Its former life still stands for a range of another stage: it waits for the next plan.
    if (member && member->share > 0 && member->stage != stage) continue;
    newcomers.push_back(candidate(node, peer, stage, true));
    admit.members.push_back(newcomers.back().member);
  }
  if (admit.members.empty()) return false;
  raft_.propose(context_.now, std::move(admit));
  return true;
}

// What the local routers of those nodes have found by now.
Chains Sequencer::found_chains(const std::vector<Candidate>& candidates) {
  const auto& run = context_.options.run;
  if (!is_local(run.router) || run.router == "swarm") return {};
  std::map<NodeId, StageId> stage_of;
  std::map<NodeId, std::vector<wire::FlowPiece>> pieces;
  for (const auto& candidate : candidates) {
    if (candidate.member.listener) continue;
    stage_of[candidate.member.node] = candidate.member.stage;
    const auto& report = peers_.at(candidate.member.node).report;
    if (report && report->stage == candidate.member.stage && report->incarnation == candidate.member.incarnation)
      pieces[candidate.member.node] = report->flows;
  }
  auto chains = string_chains(run.stages, stage_of, pieces);
  for (std::uint32_t m = 0; m < run.microbatches; ++m) {
    const auto found = chains.find(raft_.ledger().plan.paths[m].front());
    ++(found != chains.end() ? context_.counters.routed : context_.counters.unrouted);
  }
  return chains;
}

wire::Plan Sequencer::next_plan() {
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
  for (const auto& move : moves_now())
    for (auto& one : candidates)
      if (one.member.node == move.node) {
        one.member.stage = move.stage;
        one.member.listener = true;
      }
  // Who leaves may go once somebody else holds its stage.
  std::erase_if(candidates, [&](const Candidate& c) {
    return peers_.at(c.member.node).leaving && (c.member.listener || full[c.member.stage.value()] > 0);
  });
  for (const auto& [node, peer] : peers_) {
    if (peer.dead || peer.leaving || !peer.hello) continue;
    const auto* member = member_of(ledger.plan, node);
    if (member && member->incarnation == peer.incarnation) continue;
    candidates.push_back(candidate(node, peer, place_for(node, *peer.hello, [&] { return candidates; }), true));
  }
  const auto chains = found_chains(candidates);
  return make_plan(context_.options.run, candidates, ledger.plan.paths, ledger.iteration.value(), chains);
}

}  // namespace tributary::swarm
