// A node's share of the pipeline: the microbatches that pass through it in the running iteration, forward and backward,
// and everything that must be done again because somebody died.
//
// One rule drives all of it. A `Work` is one (part, microbatch) here; it needs an activation from the part before and a
// gradient from the part after, and owes its activation to those after and its gradient to those before. In the normal
// case inputs are pushed; whatever is missing because a neighbour died is asked for (Want) from whoever now does that
// part, who in turn asks for what it lacks, in the end from the tokens. What was computed is kept until the iteration's
// commit is applied, so a neighbour that has it answers without computing.
//
// Protocol thread only. Bound: at most one Work a part and microbatch, so 2 M of them, each with four payloads.
#pragma once
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "swarm/context.h"
#include "swarm/greedy_hops.h"

namespace tributary::swarm {

class Pipeline {
 public:
  explicit Pipeline(Context& context) : context_(context), greedy_(context) {}

  // Asked before a finished contribution is folded; false discards it (another node owns it).
  std::function<bool(std::uint32_t key)> wants_fold = [](std::uint32_t) { return true; };
  // The set of folded or bad microbatches has changed.
  std::function<void()> on_change = [] {};

  // Drops all of the former iteration; if `member`, takes part in the ledger's iteration: a data node launches its
  // microbatches.
  void begin(bool member, StageId stage);

  void receive(NodeId from, const wire::Forward& message, Payload payload);
  void receive(NodeId from, const wire::Backward& message, Payload payload);
  void receive(NodeId from, const wire::Want& message);
  // The leader wants this part of this microbatch from this node.
  void assign(const wire::Assignment& assignment);
  void peer_lost(NodeId peer);
  // The ledger's excluded set has grown.
  void drop_excluded();
  // Asks again where an answer is overdue; `all`: those who found nobody to ask try again too.
  void tick(bool all);
  // Starts the next task if the compute thread is free; to be called after every event.
  void pump();
  Time next_wake() const;
  // Peers whose answer something here waits for; some more than once.
  void add_awaited(std::vector<NodeId>& peers) const;

  const std::set<std::uint32_t>& folded() const { return folded_; }
  // Requires a folded key. Takes its contribution out of the sum again.
  void retract(std::uint32_t key);
  void fill(wire::Report& report) const;
  std::uint64_t kept_bytes() const;
  // One line a microbatch that is not finished here: what it waits for. For people.
  std::string describe() const;
  int slots_used() const { return slots_used_; }

 private:
  struct Work {
    PartId part;
    MicrobatchId microbatch;
    std::vector<NodeId> hops;  // by part: who does it, as far as known here
    std::set<NodeId> avoid;    // suspected by those who asked
    Payload act_in, act_out, grad_in, grad_out;
    std::set<NodeId> act_waiters, act_sent, grad_waiters, grad_sent;
    bool repair = false;  // stands in for somebody: asks rather than waits, needs no slot
    bool forward_queued = false, forward_done = false;
    bool backward_queued = false, done = false;  // done: the contribution was made
    bool holds_slot = false;
    bool next_engaged = false, prev_asked = false;
    bool grad_delivered = false;
    NodeId chosen = wire::kNobody;  // for the next part, by a sender that chooses (GreedyHops)
    Time next_at{}, prev_at{}, chosen_at{};
    int next_tries = 0, prev_tries = 0;
    double loss = 0;
    std::uint64_t tokens = 0;
  };
  using Key = std::pair<PartId, MicrobatchId>;
  static PartId before(PartId part) { return PartId(static_cast<std::uint16_t>(part.value() - 1)); }
  static PartId after(PartId part) { return PartId(static_cast<std::uint16_t>(part.value() + 1)); }
  struct Ready {
    Key key;
    bool backward;
  };

  bool accepts(PartId part, MicrobatchId microbatch, std::size_t hops) const;
  bool excluded(MicrobatchId microbatch) const;
  Work& open(PartId part, MicrobatchId microbatch);
  void learn(Work& work, NodeId from, const std::vector<NodeId>& hops, const std::vector<NodeId>& suspects,
             bool upstream);
  NodeId resolve(Work& work, PartId part);
  void ask_previous(Work& work, bool again);
  void ask_next(Work& work, bool again);
  void advance(Work& work);
  void deliver(Work& work);
  void engage_next(Work& work);
  void queue(Work& work, bool backward);
  void start_forward(Work& work);
  void start_backward(Work& work);
  void finished(Key key, const TaskResult& result, bool backward);
  bool ask_another(Work& work, const TaskResult& result, bool backward);
  void settle(Work& work);
  void release_slot(Work& work);
  void launch();
  Task task_for(const Work& work, TaskKind kind) const;
  std::uint32_t key_of(const Work& work) const;
  Duration patience(int tries) const;

  Context& context_;
  GreedyHops greedy_;
  bool member_ = false;
  StageId stage_;
  std::map<Key, Work> works_;
  std::set<std::uint32_t> folded_;
  std::set<MicrobatchId> bad_;
  std::vector<Ready> ready_;
  int slots_used_ = 0;
  std::vector<MicrobatchId> to_launch_;  // reversed: the next one is last
  int launched_open_ = 0;
  double usual_wait_s_ = 0;  // from handing on an activation to its gradient, at most of late; 0: not measured
};

}  // namespace tributary::swarm
