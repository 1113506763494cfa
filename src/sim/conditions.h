// What a scenario's machines and wires are like from moment to moment: traces of speed, stalls, drifting bandwidth,
// wires that several share, and links that are late for a while. Deterministic: a function of the scenario, the seed
// and the order of calls. One for each rehearsal.
#pragma once
#include <map>
#include <vector>

#include "base/random.h"
#include "sim/scenario.h"
#include "sim/world.h"

namespace tributary::sim {

class Conditions {
 public:
  // `scenario` outlives it.
  Conditions(const Scenario& scenario, std::uint64_t seed);

  // How long `work` takes on that machine from `begin` on. A machine's tasks begin in the order of the calls.
  Duration task_takes(NodeId node, Time begin, Duration work);
  Duration latency(NodeId from, NodeId to, Time now) const;
  double bandwidth(NodeId from, NodeId to, Time now) const;  // bytes/s
  // A payload left its sender's uplink from `begin` to `end`: it goes through the wires that its site shares, those of
  // the receiver's site, and the receiver's own downlink, in the order of leaving. Each begins as soon as the first
  // byte is there, so that one that is free and fast costs nothing.
  Time beyond_uplink(NodeId from, NodeId to, double bytes, Time begin, Time end);
  // All links of that machine are late by the scenario's churn.delay_s until then.
  void delay_until(NodeId node, Time until) { late_until_[node] = until; }

 private:
  struct Stalls {
    Random random{0};
    Time begin{}, end{};  // of the last drawn
  };
  struct Site {
    double uplink_Bps = 0, downlink_Bps = 0;
    Time uplink_free{}, downlink_free{};
  };
  Time next_change(const std::vector<SlownessStep>& trace, Time now, double& factor) const;

  const Scenario& scenario_;
  const std::uint64_t seed_;
  std::vector<Stalls> stalls_;
  std::vector<int> site_of_;  // into sites_; -1: not limited
  std::vector<Site> sites_;
  std::vector<Time> downlink_free_;
  std::map<NodeId, Time> late_until_;
};

}  // namespace tributary::sim
