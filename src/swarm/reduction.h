// Aggregation of one stage's gradient among its replicas: every holder sends its partial sum of each range to the
// range's owner, who adds disjoint partial sums and gives the result to all (reduce-scatter, all-gather). Safety lies
// in the sets: a partial sum carries exactly the contributions in it, a range is complete iff they make up the full
// set. So orders may change in the middle (a death, a new leader), and what is complete stays complete.
//
// Protocol thread only. Bound: one partial a holder and range, and the results of the last two iterations.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "swarm/context.h"
#include "swarm/pipeline.h"

namespace tributary::swarm {

class Reduction {
 public:
  Reduction(Context& context, Pipeline& pipeline) : context_(context), pipeline_(pipeline) {}

  std::function<void()> on_change = [] {};

  // The running iteration's aggregation of `stage`, whose vector has `size` elements.
  void begin(StageId stage, std::uint64_t size);
  // A new epoch: forgets kept results too.
  void reset();

  // False: older than what is known.
  bool receive(const wire::Orders& orders);
  void receive(NodeId from, const wire::Partial& message, Payload payload);
  void receive(NodeId from, const wire::Gathered& message, Payload payload);
  void receive(NodeId from, const wire::WantResult& message);
  // The excluded set has grown: every sum so far has the wrong set.
  void drop_results();
  // Something outside has changed that may let it go on: who can be reached, what is folded.
  void touch() { due_ = true; }
  // Sends and computes whatever is possible now; nothing if nothing has changed since the last call.
  void advance();
  void add_awaited(std::vector<NodeId>& peers);
  // No progress for too long: sends again, and asks again.
  void tick();
  Time next_wake() const;
  // What was sent to it may be lost with the connection: it counts as not sent.
  void peer_lost(NodeId peer);

  // Whether this node may fold that contribution now.
  bool wants(std::uint32_t key) const;
  bool complete() const { return complete_; }
  std::uint64_t hash() const { return hash_; }
  double sum_squares() const { return sum_squares_; }
  std::uint64_t revision() const { return orders_.revision; }
  std::uint64_t orders_term() const { return orders_.term; }
  void fill(wire::Report& report) const;
  std::string describe() const;

  // Replaces the own result by the committed one, from `source` or, failing that, from another member.
  void fetch(NodeId source);
  // When to stop waiting for further ranges of it; Time::min() if none has come and none was asked for, or if the owner
  // of one is lost that is still missing.
  Time silent_from() const;
  // The committed result becomes one of the kept ones; `iteration` is the one just applied, `next` the plan that
  // follows.
  void keep(Iteration iteration, const wire::Plan& next);
  bool kept(Iteration iteration) const { return kept_.contains(iteration); }

 private:
  struct PartialSum {
    std::uint64_t end = 0;
    std::vector<std::uint32_t> keys;
    Payload payload;
  };
  struct Piece {
    std::uint64_t end = 0;
    Payload payload;
    NodeId from;  // who gave it: this node, if it summed it
  };
  using Pieces = std::map<std::uint64_t, Piece>;  // by begin; complete when they cover the vector

  const std::vector<std::uint32_t>* keys_owned_by(NodeId node) const;
  bool reconcile();
  void send_partials();
  void sum_range(const wire::Share& share);
  void give_out(const wire::Share& share);
  const wire::Share* own_share(std::uint64_t begin) const;
  // Of all contributions that count.
  std::uint64_t full_hash();
  void measure_links();
  void choose_awaited();
  Duration patience() const;
  Time retry_at() const { return std::max(progress_at_, retried_at_) + patience(); }
  void add_piece(NodeId from, std::uint64_t begin, std::uint64_t end, Payload payload);
  void give_back(const wire::Share& share, const Piece& piece);

  Context& context_;
  Pipeline& pipeline_;
  StageId stage_;
  std::uint64_t size_ = 0;
  std::uint64_t generation_ = 0;  // rises whenever pending tasks' results lose their meaning
  wire::Orders orders_;
  std::map<std::uint64_t, std::map<NodeId, PartialSum>> partials_;           // by begin, then by sender
  std::map<std::pair<std::uint64_t, NodeId>, std::uint64_t> partials_sent_;  // (begin, owner) -> hash of the last set
  std::set<std::uint64_t> summing_;                                          // begins
  std::set<std::pair<std::uint64_t, NodeId>> given_;                         // begin, receiver
  Pieces pieces_;
  std::optional<std::uint64_t> full_hash_;
  std::pair<std::uint64_t, std::size_t> full_hash_of_;  // generation, excluded microbatches
  std::uint64_t covered_ = 0;
  Time progress_at_{};
  Time retried_at_{};
  int retries_ = 0;
  double slowest_ = 0;  // bytes/s, of the links to the receivers; 0: none was measured
  bool due_ = false;
  std::vector<NodeId> awaited_;  // owners of missing ranges, so many as are watched
  bool awaited_stale_ = true;
  bool owner_lost_ = false;
  bool finishing_ = false;
  bool complete_ = false;
  bool fetching_ = false;
  NodeId source_ = wire::kNobody;  // of what is fetched
  std::uint64_t hash_ = 0;
  double sum_squares_ = 0;
  std::map<Iteration, Pieces> kept_;
};

}  // namespace tributary::swarm
