#include "flow/predict.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "flow/predict_engine.h"

namespace tributary::flow {
namespace {

// Above this, sums of times would lose the fractions that ties are decided by.
constexpr double kMaxSeconds = 1e9, kMaxBytes = 1e15;
constexpr int kShareSteps = 400;

bool within(double value, double most) { return value >= 0 && value <= most; }
Error fault(const std::string& what) { return Error{"prediction: " + what}; }
std::string name(std::uint32_t node) { return "node " + std::to_string(node); }

}  // namespace

std::uint32_t PredictWorld::stages() const {
  std::uint32_t most = 0;
  for (const auto& node : nodes) most = std::max(most, node.stage);
  return most;
}

Result<void> PredictWorld::check() const {
  const std::size_t n = nodes.size();
  if (n == 0) return fault("there are no nodes");
  if (latency_s.size() != n * n || bandwidth_Bps.size() != n * n)
    return fault("latencies and bandwidths need a row and a column for each of the " + std::to_string(n) + " nodes");
  const std::uint32_t most = stages();
  if (most == 0 || most > n) return fault("stages must be numbered from 1 without gaps");
  std::vector<bool> filled(most + 1, false);
  for (std::uint32_t id = 0; id < n; ++id) {
    const PredictNode& node = nodes[id];
    filled[node.stage] = true;
    if (!within(node.forward_s, kMaxSeconds) || !within(node.head_s, kMaxSeconds))
      return fault("a compute time of " + name(id) + " is not within 0 to 1e9 s");
    if (node.capacity < 1) return fault("the capacity of " + name(id) + " must be at least 1");
  }
  for (std::uint32_t s = 0; s <= most; ++s)
    if (!filled[s]) return fault(s ? "stage " + std::to_string(s) + " has no relay" : "there is no data node");
  for (std::size_t k = 0; k < n * n; ++k)
    if (!within(latency_s[k], kMaxSeconds) || !within(bandwidth_Bps[k], kMaxBytes))
      return fault("the link " + std::to_string(k / n) + " -> " + std::to_string(k % n) +
                   " has an impossible latency or bandwidth");
  if (!within(message_bytes, kMaxBytes) || !within(aggregation_bytes, kMaxBytes) || !within(backward_ratio, 1e6))
    return fault("message_bytes, aggregation_bytes or backward_ratio is out of range");
  return {};
}

Result<void> PredictPlan::check(const PredictWorld& world) const {
  std::set<std::uint32_t> ids;
  const std::uint32_t stages = world.stages();
  for (const auto& microbatch : microbatches) {
    const std::string who = "microbatch " + std::to_string(microbatch.id);
    if (!ids.insert(microbatch.id).second) return fault(who + " is there twice");
    if (microbatch.data_node >= world.nodes.size() || world.nodes[microbatch.data_node].stage != 0)
      return fault(who + ": " + name(microbatch.data_node) + " is no data node");
    if (microbatch.path.size() != stages)
      return fault(who + ": its path must name one relay for each of the " + std::to_string(stages) + " stages");
    for (std::uint32_t s = 1; s <= stages; ++s)
      if (const auto relay = microbatch.path[s - 1]; relay >= world.nodes.size() || world.nodes[relay].stage != s)
        return fault(who + ": " + name(relay) + " on its path is not of stage " + std::to_string(s));
  }
  return {};
}

Result<void> PredictFaults::check(const PredictWorld& world) const {
  const auto relay = [&](std::uint32_t id) { return id < world.nodes.size() && world.nodes[id].stage > 0; };
  for (const auto& crash : crashes) {
    if (!within(crash.at_s, kMaxSeconds)) return fault("a crash must have a time within 0 to 1e9 s");
    if (!relay(crash.node)) return fault("a crash of " + name(crash.node) + ": only relays crash here");
  }
  for (const std::uint32_t id : dead)
    if (!relay(id)) return fault("only relays can be dead, " + name(id) + " is none");
  if (exactly_once && recovery == BackwardRecovery::kRestart)
    return fault("exactly once goes with repair, not restart");
  if (!within(detection_s, kMaxSeconds)) return fault("the time of detection must be within 0 to 1e9 s");
  for (std::size_t s = 0; s < replacements.size(); ++s)
    for (const std::uint32_t id : replacements[s])
      if (!relay(id) || world.nodes[id].stage != s)
        return fault("the replacement " + name(id) + " is not of stage " + std::to_string(s));
  return {};
}

Predictor::Predictor(const PredictWorld& world) : engine_(std::make_unique<PredictEngine>(world)) {}
Predictor::~Predictor() = default;
const Prediction& Predictor::run(const PredictPlan& plan, const PredictFaults& faults, PredictTrace* trace,
                                 PredictPolicy* policy) {
  return engine_->run(plan, faults, trace, policy);
}

void Predictor::restage() { engine_->restage(); }

Result<Prediction> predict(const PredictWorld& world, const PredictPlan& plan, const PredictFaults& faults,
                           PredictTrace* trace) {
  if (auto good = world.check(); !good) return good.error();
  if (auto good = plan.check(world); !good) return good.error();
  if (auto good = faults.check(world); !good) return good.error();
  return Predictor(world).run(plan, faults, trace);
}

Result<std::vector<Prediction>> predict_iterations(const PredictWorld& world, const PredictPlan& plan,
                                                   const PredictFaults& faults, std::size_t iterations) {
  if (auto good = world.check(); !good) return good.error();
  if (auto good = plan.check(world); !good) return good.error();
  if (auto good = faults.check(world); !good) return good.error();
  Predictor predictor(world);
  std::vector<Prediction> all;
  PredictFaults rest = faults;
  for (std::size_t k = 0; k < iterations; ++k) {
    all.push_back(predictor.run(plan, rest));
    const double took = all.back().iteration_end_s;
    if (!std::isfinite(took)) break;
    std::vector<PredictCrash> later;
    for (const auto& crash : rest.crashes)
      crash.at_s < took ? rest.dead.push_back(crash.node) : later.push_back({crash.at_s - took, crash.node});
    rest.crashes = std::move(later);
  }
  return all;
}

double ring_seconds(const PredictWorld& world, const std::vector<std::uint32_t>& relays, double bytes) {
  const auto n = static_cast<double>(relays.size());
  if (relays.size() < 2) return 0;
  double narrowest = std::numeric_limits<double>::infinity(), farthest = 0;
  for (const auto i : relays)
    for (const auto j : relays) {
      if (i == j) continue;
      narrowest = std::min(narrowest, world.bandwidth(i, j));
      farthest = std::max(farthest, world.latency(i, j));
    }
  // One rounding only, so that what is exact stays exact.
  return 2 * (n - 1) * bytes / (n * narrowest) + 2 * (n - 1) * farthest;
}

UnevenAggregation uneven_aggregation(const PredictWorld& world, const std::vector<std::uint32_t>& relays,
                                     double bytes) {
  const std::size_t n = relays.size();
  UnevenAggregation answer;
  answer.shares.assign(n, n ? 1.0 / static_cast<double>(n) : 0);
  if (n < 2) return answer;
  // weight[i][j]: seconds of i's uplink for each unit of j's share.
  std::vector<double> weight(n * n, 0), load(n, 0);
  double farthest = 0;
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      if (i == j) continue;
      const double takes = bytes / world.bandwidth(relays[i], relays[j]);
      weight[i * n + j] += takes;
      weight[i * n + i] += takes;
      farthest = std::max(farthest, world.latency(relays[i], relays[j]));
    }
  auto& shares = answer.shares;
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) load[i] += weight[i * n + j] * shares[j];
  double most = *std::max_element(load.begin(), load.end());
  // Moves a part of one share to another while that lowers the largest upload.
  double part = 0.5 / static_cast<double>(n);
  for (int step = 0; step < kShareSteps && part > 1e-6; ++step) {
    double best = most;
    std::size_t from = n, to = n;
    for (std::size_t a = 0; a < n; ++a) {
      if (shares[a] < part) continue;
      for (std::size_t b = 0; b < n; ++b) {
        if (a == b) continue;
        double then = 0;
        for (std::size_t i = 0; i < n && then < best; ++i)
          then = std::max(then, load[i] + part * (weight[i * n + b] - weight[i * n + a]));
        if (then < best) best = then, from = a, to = b;
      }
    }
    if (from == n) {
      part /= 2;
      continue;
    }
    shares[from] -= part;
    shares[to] += part;
    for (std::size_t i = 0; i < n; ++i) load[i] += part * (weight[i * n + to] - weight[i * n + from]);
    most = best;
  }
  answer.seconds = most + 2 * farthest;
  return answer;
}

}  // namespace tributary::flow
