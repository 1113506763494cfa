// How a joiner gets its stage's state while training goes on: ranges from several donors, each as of its own iteration,
// brought up to date by the committed results that the joiner receives as a listener. No donor keeps a snapshot.
// Protocol thread only. Bound: kOutstanding requests at a time.
#pragma once
#include <map>
#include <set>
#include <vector>

#include "swarm/context.h"
#include "swarm/reduction.h"

namespace tributary::swarm {

class StateSync {
 public:
  static constexpr std::size_t kOutstanding = 4;

  StateSync(Context& context, Reduction& reduction) : context_(context), reduction_(reduction) {}

  // Joiner: fetch `stage` (of `size` elements). The results of iterations from the ledger's on are going to arrive.
  void begin(StageId stage, std::uint64_t size);
  void stop();
  // All tasks are forgotten (Context::reset_tasks).
  void reset();
  bool active() const { return active_; }
  // All ranges hold the state before the ledger's iteration.
  bool complete() const;
  // The result of `commit` is in the compute thread's hands: advances the ranges that wait for it.
  void apply(const wire::Commit& commit, const StepParameters& step);
  void receive(NodeId from, const wire::StateChunk& message, Payload payload);
  void receive(NodeId from, const wire::NoState& message);
  void peer_lost(NodeId peer);
  void tick();
  void add_awaited(std::vector<NodeId>& peers) const;

  // Donor: `holding` says that this node has the stage's whole state, as before the ledger's iteration.
  void serve(NodeId from, const wire::WantState& message, bool holding, StageId stage, std::uint64_t size);

 private:
  struct Chunk {
    Range range;
    bool written = false;
    Iteration version;
    NodeId asked = wire::kNobody;
    Time asked_at{};
    std::uint32_t tries = 0;
  };
  void request();
  Chunk* chunk_at(std::uint64_t begin);
  Duration patience(const Chunk& chunk) const;

  Context& context_;
  Reduction& reduction_;
  bool active_ = false;
  StageId stage_;
  std::vector<Chunk> chunks_;
  std::map<Iteration, StepParameters> steps_;  // of kept results
  std::size_t serving_ = 0;
  double usual_s_ = 0;  // from asking for a chunk to having it; 0: not measured
};

}  // namespace tributary::swarm
