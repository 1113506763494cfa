// Who can be reached: round trips as measured, and suspicion from silence. A suspicion is this node's own and ends when
// the peer is heard again; a death is the leader's word (or a newer incarnation) and lasts for the plan.
// Protocol thread only. Memory: one entry a peer ever watched or heard.
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

  // Whose silence matters from now on, ascending; a newly watched peer has a full deadline from now.
  void watch(Time now, const std::vector<NodeId>& peers);
  // Watched peers that are to be pinged now; and those whose silence has lasted too long, once each.
  struct Due {
    std::vector<NodeId> pings, suspects;
  };
  Due due(Time now);
  // Not after the first ping or deadline that is due by more than an eighth of the pace of pings: with a thousand peers
  // one would be due at any time.
  Time next_wake() const { return wake_; }

  bool suspected(NodeId peer) const { return suspected_.contains(peer); }
  const std::set<NodeId>& suspected() const { return suspected_; }
  // Smoothed round trip, or `fallback` if none was measured.
  Duration round_trip(NodeId peer, Duration fallback = milliseconds(100)) const;
  // What the way there and back takes when nothing is in its way, for the planner; zero: not measured.
  Duration link_delay(NodeId peer) const;
  // When its round trip was last measured; Time::min(): never.
  Time sampled(NodeId peer) const;
  // Peers whose delay or rate was measured since they were last told(), ascending; all_changed(): all that have one.
  const std::set<NodeId>& changed_links() const { return changed_links_; }
  void told(NodeId peer) { changed_links_.erase(peer); }
  void all_changed();
  // How fast large messages leave for the peer; 0: none was measured.
  void measured(NodeId peer, double bytes_per_s);
  std::uint32_t kilobytes_per_s(NodeId peer) const;
  Duration deadline(NodeId peer) const;
  // Rises whenever somebody is suspected, or no longer.
  std::uint64_t changes() const { return changes_; }

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
  };
  Time silent_since(const Peer& peer) const { return std::max(peer.heard, peer.watched_since); }
  Duration deadline(const Peer& peer) const;
  Time ping_at(const Peer& peer) const;
  void find_wake(Time now);

  const PaceOptions pace_;
  std::map<NodeId, Peer> peers_;
  std::vector<std::pair<NodeId, Peer*>> watched_;  // ascending
  std::set<NodeId> suspected_, changed_links_;
  std::uint64_t changes_ = 0;
  Time wake_ = kNever;
};

}  // namespace tributary::swarm
