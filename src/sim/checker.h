// Watches a simulated swarm from outside and says what rule was broken. Incremental: cheap after each event.
#pragma once
#include <map>
#include <set>
#include <string>

#include "sim/symbolic_compute.h"
#include "sim/world.h"

namespace tributary::sim {

class Checker {
 public:
  Checker(const swarm::RunOptions& run, SymbolicOptions symbolic);

  void after_event(NodeId id, const swarm::Node& node);
  void applied(NodeId id, const swarm::Applied& applied);
  // The first broken rule; empty: none.
  const std::string& violation() const { return violation_; }
  std::uint64_t commits() const { return commits_.size(); }
  std::uint64_t newest() const { return newest_; }

 private:
  void broken(NodeId id, const std::string& rule);

  const swarm::RunOptions run_;
  SymbolicReference reference_;
  std::string violation_;
  std::map<std::pair<std::uint32_t, Iteration>, std::uint64_t> commits_;  // (epoch, iteration) -> hash of the decision
  struct Seen {
    std::uint64_t term = 0;
    std::uint64_t index = 0;
    Incarnation incarnation;
  };
  std::map<NodeId, Seen> seen_;
  std::uint64_t newest_ = 0;
};

}  // namespace tributary::sim
