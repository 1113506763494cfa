#include "swarm/detector.h"

#include <algorithm>
#include <utility>

namespace tributary::swarm {

std::string PaceOptions::check() const {
  std::string faults;
  if (ping <= Duration::zero()) faults += "ping must be above 0; ";
  if (suspect_floor < 2 * ping) faults += "suspect_floor must be at least twice ping, or one lost ping is a death; ";
  if (stuck_floor <= suspect_floor) faults += "stuck_floor must be above suspect_floor; ";
  if (retry_floor <= suspect_floor) faults += "retry_floor must be above suspect_floor; ";
  if (retry_first < retry_floor) faults += "retry_first must not be below retry_floor; ";
  return faults;
}

bool Detector::heard(Time now, NodeId peer) {
  auto& entry = peers_[peer];
  const bool known = entry.heard != Time::min();
  entry.heard = std::max(entry.heard, now);
  if (suspected_.empty() || suspected_.erase(peer) == 0) return false;
  ++changes_;
  wake_ = now;
  return known;
}

// RFC 6298's estimators.
void Detector::sample(Time now, NodeId peer, Duration round_trip) {
  auto& entry = peers_[peer];
  entry.sampled = now;
  changed_links_.insert(peer);
  entry.quick = entry.quick == Duration::zero() || round_trip < entry.quick
                    ? std::max(round_trip, Duration(1))
                    : entry.quick + (round_trip - entry.quick) / 8;
  if (entry.smoothed == Duration::zero()) {
    entry.smoothed = std::max(round_trip, Duration(1));
    entry.deviation = round_trip / 2;
    return;
  }
  const auto error = round_trip > entry.smoothed ? round_trip - entry.smoothed : entry.smoothed - round_trip;
  entry.deviation = (entry.deviation * 3 + error) / 4;
  entry.smoothed = std::max((entry.smoothed * 7 + round_trip) / 8, Duration(1));
}

void Detector::lost(NodeId peer) {
  if (suspected_.insert(peer).second) ++changes_;
}

void Detector::watch(Time now, const std::vector<NodeId>& peers) {
  const bool same = std::equal(peers.begin(), peers.end(), watched_.begin(), watched_.end(),
                               [](NodeId a, const auto& b) { return a == b.first; });
  if (same) return;
  std::vector<std::pair<NodeId, Peer*>> watched;
  watched.reserve(peers.size());
  auto before = watched_.begin();
  const auto drop_until = [&](auto end) {
    for (; before != end; ++before) before->second->watched_since = kNever;
  };
  for (const auto node : peers) {
    drop_until(std::find_if(before, watched_.end(), [&](const auto& entry) { return entry.first >= node; }));
    if (before != watched_.end() && before->first == node) {
      watched.push_back(*before++);
      continue;
    }
    auto& peer = peers_[node];
    peer.watched_since = now;
    watched.emplace_back(node, &peer);
  }
  drop_until(watched_.end());
  watched_ = std::move(watched);
  find_wake(now);
}

Duration Detector::deadline(NodeId node) const {
  const auto at = peers_.find(node);
  return at == peers_.end() ? pace_.suspect_floor * 3 : deadline(at->second);
}

Duration Detector::deadline(const Peer& peer) const {
  // A peer not yet measured is not a peer of zero delay.
  if (peer.smoothed == Duration::zero()) return pace_.suspect_floor * 3;
  return pace_.suspect_floor +
         Duration(static_cast<std::int64_t>(pace_.suspect_round_trips * static_cast<double>(peer.smoothed.count()) +
                                            pace_.suspect_deviations * static_cast<double>(peer.deviation.count())));
}

// Without a measurement it is pinged at once; a peer that talks anyway needs no ping.
Time Detector::ping_at(const Peer& peer) const {
  if (peer.pinged == Time::min() && peer.smoothed == Duration::zero()) return Time::min();
  const auto last = std::max(peer.pinged, peer.heard);
  return last == Time::min() ? Time::min() : last + pace_.ping;
}

Detector::Due Detector::due(Time now) {
  Due due;
  if (now < wake_) return due;
  for (const auto& [node, peer] : watched_) {
    if (now >= silent_since(*peer) + deadline(*peer) && suspected_.insert(node).second) {
      due.suspects.push_back(node);
      ++changes_;
    }
    if (now < ping_at(*peer)) continue;
    peer->pinged = now;
    due.pings.push_back(node);
  }
  find_wake(now);
  return due;
}

void Detector::find_wake(Time now) {
  wake_ = kNever;
  for (const auto& [node, peer] : watched_) {
    wake_ = std::min(wake_, ping_at(*peer));
    if (!suspected_.contains(node)) wake_ = std::min(wake_, silent_since(*peer) + deadline(*peer));
  }
  if (wake_ != kNever) wake_ = std::max(wake_, now + pace_.ping / 8);
}

Duration Detector::link_delay(NodeId peer) const {
  const auto at = peers_.find(peer);
  return at == peers_.end() ? Duration::zero() : at->second.quick;
}

void Detector::measured(NodeId node, double bytes_per_s) {
  if (bytes_per_s <= 0) return;
  auto& known = peers_[node].bytes_per_s;
  known = known == 0 ? bytes_per_s : known + 0.25 * (bytes_per_s - known);
  changed_links_.insert(node);
}

void Detector::all_changed() {
  for (const auto& [node, peer] : peers_)
    if (peer.sampled != Time::min() || peer.bytes_per_s > 0) changed_links_.insert(node);
}

std::uint32_t Detector::kilobytes_per_s(NodeId peer) const {
  const auto at = peers_.find(peer);
  const double known = at == peers_.end() ? 0 : at->second.bytes_per_s / 1000;
  return known == 0 ? 0 : static_cast<std::uint32_t>(std::clamp(known, 1.0, 4e9));
}

Time Detector::sampled(NodeId peer) const {
  const auto at = peers_.find(peer);
  return at == peers_.end() ? Time::min() : at->second.sampled;
}

Duration Detector::round_trip(NodeId peer, Duration fallback) const {
  const auto at = peers_.find(peer);
  return at == peers_.end() || at->second.smoothed == Duration::zero() ? fallback : at->second.smoothed;
}

}  // namespace tributary::swarm
