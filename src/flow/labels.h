// Residual labels, decentralised: every node knows its own state, its own links, and what the nodes of the stages
// beside it tell it. Each side of a node keeps the cheapest change of the flows that starts there, as a path; a path
// that comes back to its own side is a negative cycle, and a token goes round it twice: to reserve, then to change.
// With one data node the flows are optimal when all is quiet. With several, the flows are then led back to their own
// data nodes and improved by exchanges and new ways. Messages are delayed at random and overtake each other.
// docs/methods.md
#pragma once
#include "flow/router.h"

namespace tributary::flow {

struct LabelsOptions {
  // Sides on a label's path at first; it grows while nothing changes, up to all sides there are.
  std::size_t first_length = 10;
  // With several data nodes: how often each flow looks for a new way.
  int moves = 4;
};

// How far it was on its way; for experiments.
struct LabelsProgress {
  struct Point {
    double round;  // mean round trips
    std::int64_t count;
    Cost cost;  // of the flows that stand
  };
  std::vector<Point> points;
};

class LabelsRouter final : public Router {
 public:
  explicit LabelsRouter(const LabelsOptions& options = {}) : options_(options) {}
  Result<Solution> solve(const Network& network, std::uint64_t seed) const override;
  // The same; `progress` gets a point a round while the labels work.
  Result<Solution> solve(const Network& network, std::uint64_t seed, LabelsProgress* progress) const;

 private:
  const LabelsOptions options_;
};

}  // namespace tributary::flow
