#include "swarm/raft.h"

#include <algorithm>
#include <utility>

#include "swarm/ledger.h"

namespace tributary::swarm {

Raft::Raft(const RaftOptions& options, const wire::DurableLog& restored, Random random, Time now)
    : options_(options),
      random_(random),
      term_(restored.term),
      voted_for_(restored.voted_for),
      snapshot_(restored.snapshot),
      snapshot_term_(restored.snapshot_term),
      entries_(restored.entries),
      ledger_(restored.snapshot) {
  stored_index_ = last_index();
  for (const auto voter : options_.voters)
    if (voter != options_.self) peers_[voter];
  reset_election(now);
  if (options_.voters.size() == 1) election_at_ = now;
}

std::uint64_t Raft::term_at(std::uint64_t index) const {
  if (index == snapshot_.index) return snapshot_term_;
  if (index < snapshot_.index || index > last_index()) return 0;
  return entry(index).term;
}

bool Raft::up_to_date(const wire::VoteRequest& request) const {
  const auto own_term = term_at(last_index());
  return request.last_term > own_term || (request.last_term == own_term && request.last_index >= last_index());
}

void Raft::reset_election(Time now) {
  election_at_ = now + options_.election + Duration(random_.between(0, options_.election.count()));
}

void Raft::send(NodeId to, wire::Body body, bool promises) {
  const auto needs = promises ? store_sequence_ + (dirty_ ? 1 : 0) : 0;
  outbox_.push_back({needs, to, std::move(body)});
}

std::vector<std::pair<NodeId, wire::Body>> Raft::take_messages() {
  std::vector<std::pair<NodeId, wire::Body>> out;
  std::vector<Held> held;
  for (auto& message : outbox_) {
    if (message.needs <= stored_sequence_) {
      out.emplace_back(message.to, std::move(message.body));
    } else {
      held.push_back(std::move(message));
    }
  }
  outbox_ = std::move(held);
  return out;
}

wire::DurableLog Raft::durable() const { return {term_, voted_for_, snapshot_term_, snapshot_, entries_}; }

void Raft::stored(Time now, std::uint64_t sequence) {
  stored_sequence_ = std::max(stored_sequence_, sequence);
  while (!index_of_store_.empty() && index_of_store_.begin()->first <= sequence) {
    stored_index_ = index_of_store_.begin()->second;
    index_of_store_.erase(index_of_store_.begin());
  }
  if (leading()) advance_commit(now);
}

void Raft::become_follower(Time now, std::uint64_t term, NodeId leader) {
  if (term > term_) {
    term_ = term;
    voted_for_ = wire::kNobody;
    dirty_ = true;
    index_of_store_[store_sequence_ + 1] = last_index();
  }
  role_ = Role::kFollower;
  leader_ = leader;
  heartbeat_at_ = kNever;
  reset_election(now);
}

void Raft::stand(Time now, bool pre) {
  leader_ = wire::kNobody;
  role_ = pre ? Role::kPreCandidate : Role::kCandidate;
  if (!pre) {
    ++term_;
    voted_for_ = options_.self;
    dirty_ = true;
    index_of_store_[store_sequence_ + 1] = last_index();
  }
  votes_ = {options_.self};
  reset_election(now);
  if (votes_.size() >= majority()) {
    pre ? stand(now, false) : become_leader(now);
    return;
  }
  const wire::VoteRequest request{pre ? term_ + 1 : term_, pre, last_index(), term_at(last_index())};
  for (const auto& [voter, peer] : peers_) send(voter, request, !pre);
}

void Raft::become_leader(Time now) {
  role_ = Role::kLeader;
  leader_ = options_.self;
  for (auto& [voter, peer] : peers_) peer = {last_index() + 1, 0, now, false, Time::min()};
  heartbeat_at_ = now;
  election_at_ = now + options_.election * 2;
  propose(now, wire::NewTerm{});
}

bool Raft::propose(Time now, wire::Decision decision) {
  if (!leading()) return false;
  entries_.push_back({term_, std::move(decision)});
  dirty_ = true;
  index_of_store_[store_sequence_ + 1] = last_index();
  for (auto& [voter, peer] : peers_)
    if (!peer.in_flight) replicate(now, voter, false);
  return true;
}

void Raft::receive(Time now, NodeId from, const wire::VoteRequest& request) {
  if (!peers_.contains(from)) return;
  // A leader that is heard protects its term: a voter cut off for a while cannot unseat it (PreVote).
  const bool leader_alive = leading() || (leader_ != wire::kNobody && now < leader_heard_ + options_.election);
  if (request.pre) {
    const bool grant = !leader_alive && request.term > term_ && up_to_date(request);
    send(from, wire::VoteReply{grant ? request.term : term_, true, grant}, true);
    return;
  }
  if (request.term > term_) {
    if (leader_alive && !leading()) return;
    become_follower(now, request.term, wire::kNobody);
  }
  const bool grant =
      request.term == term_ && (voted_for_ == wire::kNobody || voted_for_ == from) && up_to_date(request);
  if (grant && voted_for_ != from) {
    voted_for_ = from;
    dirty_ = true;
    index_of_store_[store_sequence_ + 1] = last_index();
    reset_election(now);
  }
  send(from, wire::VoteReply{term_, false, grant}, true);
}

void Raft::receive(Time now, NodeId from, const wire::VoteReply& reply) {
  if (!peers_.contains(from)) return;
  if (!reply.granted && reply.term > term_) return become_follower(now, reply.term, wire::kNobody);
  if (!reply.granted) return;
  const bool counts = (reply.pre && role_ == Role::kPreCandidate && reply.term == term_ + 1) ||
                      (!reply.pre && role_ == Role::kCandidate && reply.term == term_);
  if (!counts) return;
  votes_.insert(from);
  if (votes_.size() < majority()) return;
  reply.pre ? stand(now, false) : become_leader(now);
}

void Raft::replicate(Time now, NodeId to, bool even_if_empty) {
  auto& peer = peers_.at(to);
  if (peer.next > last_index() && !even_if_empty) return;
  wire::AppendRequest request;
  request.term = term_;
  request.commit_index = ledger_.index;
  if (peer.next <= snapshot_.index) {
    request.snapshot = snapshot_;
    request.previous_index = snapshot_.index;
    request.previous_term = snapshot_term_;
  } else {
    request.previous_index = peer.next - 1;
    request.previous_term = term_at(peer.next - 1);
  }
  for (auto index = request.previous_index + 1; index <= last_index() && request.entries.size() < 16; ++index)
    request.entries.push_back(entry(index));
  peer.in_flight = !request.entries.empty();
  peer.sent = now;
  // The leader may send what it has not stored itself; it only must not count itself before.
  send(to, std::move(request), false);
}

void Raft::receive(Time now, NodeId from, const wire::AppendRequest& request) {
  if (!peers_.contains(from)) return;
  if (request.term < term_) return send(from, wire::AppendReply{term_, false, last_index()}, true);
  become_follower(now, request.term, from);
  leader_heard_ = now;
  if (request.snapshot && request.snapshot->index > ledger_.index) {
    snapshot_ = *request.snapshot;
    snapshot_term_ = request.previous_term;
    entries_.clear();
    ledger_ = snapshot_;
    dirty_ = true;
  }
  if (request.previous_index > last_index() ||
      (request.previous_index > snapshot_.index && term_at(request.previous_index) != request.previous_term)) {
    const auto hint = std::min(last_index(), request.previous_index - 1);
    return send(from, wire::AppendReply{term_, false, std::max(hint, ledger_.index)}, true);
  }
  auto index = request.previous_index;
  for (const auto& received : request.entries) {
    ++index;
    if (index <= snapshot_.index) continue;
    if (index <= last_index() && term_at(index) == received.term) continue;
    entries_.resize(index - snapshot_.index - 1);
    entries_.push_back(received);
    dirty_ = true;
  }
  if (dirty_) index_of_store_[store_sequence_ + 1] = last_index();
  commit_to(std::min(request.commit_index, index));
  send(from, wire::AppendReply{term_, true, index}, true);
}

void Raft::receive(Time now, NodeId from, const wire::AppendReply& reply) {
  const auto at = peers_.find(from);
  if (at == peers_.end()) return;
  if (reply.term > term_) return become_follower(now, reply.term, wire::kNobody);
  if (!leading() || reply.term < term_) return;
  auto& peer = at->second;
  peer.heard = now;
  peer.in_flight = false;
  if (reply.ok) {
    peer.match = std::max(peer.match, std::min(reply.match_index, last_index()));
    peer.next = peer.match + 1;
    advance_commit(now);
    replicate(now, from, false);
  } else {
    peer.next = std::min(std::max<std::uint64_t>(reply.match_index, peer.match) + 1, last_index() + 1);
    replicate(now, from, true);
  }
}

void Raft::advance_commit(Time now) {
  std::vector<std::uint64_t> matches = {std::min(stored_index_, last_index())};
  for (const auto& [voter, peer] : peers_) matches.push_back(peer.match);
  std::sort(matches.begin(), matches.end(), std::greater<>());
  const auto index = options_.commit_alone ? std::min(stored_index_, last_index()) : matches[majority() - 1];
  if (index <= ledger_.index || term_at(index) != term_) return;
  commit_to(index);
  for (const auto& [voter, peer] : peers_) replicate(now, voter, true);
}

void Raft::commit_to(std::uint64_t index) {
  while (ledger_.index < index) apply_decision(ledger_, entry(ledger_.index + 1).decision);
  while (ledger_.index - snapshot_.index > kKeptEntries) {
    snapshot_term_ = entries_.front().term;
    apply_decision(snapshot_, entries_.front().decision);
    entries_.erase(entries_.begin());
  }
}

std::optional<std::vector<wire::LogEntry>> Raft::committed_since(std::uint64_t index) const {
  if (index < snapshot_.index || index > ledger_.index) return std::nullopt;
  const auto begin = entries_.begin() + static_cast<std::ptrdiff_t>(index - snapshot_.index);
  return std::vector<wire::LogEntry>(begin, begin + static_cast<std::ptrdiff_t>(ledger_.index - index));
}

void Raft::tick(Time now) {
  if (leading()) {
    if (now >= heartbeat_at_) {
      heartbeat_at_ = now + options_.heartbeat;
      for (auto& [voter, peer] : peers_) replicate(now, voter, true);
    }
    if (now >= election_at_) {
      election_at_ = now + options_.election * 2;
      std::size_t heard = 1;
      for (const auto& [voter, peer] : peers_) heard += peer.heard + options_.election * 2 >= now;
      if (heard < majority()) become_follower(now, term_, wire::kNobody);
    }
    return;
  }
  if (now >= election_at_) stand(now, options_.voters.size() > 1);
}

Time Raft::next_wake() const { return std::min(election_at_, heartbeat_at_); }

}  // namespace tributary::swarm
