// The replicated log of decisions: Raft (Ongaro, Ousterhout 2014) with PreVote and CheckQuorum (Ongaro's thesis, 9.6
// and 6.2) among 1, 3 or 5 fixed voters. Protocol thread only. Time is an argument. Holds at most kKeptEntries applied
// entries; what is older lives on in the ledger, which is also the snapshot for voters that fell behind.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/time.h"
#include "wire/codec.h"
#include "wire/messages.h"

namespace tributary::swarm {

struct RaftOptions {
  NodeId self;
  std::vector<NodeId> voters;
  // A follower that hears nothing from a leader for between one and two of these stands for election.
  Duration election = milliseconds(600);
  Duration heartbeat = milliseconds(150);
  bool commit_alone = false;  // planted (PlantedBugs::apply_before_commit): the leader's disk counts as a majority
};

class Raft {
 public:
  static constexpr std::size_t kKeptEntries = 32;

  // `restored` is what the disk held; a voter with an empty disk starts with nothing and may vote: the run's genesis
  // does not distinguish it from a new one, so a voter whose disk was lost must come back under a new id.
  Raft(const RaftOptions& options, const wire::DurableLog& restored, Random random, Time now);

  void receive(Time now, NodeId from, const wire::VoteRequest& request);
  void receive(Time now, NodeId from, const wire::VoteReply& reply);
  void receive(Time now, NodeId from, const wire::AppendRequest& request);
  void receive(Time now, NodeId from, const wire::AppendReply& reply);
  void tick(Time now);
  Time next_wake() const;

  // Leader only, else false. The decision counts once ledger() shows it.
  bool propose(Time now, wire::Decision decision);

  bool leading() const { return role_ == Role::kLeader; }
  // Leader, and an entry of its own term is committed: only then does it know all earlier decisions.
  bool ready() const { return leading() && term_at(ledger_.index) == term_; }
  // The leader that this voter follows, itself included; nobody if it knows none.
  NodeId leader() const { return leader_; }
  std::uint64_t term() const { return term_; }
  // The fold of all committed entries.
  const wire::Ledger& ledger() const { return ledger_; }
  // The committed entries after `index`; nothing if they are no longer kept, or not there yet.
  std::optional<std::vector<wire::LogEntry>> committed_since(std::uint64_t index) const;
  // Entries proposed and not yet committed.
  bool pending() const { return last_index() > ledger_.index; }

  // Effects. When dirty, the host must store durable() and then call stored(); messages that promise what is not stored
  // yet are held back until then.
  bool take_dirty() { return std::exchange(dirty_, false) ? (++store_sequence_, true) : false; }
  std::uint64_t store_sequence() const { return store_sequence_; }
  wire::DurableLog durable() const;
  void stored(Time now, std::uint64_t sequence);
  std::vector<std::pair<NodeId, wire::Body>> take_messages();

 private:
  enum class Role { kFollower, kPreCandidate, kCandidate, kLeader };
  struct Peer {
    std::uint64_t next = 1;
    std::uint64_t match = 0;
    Time heard = Time::min();
    bool in_flight = false;
    Time sent = Time::min();
  };

  std::uint64_t last_index() const { return snapshot_.index + entries_.size(); }
  std::uint64_t term_at(std::uint64_t index) const;
  const wire::LogEntry& entry(std::uint64_t index) const { return entries_[index - snapshot_.index - 1]; }
  std::size_t majority() const { return options_.voters.size() / 2 + 1; }
  bool up_to_date(const wire::VoteRequest& request) const;
  void become_follower(Time now, std::uint64_t term, NodeId leader);
  void stand(Time now, bool pre);
  void become_leader(Time now);
  void replicate(Time now, NodeId to, bool even_if_empty);
  void advance_commit(Time now);
  void commit_to(std::uint64_t index);
  void reset_election(Time now);
  void send(NodeId to, wire::Body body, bool promises);

  const RaftOptions options_;
  Random random_;
  Role role_ = Role::kFollower;
  std::uint64_t term_ = 0;
  NodeId voted_for_ = wire::kNobody;
  NodeId leader_ = wire::kNobody;
  wire::Ledger snapshot_;  // the fold up to the entry before entries_[0]
  std::uint64_t snapshot_term_ = 0;
  std::vector<wire::LogEntry> entries_;
  wire::Ledger ledger_;
  std::set<NodeId> votes_;
  std::map<NodeId, Peer> peers_;
  Time election_at_ = kNever;
  Time heartbeat_at_ = kNever;
  Time leader_heard_ = Time::min();
  bool dirty_ = false;
  std::uint64_t store_sequence_ = 0;
  std::uint64_t stored_sequence_ = 0;
  std::uint64_t stored_index_ = 0;                         // own entries known on disk
  std::map<std::uint64_t, std::uint64_t> index_of_store_;  // store sequence -> last index in it
  struct Held {
    std::uint64_t needs;
    NodeId to;
    wire::Body body;
  };
  std::vector<Held> outbox_;
};

}  // namespace tributary::swarm
