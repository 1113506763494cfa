// Which relay holds which stage: a search for the placement with the least predicted time of an iteration, in slices
// beside the training. Two relays exchange their stages, or one goes to another stage; paths follow. Pure, but for its
// own state; one thread.
#pragma once
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "swarm/path_search.h"

namespace tributary::swarm {

class Placement {
 public:
  static constexpr std::size_t kMostMachines = 200;  // beyond, one prediction is too long for many

  // What a search ended with, for the next one to go on from.
  struct Target {
    std::map<NodeId, StageId> stages;  // of relays
    Paths paths;
  };
  struct Move {
    NodeId node;
    StageId stage;  // where it is to go
  };

  // `members`: data nodes and relays with the stages they hold now; who is away for a moment counts as there.
  // `movable`: relays that can hold any stage. `paths`: the present plan's.
  Placement(const RunOptions& run, std::vector<Candidate> members, std::set<NodeId> movable, const Paths& paths,
            std::uint16_t in_flight, const Target& former, std::uint64_t seed);

  // Some milliseconds of search. Does nothing where there is nothing to choose or too much to predict.
  void search();

  double now_s() const { return now_.time.end; }    // predicted, of an iteration as the relays stand
  double best_s() const { return best_.time.end; }  // ... of the best placement found
  Target target() const;
  // The next step towards the target, if what it saves in the iterations left outweighs what the moves cost: at most
  // one relay leaves a stage, and none is left empty. `full`: relays at work now.
  std::vector<Move> moves(std::uint64_t iterations_left, const std::set<NodeId>& full) const;

 private:
  struct Arrangement {
    std::vector<std::uint32_t> stage_of;  // by index
    PathSearch::Microbatches microbatches;
    PathSearch::Time time;
  };
  void enter(const Arrangement& arrangement);
  Arrangement present() const;
  bool propose(Arrangement& arrangement);
  void repair(Arrangement& arrangement) const;

  const RunOptions& run_;
  std::vector<Candidate> members_;
  PlanWorld world_;
  std::vector<std::uint32_t> movable_;  // indices
  std::vector<double> forward_s_;       // by index, at the stage it holds
  Random random_;
  PathSearch search_;
  bool usable_ = false;
  Arrangement now_, current_, best_;
  std::size_t proposals_ = 0;
};

}  // namespace tributary::swarm
