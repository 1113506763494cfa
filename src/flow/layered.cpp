#include "flow/layered.h"

#include <algorithm>

#include "base/check.h"

namespace tributary::flow {

Layered::Layered(const Network& network) : stages(network.stages.size()) {
  nodes.push_back(network.data_nodes);
  nodes.insert(nodes.end(), network.stages.begin(), network.stages.end());
  nodes.push_back(network.data_nodes);
  std::vector<std::uint32_t> place(network.size());
  for (std::size_t layer = 0; layer <= stages; ++layer) {
    auto& room = capacity.emplace_back();
    for (std::uint32_t k = 0; k < width(layer); ++k) {
      place[nodes[layer][k]] = k;
      room.push_back(network.capacity[nodes[layer][k]]);
    }
  }
  for (std::size_t layer = 0; layer <= stages; ++layer) {
    auto& table = costs.emplace_back(width(layer) * width(layer + 1), kFar);
    for (std::size_t k = 0; k < width(layer); ++k)
      for (const Link& link : network.links[nodes[layer][k]]) table[k * width(layer + 1) + place[link.to]] = link.cost;
  }
}

FlowSet::FlowSet(const Layered& net) : net_(net), found_(net.stages + 2), crossing_(net.stages + 1) {
  std::size_t nodes = 0;
  for (std::size_t layer = 0; layer <= net.stages; ++layer) {
    first_.push_back(nodes);
    nodes += net.width(layer);
    reach_.emplace_back(net.width(layer), kFar);
    before_.emplace_back(net.width(layer), 0);
  }
  state_.load.assign(nodes, 0);
}

Cost FlowSet::cost_of(const std::uint32_t* hops) const {
  Cost sum = 0;
  for (std::size_t layer = 0; layer <= net_.stages; ++layer) sum += net_.cost(layer, hops[layer], hops[layer + 1]);
  return sum;
}

void FlowSet::add(const Hops& hops) {
  for (std::size_t layer = 0; layer <= net_.stages; ++layer) {
    TRIBUTARY_CHECK(room(layer, hops[layer]) > 0, "a flow without room");
    ++state_.load[first_[layer] + hops[layer]];
  }
  state_.cost += cost_of(hops.data());
  state_.hops.insert(state_.hops.end(), hops.begin(), hops.end());
  ++state_.size;
}

void FlowSet::remove(std::size_t flow) {
  std::uint32_t* hops = &state_.hops[flow * stride()];
  state_.cost -= cost_of(hops);
  for (std::size_t layer = 0; layer <= net_.stages; ++layer) --state_.load[first_[layer] + hops[layer]];
  --state_.size;
  std::copy_n(&state_.hops[state_.size * stride()], stride(), hops);
  state_.hops.resize(state_.size * stride());
}

const Hops* FlowSet::cheapest(std::uint32_t data) {
  if (room(0, data) <= 0) return nullptr;
  const std::size_t stages = net_.stages;
  std::fill(reach_[0].begin(), reach_[0].end(), kFar);
  reach_[0][data] = 0;
  for (std::size_t layer = 0; layer < stages; ++layer) {
    auto& next = reach_[layer + 1];
    std::fill(next.begin(), next.end(), kFar);
    const std::size_t width = next.size();
    for (std::size_t from = 0; from < net_.width(layer); ++from) {
      const Cost so_far = reach_[layer][from];
      if (so_far >= kFar) continue;
      const Cost* row = &net_.costs[layer][from * width];
      for (std::size_t to = 0; to < width; ++to)
        if (so_far + row[to] < next[to]) {
          next[to] = so_far + row[to];
          before_[layer + 1][to] = static_cast<std::uint32_t>(from);
        }
    }
    for (std::uint32_t to = 0; to < width; ++to)
      if (room(layer + 1, to) <= 0) next[to] = kFar;
  }
  Cost best = kFar;
  Hops& hops = found_;
  hops.front() = hops.back() = data;
  for (std::uint32_t last = 0; last < net_.width(stages); ++last) {
    const Cost whole = reach_[stages][last] + net_.cost(stages, last, data);
    if (whole >= best) continue;
    best = whole;
    hops[stages] = last;
  }
  if (best >= kFar) return nullptr;
  for (std::size_t layer = stages; layer > 1; --layer) hops[layer - 1] = before_[layer][hops[layer]];
  return &hops;
}

// Two flows that cross between two layers pay crossing_[layer] more. Crossing wherever that is negative is best; but
// flows of different data nodes must have crossed back at the end, so the number of crossings must be even then.
bool FlowSet::recombine(std::size_t a, std::size_t b) {
  std::uint32_t *p = &state_.hops[a * stride()], *q = &state_.hops[b * stride()];
  Cost gain = 0, cheapest_change = kFar * 4;
  std::size_t changed = 0;
  bool odd = false;
  for (std::size_t layer = 0; layer <= net_.stages; ++layer) {
    const Cost now = net_.cost(layer, p[layer], p[layer + 1]) + net_.cost(layer, q[layer], q[layer + 1]);
    const Cost then = net_.cost(layer, p[layer], q[layer + 1]) + net_.cost(layer, q[layer], p[layer + 1]);
    const Cost more = crossing_[layer] = then - now;
    if (more < 0) {
      gain -= more;
      odd = !odd;
    }
    if (const Cost change = more < 0 ? -more : more; change < cheapest_change) {
      cheapest_change = change;
      changed = layer;
    }
  }
  if (gain == 0) return false;
  const bool must_change = odd && p[0] != q[0];
  if (must_change) gain -= cheapest_change;
  if (gain <= 0) return false;
  const std::uint32_t data_a = p[0], data_b = q[0];
  bool crossed = false;
  for (std::size_t layer = 0; layer <= net_.stages; ++layer) {
    if ((crossing_[layer] < 0) != (must_change && layer == changed)) crossed = !crossed;
    if (crossed) std::swap(p[layer + 1], q[layer + 1]);
  }
  // With one data node the ends are the same either way.
  p[net_.stages + 1] = data_a;
  q[net_.stages + 1] = data_b;
  state_.cost -= gain;
  return true;
}

Solution FlowSet::solution() const {
  Solution solution;
  for (std::size_t k = 0; k < size(); ++k) {
    auto& flow = solution.flows.emplace_back();
    for (std::size_t layer = 0; layer <= net_.stages + 1; ++layer)
      flow.push_back(NodeId(net_.nodes[layer][at(k)[layer]]));
  }
  solution.count = static_cast<std::int64_t>(size());
  solution.cost = cost();
  return solution;
}

}  // namespace tributary::flow
