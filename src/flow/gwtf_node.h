// One node of the decentralised router: a state machine that gets messages and leaves messages in its outbox. It knows
// its own links, its own hops, and what the nodes beside it told it; it has no clock. Internal to src/flow.
//
// How flows come about: a data node's sink half offers its capacity as paths of cost 0. A node with room claims the
// path that is cheapest with its link added, and offers the longer path to the stage before, until the paths reach the
// data nodes that they are for. Paths that nobody upstream wants are released. Then replicas of one stage propose
// moves to each other, hot at first, later only those that gain.
//
// Safety: the head of a path belongs to one claimant, given by its holder. A move changes up to six hops; its
// coordinator has each of them locked by its own node, which checks first that it still is as believed. A lock is never
// waited for: whoever finds one says no, and the move is aborted everywhere. Locked hops change by Commit only.
//
// Links come and go while it works (link_up, peer_lost). What was under way with a lost peer is given up: its votes
// count as noes, its locks end, paths through it are free again downstream and broken upstream. Nothing that a message
// says can do more than spoil flows: what fits no hop, lock or link of this node is ignored and counted.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/random.h"
#include "flow/gwtf.h"
#include "flow/gwtf_message.h"

namespace tributary::flow::gwtf {

struct NodeSetup {
  std::uint32_t id = 0;
  bool data_node = false;
  bool first_stage = false;
  std::int32_t capacity = 0;
};
// Where a peer stands as seen from here: in the next stage, in the one before, or beside (another replica).
enum class Side { kNext, kLast, kBeside };

struct Hop {
  std::uint32_t target = 0;
  HopRef last, next;
  Cost next_cost = 0;  // from the next hop to the sink
  std::uint64_t next_cost_version = 0;
  std::uint64_t cost_version = 0;  // of the own cost, as told upstream
  TransactionId lock = 0;
  bool pending = false;             // claimed, or promised to a move, but not yet ours
  bool adopted = false;             // pending: a flow of before, until the next hop says what it costs
  bool sink = false;                // a data node's end of a path
  std::optional<CostChange> early;  // about a next hop that a commit under way will give us
  std::optional<HopRef> released;   // by a last hop that a commit under way may give us
  std::optional<HopRef> broken;     // likewise, by a next hop
};

class Node {
 public:
  Node(const NodeSetup& setup, const GwtfOptions& options, std::uint64_t seed);
  // A flow that stands already, in which this node has the hop `id`; before start(). No id that is adopted anywhere is
  // above `highest`.
  void adopt(HopId id, std::uint32_t target, HopRef last, HopRef next, bool sink, HopId highest);
  void start();
  // A link to that peer, or what it costs now; `cost` counts for nothing beside.
  void link_up(Side side, std::uint32_t peer, Cost cost);
  // Neither a message comes from it any more, nor does one reach it, until link_up().
  void peer_lost(std::uint32_t peer);
  // So many more proposals; and adopted flows that nobody confirmed by now are given up.
  void renew(int proposals);
  void handle(const Message& message);
  std::vector<Message> take_outbox() { return std::exchange(outbox_, {}); }

  const std::map<HopId, Hop>& hops() const { return hops_; }
  const LinkCosts& costs() const { return *costs_; }
  // Messages that fitted nothing here. None as long as no peer is lost.
  std::uint64_t ignored() const { return ignored_; }

 private:
  enum class MoveKind { kChange, kPlaces, kTake, kGive };
  struct Move {
    MoveKind kind = MoveKind::kChange;
    CarriedHop theirs, own;
    Cost gain = 0;
  };
  struct Transaction {
    std::uint32_t proposer = 0;
    Move move;
    std::vector<HopRef> parties;  // asked, in this order
    std::vector<HopRef> awaited;  // not yet answered
    std::vector<HopRef> locked;
    bool refused = false;
    HopId made = 0;  // by the proposer
  };

  void on(std::uint32_t from, const Offer& offer);
  void on(std::uint32_t from, const Willing& willing);
  void on(std::uint32_t from, const Claim& claim);
  void on(std::uint32_t from, const Claimed& claimed);
  void on(std::uint32_t from, const Release& release);
  void on(std::uint32_t from, const CostChange& change);
  void on(std::uint32_t from, const Propose& propose);
  void on(std::uint32_t from, const Proposed& proposed);
  void on(std::uint32_t from, const Prepare& prepare);
  void on(std::uint32_t from, const Vote& vote);
  void on(std::uint32_t from, const Commit& commit);
  void on(std::uint32_t from, const Abort& abort);
  void on(std::uint32_t from, const Broken& broken);

  void send(std::uint32_t to, Body body) { outbox_.push_back({setup_.id, to, std::move(body)}); }
  // What follows from any change: offers, willingness, claims, releases, the next proposal.
  void settle();
  void tell_offers();
  void tell_willing();
  void claim();
  void release_unwanted();
  void propose();
  void changed();

  std::int32_t used() const;
  bool has_room() const { return used() < setup_.capacity; }
  bool wanted() const;
  Cost link(const HopRef& next) const { return LinkCosts::of(costs_->to_next, next.node); }
  Cost cost(const Hop& hop) const { return hop.sink ? 0 : link(hop.next) + hop.next_cost; }
  void tell_cost(HopId id, Hop& hop);
  void unlock(HopId id);
  void break_hop(HopId id);
  void lose_votes(std::uint32_t peer);
  void find_mean_link();
  double temperature() const;

  std::vector<CarriedHop> carried() const;
  // A hop with what the links at its ends cost the proposer and this node.
  struct Priced {
    const CarriedHop* hop;
    Cost their_last, their_next, own_last, own_next;
  };
  std::vector<Priced> price(const std::vector<CarriedHop>& hops, const LinkCosts& their) const;
  std::optional<Move> choose(const Propose& propose);
  void consider_pair(const Priced& f, const Priced& g, std::vector<Move>& moves) const;
  void prepare(std::uint32_t proposer, const Move& move);
  void commit(TransactionId id, const Transaction& transaction);
  void finish(TransactionId id);

  const NodeSetup setup_;
  const GwtfOptions options_;
  Random random_;
  Cost mean_link_ = 0;
  std::vector<std::uint32_t> last_, next_, beside_;  // peers, in the order of link_up()
  std::shared_ptr<const LinkCosts> costs_ = std::make_shared<LinkCosts>();
  std::vector<Message> outbox_;
  bool started_ = false;
  std::uint64_t ignored_ = 0;

  std::map<HopId, Hop> hops_;
  HopId next_hop_ = 1;
  std::int32_t reserved_ = 0;                            // room promised to moves that this node coordinates
  std::map<std::uint32_t, Offer> offers_;                // by next peer
  std::map<std::uint32_t, Willing> willing_;             // by last peer
  std::vector<std::pair<std::uint32_t, Cost>> offered_;  // what was told last
  std::uint64_t offer_version_ = 0, willing_version_ = 0;
  bool told_willing_ = true;  // what peers assume at first
  HopId claiming_ = 0;        // the hop that a claim is out for
  std::uint32_t claimed_from_ = 0;

  bool proposing_ = false;
  std::uint32_t proposed_to_ = 0;
  int proposals_ = 0, most_proposals_;
  std::vector<std::uint32_t> to_ask_;  // once cold: replicas that have not yet said "no move" to the present state
  std::map<TransactionId, Transaction> transactions_;
  std::uint64_t next_transaction_ = 1;
};

}  // namespace tributary::flow::gwtf
