#include "swarm/plan_world.h"

#include <algorithm>
#include <cmath>

namespace tributary::swarm {
namespace {

constexpr double kFallbackRate = 1e8;    // bytes/s of links while none is measured
constexpr double kFallbackDelay = 1e-3;  // s
constexpr double kLeastDelay = 1e-4;     // s; below, delays say nothing of rates
constexpr double kDefaultBackwardRatio = 2;

struct Mean {
  double sum = 0;
  int count = 0;
  void add(double value) { sum += value, ++count; }
  double or_else(double other) const { return count > 0 ? sum / count : other; }
};

// log rate = offset + slope x log delay, by least squares over the measured links; flat if they tell nothing.
struct RateLaw {
  double offset = 0, slope = 0;
  std::vector<Mean> bias;  // by sender: what its measured links are above it

  double rate(std::size_t sender, double delay_s) const {
    // Shrunk: one measured link says little of the others.
    const double own = bias[sender].sum / (bias[sender].count + 1);
    return std::exp(offset + slope * std::log(std::max(delay_s, kLeastDelay)) + own);
  }
};

RateLaw fit_rate_law(const flow::PredictWorld& world) {
  const auto n = world.nodes.size();
  RateLaw law;
  law.bias.resize(n);
  double count = 0, x = 0, y = 0, xx = 0, xy = 0;
  const auto each = [&](auto&& use) {
    for (std::size_t k = 0; k < n * n; ++k)
      if (world.bandwidth_Bps[k] > 0)
        use(k / n, std::log(std::max(world.latency_s[k], kLeastDelay)), std::log(world.bandwidth_Bps[k]));
  };
  each([&](std::size_t, double delay, double rate) {
    ++count, x += delay, y += rate, xx += delay * delay, xy += delay * rate;
  });
  if (count == 0) {
    law.offset = std::log(kFallbackRate);
    return law;
  }
  const double spread = xx - x * x / count;
  if (count >= 4 && spread > 0.1 * count) law.slope = std::clamp((xy - x * y / count) / spread, -1.5, 0.0);
  law.offset = (y - law.slope * x) / count;
  each([&](std::size_t sender, double delay, double rate) {
    law.bias[sender].add(rate - law.offset - law.slope * delay);
  });
  return law;
}

void lay_links(const std::vector<const Candidate*>& all, PlanWorld& world) {
  const auto n = all.size();
  Mean delay;
  std::vector<Mean> own_delay(n);
  for (std::size_t i = 0; i < n; ++i)
    for (const auto& [to, round_trip] : all[i]->round_trip) {
      delay.add(to_seconds(round_trip) / 2);
      own_delay[i].add(to_seconds(round_trip) / 2);
    }
  auto& predict = world.predict;
  predict.latency_s.assign(n * n, 0);
  predict.bandwidth_Bps.assign(n * n, 0);
  const auto find = [](const auto& measures, NodeId node) {
    const auto at = measures.find(node);
    return at == measures.end() ? nullptr : &at->second;
  };
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      if (i == j) continue;
      // A round trip is the same from both ends; a link's speed often is.
      const auto* round_trip = find(all[i]->round_trip, world.nodes[j]);
      if (!round_trip) round_trip = find(all[j]->round_trip, world.nodes[i]);
      const auto* speed = find(all[i]->bytes_per_s, world.nodes[j]);
      if (!speed) speed = find(all[j]->bytes_per_s, world.nodes[i]);
      predict.latency_s[i * n + j] =
          round_trip ? to_seconds(*round_trip) / 2 : own_delay[i].or_else(delay.or_else(kFallbackDelay));
      if (speed) predict.bandwidth_Bps[i * n + j] = std::max(1.0, *speed);
    }
  const auto law = fit_rate_law(predict);
  for (std::size_t k = 0; k < n * n; ++k)
    if (k / n != k % n && predict.bandwidth_Bps[k] == 0)
      predict.bandwidth_Bps[k] = std::max(1.0, law.rate(k / n, predict.latency_s[k]));
}

}  // namespace

PlanWorld make_plan_world(const RunOptions& run, const PlanStages& stages, std::uint16_t in_flight) {
  PlanWorld world;
  std::vector<const Candidate*> all;
  double forward = 0, backward = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    world.stages.emplace_back();
    for (const auto* candidate : stages[s]) {
      world.index[candidate->member.node] = static_cast<std::uint32_t>(world.nodes.size());
      world.stages[s].push_back(static_cast<std::uint32_t>(world.nodes.size()));
      world.nodes.push_back(candidate->member.node);
      all.push_back(candidate);
      if (s > 0 && candidate->backward > Duration::zero() && candidate->forward > Duration::zero()) {
        forward += to_seconds(candidate->forward);
        backward += to_seconds(candidate->backward);
      }
    }
  }
  auto& predict = world.predict;
  predict.backward_ratio = forward > 0 ? std::clamp(backward / forward, 0.1, 10.0) : kDefaultBackwardRatio;
  for (std::size_t s = 0; s < stages.size(); ++s)
    for (const auto* candidate : stages[s]) {
      flow::PredictNode node;
      node.stage = static_cast<std::uint32_t>(s);
      const double measured = to_seconds(candidate->forward);
      const double back = to_seconds(candidate->backward);
      (s == 0 ? node.head_s : node.forward_s) =
          s > 0 && back > 0 ? (measured + back) / (1 + predict.backward_ratio) : measured;
      node.capacity = s == 0 ? in_flight : candidate->member.slots;
      predict.nodes.push_back(node);
    }
  predict.message_bytes = static_cast<double>(run.payload_bytes);
  std::uint64_t largest = 0;
  for (std::size_t s = 1; s < run.state_sizes.size(); ++s) largest = std::max(largest, run.state_sizes[s]);
  predict.aggregation_bytes = 8.0 * run.state_scale * static_cast<double>(largest);
  lay_links(all, world);
  return world;
}

std::vector<Candidate> with_estimates(std::vector<Candidate> candidates) {
  const auto mean = [&](auto&& counts) {
    Duration sum{};
    int measured = 0;
    for (const auto& candidate : candidates)
      if (candidate.forward > Duration::zero() && counts(candidate)) sum += candidate.forward, ++measured;
    return measured == 0 ? Duration::zero() : sum / measured;
  };
  const auto relays = mean([](const Candidate& c) { return c.member.stage != StageId(0); });
  std::map<StageId, Duration> by_stage;
  for (const auto& candidate : candidates) {
    const auto stage = candidate.member.stage;
    if (by_stage.contains(stage)) continue;
    const auto own = mean([&](const Candidate& c) { return c.member.stage == stage; });
    by_stage[stage] = own > Duration::zero() ? own : relays;
  }
  for (auto& candidate : candidates)
    if (candidate.forward == Duration::zero()) candidate.forward = by_stage[candidate.member.stage];
  return candidates;
}

}  // namespace tributary::swarm
