// Watches a simulated swarm from outside and says what rule was broken. Incremental: cheap after each event.
#pragma once
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "sim/world.h"

namespace tributary::sim {

struct CheckerOptions {
  swarm::RunOptions run;
  std::uint64_t most_kept_bytes = 0;  // of one node
  // A member that has been dead for so long is in no new plan.
  Duration detection_bound{};
  // The undisturbed run's weights; empty: only replicas are compared with each other.
  std::function<std::uint64_t(Iteration, StageId)> hash_after;
  std::function<double(Iteration)> held_out_before;  // likewise, its held-out loss
};

class Checker {
 public:
  explicit Checker(CheckerOptions options) : options_(std::move(options)) {}
  // Takes the world's hooks on_event, on_applied and on_end. The world outlives nothing of it: keep both together.
  void watch(World& world);

  // The first broken rule; empty: none.
  const std::string& violation() const { return violation_; }
  std::uint64_t commits() const { return commits_.size(); }
  // Iterations done by somebody.
  std::uint64_t newest() const { return newest_; }
  std::uint64_t evaluations() const { return evaluations_; }

 private:
  struct Seen {
    std::uint64_t term = 0;
    std::uint64_t index = 0;
    Incarnation incarnation;
    wire::Stamp led;  // the ledger's stamp while it led
  };
  void after_event(Time now, NodeId id, const swarm::Node& node);
  void applied(NodeId id, const swarm::Applied& applied);
  void evaluated(NodeId id, const swarm::Evaluated& evaluated);
  void ended(Time now, NodeId id, const swarm::Node& node);
  void check_log(NodeId id, const swarm::Node& node, Seen& seen);
  void check_bounds(NodeId id, const swarm::Node& node);
  void check_plan(Time now, NodeId id, const swarm::Node& node, Seen& seen);
  void broken(NodeId id, const std::string& rule);

  const CheckerOptions options_;
  std::string violation_;
  std::map<std::pair<std::uint32_t, Iteration>, std::uint64_t> commits_;  // (epoch, iteration) -> hash of the decision
  std::map<std::tuple<std::uint32_t, Iteration, StageId>, std::uint64_t> weights_;
  std::map<NodeId, Seen> seen_;
  std::map<std::pair<NodeId, Incarnation>, Time> deaths_;
  std::uint64_t newest_ = 0;
  std::uint64_t evaluations_ = 0;
};

}  // namespace tributary::sim
