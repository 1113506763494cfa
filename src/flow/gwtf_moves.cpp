// Moves between replicas of a stage: choosing one, and the hand-shake that makes it all or nothing.
#include <algorithm>
#include <cmath>

#include "flow/gwtf_node.h"

namespace tributary::flow::gwtf {
namespace {

// Moves that lose more temperatures than this are never taken in practice.
constexpr double kHopeless = 25;

// std::log differs between libraries in its last bit, and a seed must give the same flows everywhere.
double natural_log(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);  // [0.5, 1)
  if (m < 0.70710678118654752) {
    m *= 2;
    --exponent;
  }
  const double s = (m - 1) / (m + 1), square = s * s;
  double sum = 0;
  for (int k = 17; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
  return 2 * s * sum + exponent * 0.69314718055994531;
}

// The noise that turns "take the best" into "take each with probability proportional to exp(gain / temperature)".
double gumbel(Random& random) { return -natural_log(-natural_log(1 - random.uniform())); }

}  // namespace

double Node::temperature() const {
  if (proposals_ >= options_.cooling_proposals) return 0;
  const double left = 1 - static_cast<double>(proposals_) / options_.cooling_proposals;
  return options_.start_temperature * static_cast<double>(mean_link_) * left * left;
}

std::vector<CarriedHop> Node::carried() const {
  std::vector<CarriedHop> list;
  for (const auto& [id, hop] : hops_)
    if (!hop.pending && !hop.lock && !hop.sink) list.push_back({id, hop.target, hop.last, hop.next});
  return list;
}

void Node::propose() {
  if (proposing_ || setup_.data_node || beside_.empty() || proposals_ >= most_proposals_) return;
  const bool cold = proposals_ >= options_.cooling_proposals;
  if (cold ? to_ask_.empty() : (hops_.empty() && to_ask_.empty())) return;
  std::uint32_t peer = random_.pick(beside_);
  if (cold) {
    peer = to_ask_.back();
    to_ask_.pop_back();
  }
  proposing_ = true;
  proposed_to_ = peer;
  send(peer, Propose{carried(), has_room(), temperature(), costs_});
  ++proposals_;
}

void Node::on(std::uint32_t from, const Proposed& proposed) {
  if (!proposing_ || from != proposed_to_) {
    ++ignored_;
    return;
  }
  proposing_ = false;
  // Somebody else held a hop; the question is still open.
  if (proposed.outcome != Outcome::kNothing) to_ask_.insert(to_ask_.begin(), from);
}

std::vector<Node::Priced> Node::price(const std::vector<CarriedHop>& hops, const LinkCosts& their) const {
  std::vector<Priced> list;
  list.reserve(hops.size());
  for (const auto& hop : hops)
    list.push_back({&hop, LinkCosts::of(their.from_last, hop.last.node), LinkCosts::of(their.to_next, hop.next.node),
                    LinkCosts::of(costs_->from_last, hop.last.node), LinkCosts::of(costs_->to_next, hop.next.node)});
  return list;
}

// Moves that involve one hop of each: an exchange of next hops (request change; one target only), and of places.
void Node::consider_pair(const Priced& f, const Priced& g, std::vector<Move>& moves) const {
  const bool same_target = f.hop->target == g.hop->target, same_next = f.hop->next.node == g.hop->next.node;
  const Cost next_now = f.their_next + g.own_next;
  const Cost next_then = g.their_next + f.own_next;
  if (same_target && !same_next && next_then < kNoLink)
    moves.push_back({MoveKind::kChange, *f.hop, *g.hop, next_now - next_then});
  if (options_.published_moves_only || !f.hop->last || !g.hop->last) return;
  const bool same_last = f.hop->last.node == g.hop->last.node;
  if (same_last && (same_next || same_target)) return;  // nothing, or the same as a change
  const Cost last_now = f.their_last + g.own_last;
  const Cost last_then = g.their_last + f.own_last;
  if (last_then < kNoLink && next_then < kNoLink)
    moves.push_back({MoveKind::kPlaces, *f.hop, *g.hop, last_now + next_now - last_then - next_then});
}

// All moves between the proposer and this node are weighed; the proposer's temperature decides.
std::optional<Node::Move> Node::choose(const Propose& propose) {
  std::vector<Move> moves;
  const auto mine = carried();
  const auto own = price(mine, *propose.costs);
  for (const auto& f : price(propose.carried, *propose.costs)) {
    if (f.their_next >= kNoLink || (f.hop->last && f.their_last >= kNoLink)) continue;
    for (const auto& g : own) consider_pair(f, g, moves);
    if (!f.hop->last || !has_room()) continue;
    const Cost then = f.own_last + f.own_next;
    if (then < kNoLink) moves.push_back({MoveKind::kTake, *f.hop, {}, f.their_last + f.their_next - then});
  }
  if (propose.room) {
    for (const auto& g : own) {
      if (!g.hop->last) continue;
      const Cost then = g.their_last + g.their_next;
      if (then < kNoLink) moves.push_back({MoveKind::kGive, {}, *g.hop, g.own_last + g.own_next - then});
    }
  }
  // Staying is one of the choices, with gain 0.
  const double heat = propose.temperature;
  const Move* best = nullptr;
  double most = heat > 0 ? heat * gumbel(random_) : 0;
  for (const Move& move : moves) {
    double score = static_cast<double>(move.gain);
    if (heat > 0) {
      if (score < -kHopeless * heat) continue;
      score += heat * gumbel(random_);
    }
    if (score <= most) continue;
    most = score;
    best = &move;
  }
  if (!best) return std::nullopt;
  return *best;
}

void Node::on(std::uint32_t from, const Propose& propose) {
  const auto move = choose(propose);
  if (!move) return send(from, Proposed{Outcome::kNothing});
  prepare(from, *move);
}

void Node::prepare(std::uint32_t proposer, const Move& move) {
  const TransactionId id = (static_cast<TransactionId>(setup_.id) << 32) + next_transaction_++;
  Transaction& transaction = transactions_[id];
  transaction.proposer = proposer;
  transaction.move = move;
  const CarriedHop &f = move.theirs, &g = move.own;
  const HopRef their{proposer, f.hop}, own{setup_.id, g.hop};
  const auto ask = [&](const HopRef& hop, Prepare prepare) {
    prepare.transaction = id;
    prepare.hop = hop.hop;
    transaction.parties.push_back(hop);
    transaction.awaited.push_back(hop);
    send(hop.node, prepare);
  };
  const bool places = move.kind == MoveKind::kPlaces;
  if (move.kind == MoveKind::kTake) {
    ++reserved_;
  } else {
    hops_.at(g.hop).lock = id;
  }
  if (move.kind == MoveKind::kGive) {
    ask({proposer, 0}, {.transaction = 0, .hop = 0, .last = {}, .next = {}, .take_room = true});
  } else {
    Prepare prepare{.transaction = 0, .hop = 0, .last = {}, .next = f.next, .take_room = false};
    if (move.kind != MoveKind::kChange) prepare.last = f.last;
    ask(their, prepare);
    ask(f.next, {.transaction = 0, .hop = 0, .last = their, .next = {}, .take_room = false});
    if (move.kind != MoveKind::kChange)
      ask(f.last, {.transaction = 0, .hop = 0, .last = {}, .next = their, .take_room = false});
  }
  if (move.kind != MoveKind::kTake) {
    ask(g.next, {.transaction = 0, .hop = 0, .last = own, .next = {}, .take_room = false});
    if (places || move.kind == MoveKind::kGive)
      ask(g.last, {.transaction = 0, .hop = 0, .last = {}, .next = own, .take_room = false});
  }
}

void Node::on(std::uint32_t from, const Prepare& prepare) {
  if (prepare.take_room) {
    HopId made = 0;
    if (has_room()) {
      made = next_hop_++;
      Hop& hop = hops_[made];
      hop.pending = true;
      hop.lock = prepare.transaction;
    }
    return send(from, Vote{prepare.transaction, 0, made != 0, made});
  }
  const auto found = hops_.find(prepare.hop);
  const bool yes = found != hops_.end() && !found->second.pending && !found->second.lock &&
                   (!prepare.last || found->second.last == *prepare.last) &&
                   (!prepare.next || found->second.next == *prepare.next);
  if (yes) found->second.lock = prepare.transaction;
  send(from, Vote{prepare.transaction, prepare.hop, yes, 0});
}

void Node::on(std::uint32_t from, const Vote& vote) {
  const auto found = transactions_.find(vote.transaction);
  const HopRef party{from, vote.made ? 0 : vote.hop};
  if (found != transactions_.end()) {
    auto& awaited = found->second.awaited;
    const auto at = std::find(awaited.begin(), awaited.end(), party);
    if (at != awaited.end()) {
      awaited.erase(at);
      if (vote.yes) {
        found->second.locked.push_back({from, vote.made ? vote.made : vote.hop});
        if (vote.made) found->second.made = vote.made;
      } else {
        found->second.refused = true;
      }
      if (awaited.empty()) finish(vote.transaction);
      return;
    }
  }
  ++ignored_;
  if (vote.yes) send(from, Abort{vote.transaction, vote.made ? vote.made : vote.hop});
}

// A party or proposer that is lost: nothing can be agreed with it.
void Node::lose_votes(std::uint32_t peer) {
  std::vector<TransactionId> ended;
  for (auto& [id, transaction] : transactions_) {
    const auto of_peer = [&](const HopRef& hop) { return hop.node == peer; };
    if (transaction.proposer != peer && std::none_of(transaction.parties.begin(), transaction.parties.end(), of_peer))
      continue;
    transaction.refused = true;
    std::erase_if(transaction.awaited, of_peer);
    std::erase_if(transaction.locked, of_peer);
    if (transaction.awaited.empty()) ended.push_back(id);
  }
  for (const auto id : ended) finish(id);
}

void Node::finish(TransactionId id) {
  Transaction transaction = std::move(transactions_.at(id));
  transactions_.erase(id);
  if (transaction.move.kind == MoveKind::kTake) {
    --reserved_;
  } else {
    const HopId own = transaction.move.own.hop;
    if (hops_.at(own).broken) transaction.refused = true;
    unlock(own);
  }
  if (transaction.refused) {
    for (const HopRef& hop : transaction.locked) send(hop.node, Abort{id, hop.hop});
  } else {
    commit(id, transaction);
  }
  send(transaction.proposer, Proposed{transaction.refused ? Outcome::kAborted : Outcome::kDone});
}

void Node::commit(TransactionId id, const Transaction& transaction) {
  const Move& move = transaction.move;
  const CarriedHop &f = move.theirs, &g = move.own;
  HopRef their{transaction.proposer, f.hop}, own{setup_.id, g.hop};
  const auto tell = [&](const HopRef& hop, std::optional<HopRef> last, std::optional<HopRef> next) {
    send(hop.node, Commit{id, hop.hop, last, next, {}, false});
  };
  // The own hop changes as those of the other parties do.
  const auto own_commit = [&](std::optional<HopRef> last, HopRef next, std::uint32_t target) {
    hops_.at(own.hop).lock = id;
    on(setup_.id, Commit{id, own.hop, last, next, target, false});
  };
  switch (move.kind) {
    case MoveKind::kChange:
      own_commit({}, f.next, g.target);
      tell(their, {}, g.next);
      tell(f.next, own, {});
      tell(g.next, their, {});
      break;
    case MoveKind::kPlaces:
      own_commit(f.last, f.next, f.target);
      send(their.node, Commit{id, their.hop, g.last, g.next, g.target, false});
      tell(f.last, {}, own);
      tell(f.next, own, {});
      tell(g.last, {}, their);
      tell(g.next, their, {});
      break;
    case MoveKind::kTake:
      own.hop = next_hop_++;
      hops_[own.hop].pending = true;
      own_commit(f.last, f.next, f.target);
      send(their.node, Commit{id, their.hop, {}, {}, {}, true});
      tell(f.last, {}, own);
      tell(f.next, own, {});
      break;
    case MoveKind::kGive:
      their.hop = transaction.made;
      hops_.erase(own.hop);
      changed();
      send(their.node, Commit{id, their.hop, g.last, g.next, g.target, false});
      tell(g.last, {}, their);
      tell(g.next, their, {});
      break;
  }
}

void Node::on(std::uint32_t, const Commit& commit) {
  const auto found = hops_.find(commit.hop);
  if (found == hops_.end() || found->second.lock != commit.transaction || !commit.transaction) {
    ++ignored_;
    return;
  }
  Hop& hop = found->second;
  if (commit.free && !hop.sink) {
    hops_.erase(found);
    return changed();
  }
  hop.pending = false;
  if (commit.target && !hop.sink) hop.target = *commit.target;
  if (commit.next && !hop.sink) {
    hop.next = *commit.next;
    hop.next_cost_version = 0;
    if (hop.early && hop.early->from == hop.next) {
      hop.next_cost = hop.early->cost;
      hop.next_cost_version = hop.early->cost_version;
    }
    hop.early.reset();
    if (link(hop.next) == kNoLink) hop.broken = hop.next;  // lost while this was agreed upon
  }
  if (commit.last) hop.last = *commit.last;
  if (hop.last && LinkCosts::of(costs_->from_last, hop.last.node) == kNoLink) hop.last = {};
  unlock(commit.hop);
  if (const auto still = hops_.find(commit.hop); still != hops_.end()) tell_cost(commit.hop, still->second);
  changed();
}

void Node::on(std::uint32_t, const Abort& abort) {
  const auto found = hops_.find(abort.hop);
  if (found == hops_.end() || found->second.lock != abort.transaction || !abort.transaction) {
    ++ignored_;
  } else if (found->second.pending) {
    hops_.erase(found);  // room that a move did not take after all
  } else {
    unlock(abort.hop);
  }
}

}  // namespace tributary::flow::gwtf
