// One node of an island: the protocol as a state machine. Events in, effects out; no thread, socket, clock or tensor.
// The same object runs in the real world (src/node) and in the simulated one (src/sim).
//
// Parts: Raft (voters: the log of decisions), Sequencer (the leader: orders and decisions), Pipeline (microbatches),
// Reduction (gradient sums), StateSync (joining). This class routes messages to them, follows the ledger from iteration
// to iteration, and reports to the leader. One thread only.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "swarm/context.h"
#include "swarm/evaluation.h"
#include "swarm/local_routing.h"
#include "swarm/pipeline.h"
#include "swarm/raft.h"
#include "swarm/reduction.h"
#include "swarm/sequencer.h"
#include "swarm/state_sync.h"

namespace tributary::swarm {

class Node {
 public:
  static constexpr std::size_t kMostEarly = 4096;
  enum class Phase { kOutside, kLoading, kListening, kWorking, kFinishing, kGone };

  // `log`: what this voter's disk holds (empty for a new one; ignored for nodes that are no voters).
  Node(const NodeOptions& options, const wire::DurableLog& log, Time now, PlantedBugs bugs = {});

  // Handles one event, or with Woken just the time, and appends what is to be done to `effects`, in order.
  void handle(Time now, const Event& event, std::vector<Effect>& effects);
  // Woken is due then, unless another event comes first.
  Time next_wake() const;

  // For status, progress and checkers; not for the protocol.
  Phase phase() const { return phase_; }
  StageId stage() const { return stage_; }
  bool holding() const { return holding_; }
  Incarnation incarnation() const { return context_.incarnation; }
  const wire::Ledger& ledger() const { return context_.ledger; }
  std::uint64_t weights_hash() const { return weights_hash_; }
  bool leading() const { return raft_ && raft_->ready(); }
  NodeId leader() const { return context_.leader; }
  const Counters& counters() const { return context_.counters; }
  const Pipeline& pipeline() const { return pipeline_; }
  const LocalRouting& routing() const { return routing_; }
  const Raft* raft() const { return raft_ ? &*raft_ : nullptr; }
  const Sequencer* sequencer() const { return sequencer_ ? &*sequencer_ : nullptr; }
  const Context& context() const { return context_; }
  // Messages kept for an iteration that is not reached yet; at most kMostEarly.
  std::size_t early_messages() const { return early_.size(); }
  std::string why_waiting() const;
  // Several lines: where this node stands and whom it waits for.
  std::string describe() const;

 private:
  static constexpr std::size_t kMostSaved = 256;
  static constexpr std::size_t kMostLinksTold = 64;  // in one report
  static constexpr int kRetold = 120;                // reports, until all links are told again

  void dispatch(const Event& event);
  void receive(NodeId from, const wire::Message& message);
  template <class T>
  void receive_stamped(NodeId from, const T& body, const wire::Message& message);
  void deliver(NodeId to, wire::Body body);
  void to_leader(wire::Body body);
  void settle();

  void on(NodeId from, const wire::Orders& orders);
  void on(NodeId from, const wire::LedgerUpdate& update);
  void on(NodeId from, const wire::LedgerTail& tail);
  void on(NodeId from, const wire::HelloReply& reply);
  void on(NodeId from, const wire::Hello& hello);
  void on(NodeId from, const wire::Report& report);
  void on(NodeId from, const wire::Leave& leave);
  void peer_lost(NodeId peer);

  void follow(const wire::Ledger& ledger);
  void follow_latest();
  void enter_epoch();
  void loaded(const TaskResult& result);
  void begin_iteration();
  void take_part();
  void probe_links();
  void listen();
  void move_to(StageId stage);
  void pursue_commit();
  std::vector<NodeId> result_sources(NodeId named) const;
  void applied(const wire::Commit& commit, std::uint64_t weights_hash);
  void save_if_due();
  void rejoin();
  // Tasks, microbatches, sums and state: nothing of the former epoch or life counts any more.
  void drop_work();
  void leave_now();
  void finish();

  void tick();
  void say_hello();
  void report_now();
  wire::Report make_report();
  void tell_links(wire::Report& report);
  const wire::Commit* commit_of(Iteration iteration) const;
  std::uint64_t size_of(StageId stage) const { return context_.options.run.state_sizes[stage.value()]; }
  bool run_over() const {
    return context_.ledger.halted || context_.ledger.iteration.value() >= context_.options.run.iterations;
  }
  void watch_peers();
  bool is_voter() const { return raft_.has_value(); }
  // Of whom can be reached, and what the log says.
  std::uint64_t view() const { return context_.changes + context_.detector.changes(); }
  void find_work_wake();

  Context context_;
  Evaluation evaluation_;
  Pipeline pipeline_;
  Reduction reduction_;
  StateSync sync_;
  LocalRouting routing_;
  std::optional<Raft> raft_;            // voters only
  std::optional<Sequencer> sequencer_;  // voters only
  Phase phase_ = Phase::kOutside;
  wire::Ledger latest_;  // as far as the log is known; context_.ledger is what this node works in
  StageId stage_;
  bool holding_ = false;  // the whole state of stage_, as before context_.ledger.iteration
  bool applying_ = false;
  bool leaving_ = false;
  Time fetch_at_ = kNever;
  Time save_again_at_ = kNever;
  std::uint32_t fetch_tries_ = 0;
  std::optional<Time> sourceless_since_;
  std::uint64_t weights_hash_ = 0;
  Iteration saved_;
  std::set<wire::SavedState> inventory_;           // on the disk
  std::map<NodeId, wire::LinkSample> told_links_;  // as the leader knows them
  Time told_all_at_ = Time::min();
  std::uint64_t told_term_ = 0;
  bool report_due_ = false;
  Time report_at_{};
  Time hello_at_{};
  bool busy_ = true;              // the event may have given the parts something to do
  std::uint64_t seen_view_ = 0;   // when the parts looked last
  std::uint64_t seen_watch_ = 0;  // of the sequencer
  Time work_at_{};                // when one of the parts has something to do, though nothing happens
  std::size_t hello_turn_ = 0;
  std::deque<std::pair<NodeId, wire::Body>> local_;     // to this node itself
  std::deque<std::pair<NodeId, wire::Message>> early_;  // for an iteration that is not reached yet
};

}  // namespace tributary::swarm
