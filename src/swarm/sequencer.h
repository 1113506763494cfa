// The leader's part: it knows who is there, what each has done, and turns that into orders (who owns which
// contribution, who does again what was lost) and decisions for the log (begin, exclude, commit, checkpoint). All it
// knows beyond the log is soft: a new leader gathers it again from the nodes' reports, which are whole and repeated, so
// every choice is a function of the log and the latest reports. Only the voter that leads runs it.
//
// Protocol thread only. Memory: one entry a node that ever said hello; work: one pass over parts x microbatches a
// report.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "swarm/context.h"
#include "swarm/placement.h"
#include "swarm/planner.h"
#include "swarm/raft.h"

namespace tributary::swarm {

class Sequencer {
 public:
  Sequencer(Context& context, Raft& raft) : context_(context), raft_(raft) {}

  // Sends to any node, this one included.
  std::function<void(NodeId, wire::Body)> deliver;

  // To be called after every event; does nothing unless this voter leads and something may have changed.
  void evaluate();
  // Somebody fell silent.
  void touch() { touched_ = true; }
  void hello(NodeId from, const wire::Hello& hello);
  void report(NodeId from, const wire::Report& report);
  void leave(NodeId from, const wire::Leave& leave);
  void stuck(NodeId from);
  void halt() { halt_ = touched_ = true; }
  // This node itself takes part in the end of the run: a halted run that it sees is not one to be resumed.
  void finishing() { finishing_ = touched_ = true; }
  void add_watched(std::vector<NodeId>& peers) const;
  // Rises whenever add_watched() may give others.
  std::uint64_t watch_changes() const { return watch_changes_; }
  Time next_wake() const;

  // The run is over and everybody who lives knows it.
  bool may_exit() const;
  // Why nothing moves, for people; empty while things move.
  std::string waiting_for() const;
  const std::string& fatal() const { return fatal_; }

 private:
  struct Peer {
    Incarnation incarnation;
    std::optional<wire::Hello> hello;
    std::optional<wire::Report> report;
    std::uint64_t heard_term = 0;  // the last term of its own leadership in which it said something
    bool dead = false;
    bool leaving = false;
    std::string refusal;         // why it may never come back; empty: it may, as a new incarnation
    Time silent_since = kNever;  // suspected since
    Time ledger_sent_at = Time::min();
    std::uint64_t ledger_sent = 0;
    Time orders_sent_at = Time::min();
    std::set<wire::SavedState> saved;
    bool shared_disk = false;
    // Measured, also in its former lives.
    std::uint32_t forward_us = 0, backward_us = 0;
    std::map<NodeId, wire::LinkSample> links;
    StageId stage;  // that it held, or is to hold
    Time died_at = kNever;
  };
  struct StageOrders {
    std::uint64_t revision = 0;
    wire::Orders content;  // without assignments
    std::map<NodeId, std::vector<wire::Assignment>> assignments;
  };
  using PartKey = std::pair<PartId, MicrobatchId>;

  // A new life of the node: what was measured of it stays.
  void reborn(Peer& peer, Incarnation incarnation);
  static void measure(Peer& peer, const wire::Report& report);
  void plan_ahead();
  std::vector<Placement::Move> moves_now();
  void activate();
  bool nothing_new() const;
  void decide();
  void judge_silence();
  bool live(const wire::Member& member) const;
  // A full member, living.
  bool serves(NodeId node, StageId stage) const;
  const wire::Report* current_report(const wire::Member& member) const;
  // ... whose sums are of the set that counts now: its sender knew all that is excluded.
  const wire::Report* settled_report(const wire::Member& member) const;
  // Living ones.
  std::vector<const wire::Member*> members(StageId stage, bool listeners) const;
  void spread_ledger();
  // So long, in large swarms, reports gather before they are looked at together.
  Duration gather() const;
  // What of a node's own differs from the run's; empty: nothing that is known here.
  std::string difference_from_run(NodeId from, const wire::Hello& hello) const;
  void tell_expired(NodeId node, const Peer& peer);

