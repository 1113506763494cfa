// What the nodes of the decentralised router tell each other. Internal to src/flow; gwtf_words.h writes them as
// numbers.
#pragma once
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "flow/network.h"

namespace tributary::flow::gwtf {

using HopId = std::uint32_t;  // of one node, never used twice; 0: none
using TransactionId = std::uint64_t;

// A hop of some node: one unit of its capacity, with what comes before and after it.
struct HopRef {
  std::uint32_t node = 0;
  HopId hop = 0;
  explicit operator bool() const { return hop != 0; }
  bool operator==(const HopRef&) const = default;
};

inline constexpr Cost kNoLink = INT64_MAX / 4;

// The costs of a node's links, by the node at the other end, ascending.
struct LinkCosts {
  using List = std::vector<std::pair<std::uint32_t, Cost>>;
  List to_next, from_last;  // `last`: of the stage before

  // kNoLink: there is none.
  static Cost of(const List& list, std::uint32_t node) {
    const auto found = std::lower_bound(list.begin(), list.end(), node,
                                        [](const auto& entry, std::uint32_t id) { return entry.first < id; });
    return found == list.end() || found->first != node ? kNoLink : found->second;
  }
};

// Downstream to upstream: the cheapest path to each data node that nobody has claimed here.
struct Offer {
  std::uint64_t version;
  std::vector<std::pair<std::uint32_t, Cost>> paths;  // (target, cost to the sink)
};
// Upstream to downstream: whether this node would take more paths.
struct Willing {
  std::uint64_t version;
  bool willing;
};
struct Claim {
  std::uint32_t target;
  Cost most;  // as offered
  HopId hop;  // of the claimant
};
struct Claimed {
  HopId hop;
  HopId given;  // 0: refused, and `offer` says what there is now
  Cost cost;
  std::uint64_t cost_version;
  Offer offer;
};
struct Release {
  HopId hop;
  HopRef by;
};
// Downstream to upstream: the path from here on is lost; whoever led to it has none.
struct Broken {
  HopId hop;  // of the receiver
  HopRef by;
};
struct CostChange {
  HopId hop;  // of the receiver
  HopRef from;
  Cost cost;
  std::uint64_t cost_version;
};

// Between replicas of one stage: "here is what I carry; do you see a move?" Locks nothing.
struct CarriedHop {
  HopId hop;
  std::uint32_t target;
  HopRef last, next;
};
struct Propose {
  std::vector<CarriedHop> carried;
  bool room;
  double temperature;
  std::shared_ptr<const LinkCosts> costs;
};
enum class Outcome { kNothing, kDone, kAborted };
struct Proposed {
  Outcome outcome;
};

// The hand-shake of a move: each party locks its hop if it still is as the coordinator believes, or says no; it never
// waits. `take_room` asks for a new hop instead.
struct Prepare {
  TransactionId transaction;
  HopId hop;
  std::optional<HopRef> last, next;  // what must hold
  bool take_room = false;
};
struct Vote {
  TransactionId transaction;
  HopId hop;
  bool yes;
  HopId made;  // for take_room
};
struct Commit {
  TransactionId transaction;
  HopId hop;
  std::optional<HopRef> last, next;  // what shall hold
  std::optional<std::uint32_t> target;
  bool free = false;  // the hop is gone
};
struct Abort {
  TransactionId transaction;
  HopId hop;
};

using Body = std::variant<Offer, Willing, Claim, Claimed, Release, CostChange, Propose, Proposed, Prepare, Vote, Commit,
                          Abort, Broken>;
struct Message {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  Body body;
};

}  // namespace tributary::flow::gwtf
