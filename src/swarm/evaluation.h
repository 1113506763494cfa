// The held-out loss of a running swarm: now and then the first data node sends held-out batches down the plan's paths,
// forward only, ahead of the iteration's microbatches. Nobody keeps anything of them. A batch that is lost with a node
// is sent again; if the iteration ends first, the whole evaluation is done in the next one instead.
//
// Protocol thread only. Only data nodes need to know `evaluate_batches`. Bound: so many results here; at most
// kMostOfOne tasks a batch, part and iteration.
#pragma once
#include <map>
#include <set>
#include <vector>

#include "swarm/context.h"

namespace tributary::swarm {

class Evaluation {
 public:
  static constexpr std::uint32_t kMostBatches = 256;

  explicit Evaluation(Context& context) : context_(context) {}

  // The ledger's iteration begins, of which this node is a member. To be called before Pipeline::begin, so that the
  // held-out batches go first: then the iteration cannot end without them unless one is lost.
  void begin(bool member, StageId stage);
  void receive(NodeId from, const wire::Evaluate& message, Payload payload);
  void peer_lost(NodeId peer);
  void tick();
  Time next_wake() const;
  void add_awaited(std::vector<NodeId>& peers) const;

 private:
  static constexpr int kMostOfOne = 8;

  void send_out(std::uint32_t batch);
  void compute(PartId part, std::uint32_t batch, std::vector<NodeId> path, Payload input);
  void forward(PartId to, std::uint32_t batch, std::vector<NodeId> path, const Payload& output);
  bool waiting() const { return !missing_.empty(); }

  Context& context_;
  bool member_ = false;
  StageId stage_;
  static constexpr std::uint64_t kUnknown = ~std::uint64_t{0};
  std::uint64_t last_done_ = kUnknown;                    // iterations done when the last evaluation was complete
  std::map<std::uint32_t, std::vector<NodeId>> missing_;  // batch -> its way
  std::map<std::uint32_t, double> losses_;
  std::map<std::pair<PartId, std::uint32_t>, int> computed_;  // this iteration
  Time sent_at_{};
};

}  // namespace tributary::swarm
