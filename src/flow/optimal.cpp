// Minimum-cost flow by LEMON's network simplex. A relay is split in two, joined by an arc of its capacity; a data node
// is a source and, apart, a sink. An arc from sink to source with a large negative cost makes the flow maximal first.
#include <lemon/list_graph.h>
#include <lemon/network_simplex.h>

#include "flow/routers.h"

namespace tributary::flow {
namespace {

using Graph = lemon::ListDigraph;
using Simplex = lemon::NetworkSimplex<Graph, std::int64_t, Cost>;

// Arcs with their capacity and cost; LEMON's own maps of built-in types, the only ones that work under C++20.
struct Problem {
  Graph graph;
  Graph::ArcMap<std::int64_t> capacity{graph};
  Graph::ArcMap<Cost> cost{graph};
  std::vector<Graph::Node> in, out;  // by node of the network; a data node's out is its source, its in its sink
  std::vector<std::vector<Graph::Arc>> links;  // as in the network

  Graph::Arc add(Graph::Node from, Graph::Node to, std::int64_t room, Cost price) {
    const Graph::Arc arc = graph.addArc(from, to);
    capacity[arc] = room;
    cost[arc] = price;
    return arc;
  }
};

void build(const Network& network, Problem& problem) {
  const std::size_t size = network.size();
  for (std::size_t i = 0; i < size; ++i) {
    problem.in.push_back(problem.graph.addNode());
    problem.out.push_back(problem.graph.addNode());
  }
  const Graph::Node source = problem.graph.addNode(), sink = problem.graph.addNode();
  std::int64_t most = 0;
  for (const std::uint32_t d : network.data_nodes) {
    most += network.capacity[d];
    problem.add(source, problem.out[d], network.capacity[d], 0);
    problem.add(problem.in[d], sink, network.capacity[d], 0);
  }
  Cost dearest = 0;
  for (const auto& stage : network.stages)
    for (const std::uint32_t relay : stage)
      problem.add(problem.in[relay], problem.out[relay], network.capacity[relay], 0);
  problem.links.resize(size);
  for (std::size_t i = 0; i < size; ++i)
    for (const Link& link : network.links[i]) {
      const std::int64_t room = std::min(network.capacity[i], network.capacity[link.to]);
      problem.links[i].push_back(problem.add(problem.out[i], problem.in[link.to], room, link.cost));
      dearest = std::max(dearest, link.cost);
    }
  // Dearer than any way that one more unit can push others to.
  problem.add(sink, source, most, -(dearest + 1) * static_cast<Cost>(size + 2));
}

// The flow on every link, in the order of network.links.
std::vector<std::vector<std::int64_t>> solve_links(const Network& network) {
  Problem problem;
  build(network, problem);
  Simplex simplex(problem.graph);
  simplex.upperMap(problem.capacity).costMap(problem.cost);
  const auto status = simplex.run();
  TRIBUTARY_CHECK(status == Simplex::OPTIMAL, "a circulation always exists");
  std::vector<std::vector<std::int64_t>> flow(network.size());
  for (std::size_t i = 0; i < network.size(); ++i)
    for (const Graph::Arc arc : problem.links[i]) flow[i].push_back(simplex.flow(arc));
  return flow;
}

}  // namespace

Bound interchangeable_bound(const Network& network) {
  const auto flow = solve_links(network);
  Bound bound;
  for (const std::uint32_t d : network.data_nodes)
    for (const std::int64_t units : flow[d]) bound.count += units;
  for (std::size_t i = 0; i < network.size(); ++i)
    for (std::size_t k = 0; k < flow[i].size(); ++k) bound.cost += flow[i][k] * network.links[i][k].cost;
  return bound;
}

std::vector<std::vector<std::uint32_t>> interchangeable_paths(const Network& network) {
  auto flow = solve_links(network);
  std::vector<std::vector<std::uint32_t>> paths;
  // Every unit that leaves a data node is followed to the data node where it ends; flow is conserved on the way.
  for (const std::uint32_t d : network.data_nodes)
    for (;;) {
      std::vector<std::uint32_t> path{d};
      for (std::size_t hop = 0; hop <= network.stages.size(); ++hop) {
        const std::uint32_t at = path.back();
        std::size_t k = 0;
        while (k < flow[at].size() && flow[at][k] == 0) ++k;
        if (k == flow[at].size()) break;
        --flow[at][k];
        path.push_back(network.links[at][k].to);
      }
      if (path.size() == 1) break;
      paths.push_back(std::move(path));
    }
  return paths;
}

Result<Solution> OptimalRouter::solve(const Network& network, std::uint64_t seed) const {
  if (network.data_nodes.size() > 1) return solve_several(network, seed, seconds_);
  Solution solution;
  for (const auto& path : interchangeable_paths(network)) {
    auto& flow = solution.flows.emplace_back();
    for (const std::uint32_t node : path) {
      if (!flow.empty()) solution.cost += *network.cost(flow.back().value(), node);
      flow.push_back(NodeId(node));
    }
  }
  solution.count = static_cast<std::int64_t>(solution.flows.size());
  return solution;
}

}  // namespace tributary::flow
