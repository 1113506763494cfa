// A routing problem by layers, for routers that see all of it: dense costs between neighbouring layers, and a set of
// flows with their load. Layers 0 and S+1 are the data nodes, layer s the relays of stage s; a node is its place within
// its layer. Memory: 8 bytes for each pair of neighbouring nodes. Internal to src/flow.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "flow/network.h"

namespace tributary::flow {

inline constexpr Cost kFar = 1'000'000'000'000'000;  // no link; sums of some thousand stay within 64 bits

struct Layered {
  explicit Layered(const Network& network);

  std::size_t stages = 0;
  std::vector<std::vector<std::uint32_t>> nodes;    // [layer 0..S+1][place]: the node's number
  std::vector<std::vector<std::int32_t>> capacity;  // [layer 0..S][place]
  std::vector<std::vector<Cost>> costs;             // [layer 0..S][place * width(layer + 1) + next place]

  std::size_t width(std::size_t layer) const { return nodes[layer].size(); }
  Cost cost(std::size_t layer, std::uint32_t from, std::uint32_t to) const {
    return costs[layer][from * width(layer + 1) + to];
  }
};

// A flow's place at each layer; [0] and [S+1] are the same data node.
using Hops = std::vector<std::uint32_t>;

class FlowSet {
 public:
  // The flows alone, to come back to.
  struct State {
    std::vector<std::uint32_t> hops;  // S + 2 of each flow
    std::vector<std::int32_t> load;   // by layer and place
    Cost cost = 0;
    std::size_t size = 0;
    bool better_than(const State& other) const { return size != other.size ? size > other.size : cost < other.cost; }
  };

  // Keeps a reference to `net`.
  explicit FlowSet(const Layered& net);

  std::size_t size() const { return state_.size; }
  Cost cost() const { return state_.cost; }
  const State& state() const { return state_; }
  void set_state(const State& state) { state_ = state; }
  const std::uint32_t* at(std::size_t flow) const { return &state_.hops[flow * stride()]; }
  std::int32_t room(std::size_t layer, std::uint32_t place) const {
    return net_.capacity[layer][place] - state_.load[first_[layer] + place];
  }
  Cost cost_of(const std::uint32_t* hops) const;

  // Requires room on every hop.
  void add(const Hops& hops);
  // The last flow takes its number.
  void remove(std::size_t flow);
  // The cheapest way of data node `data` through relays with room, the shortest path over the layers; it is good until
  // the next call. Null: there is none.
  const Hops* cheapest(std::uint32_t data);
  // Exchanges relays between two flows, the best of all ways: where they cross, at which layers. True if it gained.
  bool recombine(std::size_t a, std::size_t b);
  Solution solution() const;

 private:
  std::size_t stride() const { return net_.stages + 2; }

  const Layered& net_;
  std::vector<std::size_t> first_;  // of each layer, in load
  State state_;
  std::vector<std::vector<Cost>> reach_;  // scratch of cheapest()
  std::vector<std::vector<std::uint32_t>> before_;
  Hops found_;
  std::vector<Cost> crossing_;  // scratch of recombine()
};

}  // namespace tributary::flow
