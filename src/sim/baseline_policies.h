// How the baselines choose relays. Internal to src/sim.
#pragma once
#include <vector>

#include "base/random.h"
#include "flow/predict.h"

namespace tributary::sim {

enum class SwarmKind { kGreedy, kRefusing, kRoundRobin };

// SWARM: hop by hop, by moving averages of the delay until a peer has ended a forward pass (0.6 old + 0.4 new, start
// 0.5 s). Refusing: a relay whose slots are all given refuses, at no cost. Round robin: interleaved and weighted, as in
// src/flow/swarm_router.cpp.
class SwarmPolicy final : public flow::PredictPolicy {
 public:
  SwarmPolicy(const flow::PredictWorld& world, SwarmKind kind, std::uint64_t seed);
  std::uint32_t choose(const View& view, std::uint32_t from, std::uint32_t microbatch, std::uint32_t stage,
                       std::uint32_t planned) override;
  void seen(std::uint32_t from, std::uint32_t to, double took_s) override;
  void done(std::uint32_t) override {}

 private:
  const flow::PredictWorld& world_;
  const SwarmKind kind_;
  Random random_;
  std::vector<double> average_, account_;  // [from * n + to]
};

// GWTF: a microbatch waits for a free flow, and takes its relays; a dead relay is replaced by the nearest of its stage.
class FlowPolicy final : public flow::PredictPolicy {
 public:
  explicit FlowPolicy(const flow::PredictWorld& world) : world_(world) {}
  // [data node, relay of each stage]; all free.
  void set_flows(std::vector<std::vector<std::uint32_t>> flows, std::size_t microbatches);
  std::uint32_t choose(const View& view, std::uint32_t from, std::uint32_t microbatch, std::uint32_t stage,
                       std::uint32_t planned) override;
  void seen(std::uint32_t, std::uint32_t, double) override {}
  void done(std::uint32_t microbatch) override;

 private:
  const flow::PredictWorld& world_;
  std::vector<std::vector<std::uint32_t>> flows_;
  std::vector<bool> free_;
  std::vector<std::size_t> flow_of_;  // by microbatch; flows_.size(): none yet
};

// Ours: as planned; a dead relay is replaced by the one that would have computed first.
class PlanPolicy final : public flow::PredictPolicy {
 public:
  explicit PlanPolicy(const flow::PredictWorld& world) : world_(world) {}
  std::uint32_t choose(const View& view, std::uint32_t from, std::uint32_t microbatch, std::uint32_t stage,
                       std::uint32_t planned) override;
  void seen(std::uint32_t, std::uint32_t, double) override {}
  void done(std::uint32_t) override {}

 private:
  const flow::PredictWorld& world_;
};

}  // namespace tributary::sim
