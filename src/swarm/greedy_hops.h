// swarm.router = "swarm": whoever sends an activation chooses the relay that does the next part, as SWARM's published
// code does: the least moving average of the delay from sending to the gradient, 0.6 of the old and 0.4 of what was
// seen, at first 0.5 s, so that every peer is tried. The plan's path is where a microbatch would go otherwise.
//
// A relay that has as many of this sender's microbatches as it has slots is passed over; it need not refuse by a
// message (whose payload would have travelled in vain), and inputs that several senders gave it beyond its slots wait
// there. What a lost relay kept one waiting enters its average too. Protocol thread only.
#pragma once
#include <map>
#include <set>

#include "swarm/context.h"

namespace tributary::swarm {

class GreedyHops {
 public:
  explicit GreedyHops(const Context& context) : context_(context), used_(context.options.run.router == "swarm") {}

  bool used() const { return used_; }
  // An iteration begins: nothing is out any more. What was learnt stays.
  void begin() { out_.clear(); }
  // For the microbatch to be sent now; then took() must follow, if ever the gradient comes. Nobody, if none is usable.
  NodeId choose(StageId stage, MicrobatchId microbatch, const std::set<NodeId>& avoid);
  void took(NodeId relay, Duration delay);
  // Seconds.
  double average(NodeId relay) const;

 private:
  static constexpr double kOld = 0.6, kStart_s = 0.5;

  const Context& context_;
  const bool used_;
  std::map<NodeId, double> average_s_;
  std::map<NodeId, int> out_;  // sent, and no gradient yet
};

}  // namespace tributary::swarm
