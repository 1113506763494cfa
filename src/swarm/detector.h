// Who can be reached: round trips as measured, and suspicion from silence. A suspicion is this node's own and ends when
// the peer is heard again; a death is the leader's word (or a newer incarnation) and lasts for the plan.
// Protocol thread only. Memory: one entry a peer ever watched or heard, dropped by forget().
#pragma once
#include <map>
#include <set>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "swarm/options.h"

namespace tributary::swarm {

class Detector {
 public:
  explicit Detector(const PaceOptions& pace) : pace_(pace) {}

  // Any message is a sign of life. True if the peer had been heard before, and was suspected until now.
  bool heard(Time now, NodeId peer);
  void sample(Time now, NodeId peer, Duration round_trip);
  // The transport lost its connection: suspected at once, until it is heard again.
  void lost(NodeId peer);

  // Sets whose silence matters from now on; a newly watched peer has a full deadline from now.
  void watch(Time now, const std::set<NodeId>& peers);
  // Watched peers that are to be pinged now; and those whose silence has lasted too long, once each.
  std::vector<NodeId> due_pings(Time now);
  std::vector<NodeId> newly_suspected(Time now);
  Time next_wake() const;

  bool suspected(NodeId peer) const;
  // Smoothed round trip, or `fallback` if none was measured.
  Duration round_trip(NodeId peer, Duration fallback = milliseconds(100)) const;
  // What the way there and back takes when nothing is in its way, for the planner; zero: not measured.
  Duration link_delay(NodeId peer) const;
  // When its round trip was last measured; Time::min(): never.
  Time sampled(NodeId peer) const;
  // How fast large messages leave for the peer; 0: none was measured.
  void measured(NodeId peer, double bytes_per_s);
  std::uint32_t kilobytes_per_s(NodeId peer) const;
  Duration deadline(NodeId peer) const;
  void forget(NodeId peer) { peers_.erase(peer); }

 private:
  struct Peer {
    Time heard = Time::min();
    Time watched_since = kNever;  // kNever: not watched
    Time pinged = Time::min();
    Duration smoothed = Duration::zero();  // zero: not measured
    Duration deviation = Duration::zero();
    Duration quick = Duration::zero();  // falls at once, rises slowly
    Time sampled = Time::min();
    double bytes_per_s = 0;  // smoothed; 0: not measured
    bool suspected = false;
  };
  Time silent_since(const Peer& peer) const { return std::max(peer.heard, peer.watched_since); }

  const PaceOptions pace_;
  std::map<NodeId, Peer> peers_;
};

}  // namespace tributary::swarm
