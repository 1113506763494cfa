// Peers that come and go: links and what they cost, and what a loss means for paths and moves under way.
#include <algorithm>

#include "flow/gwtf_node.h"

namespace tributary::flow::gwtf {
namespace {

void put(LinkCosts::List& list, std::uint32_t peer, Cost cost) {
  const auto at = std::lower_bound(list.begin(), list.end(), peer,
                                   [](const auto& entry, std::uint32_t id) { return entry.first < id; });
  if (at != list.end() && at->first == peer) {
    at->second = cost;
  } else {
    list.insert(at, {peer, cost});
  }
}

}  // namespace

void Node::find_mean_link() {
  Cost sum = 0;
  std::int64_t count = 0;
  for (const auto* list : {&costs_->to_next, &costs_->from_last})
    for (const auto& [peer, cost] : *list) {
      sum += cost;
      ++count;
    }
  mean_link_ = count ? sum / count : 0;
}

void Node::link_up(Side side, std::uint32_t peer, Cost cost) {
  auto& peers = side == Side::kNext ? next_ : side == Side::kLast ? last_ : beside_;
  const bool fresh = std::find(peers.begin(), peers.end(), peer) == peers.end();
  if (fresh) peers.push_back(peer);
  if (side != Side::kBeside) {
    auto costs = std::make_shared<LinkCosts>(*costs_);
    put(side == Side::kNext ? costs->to_next : costs->from_last, peer, cost);
    costs_ = std::move(costs);
    find_mean_link();
  }
  if (!started_) return;
  for (auto& [id, hop] : hops_) {
    if (side == Side::kNext && hop.next.node == peer && !hop.sink && !hop.pending) tell_cost(id, hop);
    // An adopted flow of whoever comes before is confirmed by what it costs from here on.
    if (fresh && side == Side::kLast && hop.last.node == peer && !hop.pending) tell_cost(id, hop);
  }
  if (fresh && side == Side::kLast && !offered_.empty()) send(peer, Offer{offer_version_, offered_});
  if (fresh && side == Side::kNext && willing_version_ > 0) send(peer, Willing{willing_version_, told_willing_});
  changed();
  settle();
}

void Node::peer_lost(std::uint32_t peer) {
  for (auto* peers : {&last_, &next_, &beside_, &to_ask_}) std::erase(*peers, peer);
  auto costs = std::make_shared<LinkCosts>(*costs_);
  for (auto* list : {&costs->to_next, &costs->from_last})
    std::erase_if(*list, [&](const auto& entry) { return entry.first == peer; });
  costs_ = std::move(costs);
  find_mean_link();
  offers_.erase(peer);
  willing_.erase(peer);
  if (proposing_ && proposed_to_ == peer) proposing_ = false;
  if (claiming_ && claimed_from_ == peer) hops_.erase(std::exchange(claiming_, 0));
  lose_votes(peer);
  std::vector<HopId> ids;
  for (const auto& [id, hop] : hops_) ids.push_back(id);
  for (const HopId id : ids) {
    const auto found = hops_.find(id);
    if (found == hops_.end()) continue;
    Hop& hop = found->second;
    if (hop.lock && hop.lock >> 32 == peer && !transactions_.contains(hop.lock)) {
      if (hop.pending) {
        hops_.erase(found);
        continue;
      }
      unlock(id);
      if (!hops_.contains(id)) continue;
    }
    if (hop.last && hop.last.node == peer) {
      hop.last = {};
      changed();
    }
    if (!hop.next || hop.next.node != peer) continue;
    if (hop.lock) {
      hop.broken = hop.next;
    } else {
      break_hop(id);
    }
  }
  settle();
}

void Node::renew(int proposals) {
  most_proposals_ = std::max(most_proposals_, proposals_ + proposals);
  std::vector<HopId> unconfirmed;
  for (const auto& [id, hop] : hops_)
    if (hop.adopted) unconfirmed.push_back(id);
  for (const HopId id : unconfirmed) break_hop(id);
  settle();
}

}  // namespace tributary::flow::gwtf