  bool try_start();
  Iteration found_checkpoint() const;
  std::optional<wire::Plan> plan_from_checkpoint(Iteration checkpoint, bool with_leaving);
  void remember_saved(Peer& peer, bool shared_disk, const std::vector<wire::SavedState>& states);
  bool can_load(const Peer& peer, StageId stage, Iteration checkpoint) const;
  Candidate candidate(NodeId node, const Peer& peer, StageId stage, bool listener) const;

  bool exclude_bad();
  bool admit_newcomers();
  StageId place_for(NodeId node, const wire::Hello& hello, const std::function<std::vector<Candidate>()>& others) const;
  void index_members();
  void index_reports();
  // Who has the contribution; empty: nobody.
  const std::vector<NodeId>& holders(PartKey key) const {
    return holders_[key.first.value() * std::size_t{context_.microbatches()} + key.second.value()];
  }
  bool held(PartKey key) const { return !holders(key).empty(); }
  // Every microbatch that counts has come back to its data node.
  bool all_back() const;
  void assign_orphans();
  void assign(PartKey key);
  NodeId neighbour(PartId part, MicrobatchId microbatch) const;
  wire::Orders make_orders(StageId stage) const;
  void send_orders();
  bool try_commit();
  wire::Plan next_plan();
  Chains found_chains(const std::vector<Candidate>& candidates);
  void complete_checkpoints();

  Context& context_;
  Raft& raft_;
  std::uint64_t active_term_ = 0;
  // What evaluate() saw last, and when it looks again though nothing touches it.
  bool touched_ = true, seen_pending_ = false;
  bool reported_ = false;  // progress that can wait for more of it
  Time decided_at_ = Time::min();
  std::uint64_t watch_changes_ = 0;
  std::uint64_t seen_index_ = 0;
  Time look_again_at_{};
  std::map<NodeId, Peer> peers_;
  std::set<wire::SavedState> shared_saved_;  // by anybody, on the disk that several see
  // Of the running iteration; soft.
  wire::Stamp stamp_;
  std::size_t excluded_ = 0;                                // microbatches ...
  std::uint64_t excluded_index_ = 0;                        // ... and the log's index at which that was seen
  std::vector<std::vector<const wire::Member*>> by_stage_;  // living members; of this decision
  std::vector<NodeId> dead_;                                // members that do not live; of this decision
  std::vector<std::vector<NodeId>> holders_;                // by part, then microbatch; see holders()
  std::vector<const std::vector<NodeId>*> hops_;            // by microbatch; null: its embedding is nowhere yet
  // The search for better places, one an iteration; and what it has found so far.
  std::unique_ptr<Placement> placement_;
  wire::Stamp placed_;
  Placement::Target target_;
  int promising_ = 0;               // iterations in a row whose search ended far better than the present
  std::uint64_t moving_until_ = 0;  // iterations in which smaller gains are worth a move too
  Time search_at_{};
  std::map<PartKey, NodeId> assigned_;
  std::map<PartKey, Time> uncovered_since_;
  std::map<StageId, StageOrders> orders_;
  // What the present orders were made from, and of which stages more has been reported since.
  std::map<PartKey, NodeId> ordered_assigned_;
  std::uint64_t ordered_index_ = 0;
  std::vector<NodeId> ordered_dead_;
  std::set<StageId> to_order_;
  Time start_possible_since_ = kNever;
  Time start_again_at_ = Time::min();
  std::uint32_t failed_epoch_ = 0;
  int failed_starts_ = 0;
  std::string waiting_for_;
  Time iteration_since_{};        // when the running iteration began
  double usual_iteration_s_ = 0;  // 0: none measured
  std::string fatal_;
  bool halt_ = false;
  bool finishing_ = false;
};

}  // namespace tributary::swarm
