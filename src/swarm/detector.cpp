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
  return std::exchange(entry.suspected, false) && known;
}

// RFC 6298's estimators.
void Detector::sample(Time now, NodeId peer, Duration round_trip) {
  auto& entry = peers_[peer];
  entry.sampled = now;
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

void Detector::lost(NodeId peer) { peers_[peer].suspected = true; }

void Detector::watch(Time now, const std::set<NodeId>& watched) {
  for (auto& [node, peer] : peers_)
    if (!watched.contains(node)) peer.watched_since = kNever;
  for (const auto node : watched) {
    auto& peer = peers_[node];
    if (peer.watched_since == kNever) peer.watched_since = now;
  }
}

Duration Detector::deadline(NodeId node) const {
  const auto at = peers_.find(node);
  // A peer not yet measured is not a peer of zero delay.
  if (at == peers_.end() || at->second.smoothed == Duration::zero()) return pace_.suspect_floor * 3;
  const auto& peer = at->second;
  return pace_.suspect_floor +
         Duration(static_cast<std::int64_t>(pace_.suspect_round_trips * static_cast<double>(peer.smoothed.count()) +
                                            pace_.suspect_deviations * static_cast<double>(peer.deviation.count())));
}

std::vector<NodeId> Detector::due_pings(Time now) {
  std::vector<NodeId> due;
  for (auto& [node, peer] : peers_) {
    if (peer.watched_since == kNever) continue;
    // Without a measurement it is pinged at once; a peer that talks anyway needs no ping.
    const bool unmeasured = peer.smoothed == Duration::zero() && peer.pinged == Time::min();
    if (!unmeasured && (now < peer.pinged + pace_.ping || now < peer.heard + pace_.ping)) continue;
    peer.pinged = now;
    due.push_back(node);
  }
  return due;
}

std::vector<NodeId> Detector::newly_suspected(Time now) {
  std::vector<NodeId> out;
  for (auto& [node, peer] : peers_) {
    if (peer.watched_since == kNever || peer.suspected) continue;
    if (now < silent_since(peer) + deadline(node)) continue;
    peer.suspected = true;
    out.push_back(node);
  }
  return out;
}

Time Detector::next_wake() const {
  Time wake = kNever;
  for (const auto& [node, peer] : peers_)
    if (peer.watched_since != kNever) {
      const auto ping = std::max(peer.pinged == Time::min() ? Time::min() : peer.pinged + pace_.ping,
                                 peer.heard == Time::min() ? Time::min() : peer.heard + pace_.ping);
      wake = std::min(wake, ping);
      if (!peer.suspected) wake = std::min(wake, silent_since(peer) + deadline(node));
    }
  return wake;
}

bool Detector::suspected(NodeId peer) const {
  const auto at = peers_.find(peer);
  return at != peers_.end() && at->second.suspected;
}

Duration Detector::link_delay(NodeId peer) const {
  const auto at = peers_.find(peer);
  return at == peers_.end() ? Duration::zero() : at->second.quick;
}

void Detector::measured(NodeId node, double bytes_per_s) {
  if (bytes_per_s <= 0) return;
  auto& known = peers_[node].bytes_per_s;
  known = known == 0 ? bytes_per_s : known + 0.25 * (bytes_per_s - known);
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
