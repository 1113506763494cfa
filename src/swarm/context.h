// What the parts of a node share while an event is handled: the time, who we are, what the log says, and the way to
// act. Protocol thread only.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "swarm/detector.h"
#include "swarm/events.h"
#include "swarm/ledger.h"
#include "swarm/options.h"

namespace tributary::swarm {

// How often the rare paths ran; checkers demand minima of them.
struct Counters {
  std::uint64_t repairs = 0;       // a hop replaced in the pipeline
  std::uint64_t replays = 0;       // work done again for a dead owner
  std::uint64_t deep_replays = 0;  // ... whose neighbour had to be replayed too
  std::uint64_t retractions = 0;
  std::uint64_t duplicates = 0;  // answered from what was kept
  std::uint64_t excluded = 0;
  std::uint64_t stale_orders = 0;
  std::uint64_t resealed = 0;  // orders of a later revision reached a reduction under way
  std::uint64_t adopted = 0;   // a result fetched because the commit named another
  std::uint64_t rewinds = 0;
  std::uint64_t late_chunks = 0;  // state chunks brought up to date by later results
  std::uint64_t joins = 0;
  std::uint64_t promoted = 0;  // listeners that took part within the iteration they caught up in
  std::uint64_t moved = 0;     // to another stage, by the plan
  std::uint64_t rejoins = 0;   // fell behind or was declared dead, came back
  std::uint64_t false_suspicions = 0;
  std::uint64_t early = 0;    // messages for the next iteration, kept
  std::uint64_t dropped = 0;  // messages that no longer, or do not yet, matter
  std::uint64_t retries = 0;
  std::uint64_t elections = 0;
  std::uint64_t routing_messages = 0;  // sent by a local router
  std::uint64_t ill_formed = 0;        // ... received, and no such
  std::uint64_t routed = 0;            // microbatches that a plan leads over flows that local routers found ...
  std::uint64_t unrouted = 0;          // ... and the others
  std::uint64_t rechosen = 0;          // hops that their sender chose, and the plan had not
  void add(const Counters& other);
};
struct CounterRow {
  const char* name;
  std::uint64_t Counters::*value;
};
// Every counter once, in the order of the struct.
std::span<const CounterRow> counter_rows();

class Context {
 public:
  Context(const NodeOptions& node_options, PlantedBugs bugs);

  // --- Acting
  void send(NodeId to, wire::Body body, Payload payload = {});
  // The last effect of this node.
  void exit(ExitReason reason, std::string message);
  // Runs a task; `done` is called with its result unless the state it belongs to was dropped before (reset_tasks).
  // Pipeline tasks wait until no other kind is queued; all others run in the order of the calls.
  void run(Task task, std::function<void(const TaskResult&)> done);
  // Calls `done` once all tasks issued so far (but pipeline tasks) have run.
  void after_tasks(std::function<void()> done);
  bool pipeline_idle() const { return running_ == 0 && urgent_.empty() && pipeline_.empty(); }
  void computed(const TaskResult& result);
  // Forgets queued tasks and the continuations of running ones (a new epoch, a new life).
  void reset_tasks();
  bool stuck() const;
  std::uint64_t tasks_done() const { return tasks_done_; }
  Duration mean_of(TaskKind kind) const;
  // What a forward pass (of a data node: the head, forward and backward in one) takes here, for the planner. It fades
  // while this node gets none, so that one bad measure (a first pass, a busy moment) does not leave it without work for
  // ever: some iterations later it is measured again.
  Duration forward_time(StageId stage) const {
    if (stage == StageId(0)) return mean_of(TaskKind::kHead);
    return Duration(static_cast<std::int64_t>(static_cast<double>(mean_of(TaskKind::kForward).count()) * fade_));
  }
  void iteration_begins();
  Time next_task_check() const;

  // --- Knowing
  wire::Stamp stamp() const { return {ledger.epoch, ledger.iteration}; }
  std::uint16_t stages() const { return options.run.stages; }
  std::uint32_t microbatches() const { return options.run.microbatches; }
  PartId head_part() const { return PartId(static_cast<std::uint16_t>(stages() + 1)); }
  // The stage that does a part.
  StageId stage_of(PartId part) const { return part == head_part() ? StageId(0) : StageId(part.value()); }
  // Usable for work of this plan in `stage`: a member there (who died may be back in another stage), no listener, not
  // dead by the leader's word, not suspected here.
  bool usable(NodeId node, StageId stage) const;
  // Not dead by the leader's word, nor suspected here; a listener may be.
  bool reachable(NodeId node) const;
  // Who stands in for part `part` of `microbatch`: the same choice on every node with the same knowledge. Nobody if
  // there is none outside `avoid`.
  NodeId replacement(PartId part, MicrobatchId microbatch, const std::set<NodeId>& avoid) const;
  // What this node suspects or knows dead among the plan's members, to go with requests.
  std::vector<NodeId> suspects() const;

  const NodeOptions options;
  const PlantedBugs bugs;
  Time now{};
  std::vector<Effect>* effects = nullptr;
  Incarnation incarnation;
  wire::Ledger ledger;
  std::set<NodeId> dead;  // members of the current plan that the leader called dead
  // To be raised whenever the ledger or the dead change: what could not go on before may go on now.
  std::uint64_t changes = 0;
  std::uint64_t term = 0;  // the highest seen from a leader
  NodeId leader = wire::kNobody;
  Detector detector;
  Counters counters;

 private:
  struct Queued {
    Task task;  // id 0: nothing to compute, only a place in the order
    std::function<void(const TaskResult&)> done;
  };
  void issue();

  std::deque<Queued> urgent_;
  std::deque<Queued> pipeline_;
  std::uint64_t next_task_ = 1;
  bool issuing_ = false;
  std::uint64_t running_ = 0;  // id, 0: none
  TaskKind running_kind_ = TaskKind::kForward;
  Time running_since_{};
  std::function<void(const TaskResult&)> running_done_;
  std::uint64_t tasks_done_ = 0;
  std::map<TaskKind, double> mean_s_;
  double fade_ = 1;
  // Of the plan at that index of the log.
  mutable std::map<StageId, std::vector<NodeId>> stand_ins_;
  mutable std::uint64_t stand_ins_index_ = ~std::uint64_t{0};
  bool forward_ran_ = true;  // since the last iteration began
};

}  // namespace tributary::swarm
