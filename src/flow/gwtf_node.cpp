// Growth: offers, claims, releases, and the costs that travel upstream.
#include "flow/gwtf_node.h"

#include <algorithm>

namespace tributary::flow::gwtf {

Node::Node(const NodeSetup& setup, const GwtfOptions& options, std::uint64_t seed)
    : setup_(setup), options_(options), random_(seed), most_proposals_(options.max_proposals) {}

void Node::adopt(HopId id, std::uint32_t target, HopRef last, HopRef next, bool sink, HopId highest) {
  Hop& hop = hops_[id];
  hop.target = target;
  hop.last = last;
  hop.next = next;
  hop.sink = sink;
  hop.pending = hop.adopted = !sink;
  next_hop_ = std::max(next_hop_, highest + 1);
}

void Node::start() {
  started_ = true;
  if (setup_.data_node) {
    for (auto left =
             setup_.capacity - static_cast<std::int32_t>(std::count_if(
                                   hops_.begin(), hops_.end(), [](const auto& hop) { return hop.second.sink; }));
         left > 0; --left) {
      Hop& hop = hops_[next_hop_++];
      hop.target = setup_.id;
      hop.sink = true;
    }
  }
  settle();
}

void Node::handle(const Message& message) {
  std::visit([&](const auto& body) { on(message.from, body); }, message.body);
  settle();
}

void Node::settle() {
  if (!started_) return;
  tell_offers();
  tell_willing();
  claim();
  release_unwanted();
  propose();
}

std::int32_t Node::used() const {
  std::int32_t count = reserved_;
  for (const auto& [id, hop] : hops_) count += !hop.sink;
  return count;
}

bool Node::wanted() const {
  if (setup_.data_node) return true;
  return std::any_of(last_.begin(), last_.end(), [&](std::uint32_t peer) {
    const auto found = willing_.find(peer);
    return found == willing_.end() || found->second.willing;
  });
}

void Node::tell_offers() {
  std::map<std::uint32_t, Cost> best;
  for (const auto& [id, hop] : hops_) {
    if (hop.last || hop.pending || hop.lock || (setup_.data_node && !hop.sink)) continue;
    const auto [entry, fresh] = best.try_emplace(hop.target, cost(hop));
    if (!fresh) entry->second = std::min(entry->second, cost(hop));
  }
  std::vector<std::pair<std::uint32_t, Cost>> paths(best.begin(), best.end());
  if (paths == offered_) return;
  offered_ = paths;
  ++offer_version_;
  for (const std::uint32_t peer : last_) send(peer, Offer{offer_version_, paths});
}

void Node::tell_willing() {
  const bool willing = has_room() && wanted();
  if (willing == told_willing_) return;
  told_willing_ = willing;
  ++willing_version_;
  for (const std::uint32_t peer : next_) send(peer, Willing{willing_version_, willing});
}

void Node::claim() {
  if (claiming_ || !has_room() || !wanted()) return;
  Cost least = kNoLink;
  std::uint32_t from = 0;
  Claim claim{};
  for (const auto& [peer, offer] : offers_)
    for (const auto& [target, path] : offer.paths) {
      if (setup_.data_node && target != setup_.id) continue;
      if (setup_.first_stage && LinkCosts::of(costs_->from_last, target) == kNoLink) continue;
      const Cost total = path + link({peer, 0});
      if (total >= least) continue;
      least = total;
      from = peer;
      claim = {target, path, 0};
    }
  if (least == kNoLink) return;
  claim.hop = next_hop_++;
  Hop& hop = hops_[claim.hop];
  hop.target = claim.target;
  hop.pending = true;
  claiming_ = claim.hop;
  claimed_from_ = from;
  send(from, claim);
}

// A path that no node upstream would take only holds capacity; it goes back, hop by hop, to where it is wanted.
void Node::release_unwanted() {
  if (setup_.data_node || wanted()) return;
  for (auto entry = hops_.begin(); entry != hops_.end();) {
    const auto& [id, hop] = *entry;
    if (hop.last || hop.pending || hop.lock) {
      ++entry;
      continue;
    }
    send(hop.next.node, Release{hop.next.hop, {setup_.id, id}});
    entry = hops_.erase(entry);
    changed();
  }
}

void Node::on(std::uint32_t from, const Offer& offer) {
  Offer& known = offers_.try_emplace(from, Offer{0, {}}).first->second;
  if (offer.version > known.version) known = offer;
}

void Node::on(std::uint32_t from, const Willing& willing) {
  Willing& known = willing_.try_emplace(from, Willing{0, true}).first->second;
  if (willing.version > known.version) known = willing;
}

void Node::on(std::uint32_t from, const Claim& claim) {
  if (LinkCosts::of(costs_->from_last, from) == kNoLink) {
    ++ignored_;
    return;
  }
  HopId given = 0;
  Cost least = claim.most + 1;
  for (const auto& [id, hop] : hops_) {
    if (hop.last || hop.pending || hop.lock || hop.target != claim.target || (setup_.data_node && !hop.sink)) continue;
    if (cost(hop) >= least) continue;
    least = cost(hop);
    given = id;
  }
  if (!given) {
    // The new version makes the claimant forget whatever older offer is still on its way.
    return send(from, Claimed{claim.hop, 0, 0, 0, {++offer_version_, offered_}});
  }
  Hop& hop = hops_.at(given);
  hop.last = {from, claim.hop};
  send(from, Claimed{claim.hop, given, least, hop.cost_version, {}});
  changed();
}

void Node::on(std::uint32_t from, const Claimed& claimed) {
  if (!claiming_ || claimed.hop != claiming_ || from != claimed_from_) {
    ++ignored_;
    // A claim that was given up in the meantime: so is what came of it.
    if (claimed.given) send(from, Release{claimed.given, {setup_.id, claimed.hop}});
    return;
  }
  claiming_ = 0;
  if (!claimed.given) {
    hops_.erase(claimed.hop);
    return on(from, claimed.offer);
  }
  Hop& hop = hops_.at(claimed.hop);
  hop.pending = false;
  hop.next = {from, claimed.given};
  hop.next_cost = claimed.cost;
  hop.next_cost_version = claimed.cost_version;
  if (hop.early && hop.early->cost_version > hop.next_cost_version) {
    hop.next_cost = hop.early->cost;
    hop.next_cost_version = hop.early->cost_version;
  }
  hop.early.reset();
  changed();
}

void Node::on(std::uint32_t, const Release& release) {
  const auto found = hops_.find(release.hop);
  if (found == hops_.end()) return;
  Hop& hop = found->second;
  if (hop.lock) {
    hop.released = release.by;
  } else if (hop.last == release.by) {
    hop.last = {};
  }
}

void Node::on(std::uint32_t, const Broken& broken) {
  const auto found = hops_.find(broken.hop);
  if (found == hops_.end()) return;
  Hop& hop = found->second;
  if (hop.lock) {
    hop.broken = broken.by;
  } else if (hop.next == broken.by && !hop.sink) {
    break_hop(broken.hop);
  }
}

void Node::unlock(HopId id) {
  Hop& hop = hops_.at(id);
  hop.lock = 0;
  if (hop.released && hop.last == *hop.released) hop.last = {};
  hop.released.reset();
  const auto broken = std::exchange(hop.broken, std::nullopt);
  if (broken && hop.next == *broken && !hop.sink) break_hop(id);
}

// The path from here on is lost: whoever comes before shall look for another.
void Node::break_hop(HopId id) {
  const Hop& hop = hops_.at(id);
  if (hop.last) send(hop.last.node, Broken{hop.last.hop, {setup_.id, id}});
  if (claiming_ == id) claiming_ = 0;
  hops_.erase(id);
  changed();
}

void Node::on(std::uint32_t, const CostChange& change) {
  const auto found = hops_.find(change.hop);
  if (found == hops_.end()) return;
  Hop& hop = found->second;
  const bool confirmed = hop.adopted && hop.next == change.from && link(hop.next) != kNoLink;
  if ((hop.pending && !confirmed) || hop.next != change.from) {
    if (!hop.early || hop.early->from != change.from || hop.early->cost_version < change.cost_version)
      hop.early = change;
    return;
  }
  if (change.cost_version <= hop.next_cost_version) return;
  hop.next_cost_version = change.cost_version;
  if (hop.next_cost == change.cost && !confirmed) return;
  hop.next_cost = change.cost;
  if (confirmed) {
    hop.pending = hop.adopted = false;
    changed();
  }
  tell_cost(change.hop, hop);
}

void Node::tell_cost(HopId id, Hop& hop) {
  ++hop.cost_version;
  if (hop.last) send(hop.last.node, CostChange{hop.last.hop, {setup_.id, id}, cost(hop), hop.cost_version});
}

// The present state is new to every replica of the stage.
void Node::changed() {
  to_ask_ = beside_;
  random_.shuffle(to_ask_);
}

}  // namespace tributary::flow::gwtf
