// Routers that run among the relays of a training swarm: what they find beside the same rules in the laboratory and the
// exact optimum, on the costs that the relays measured themselves.
#include <gtest/gtest.h>

#include "flow/router.h"
#include "sim/chaos.h"
#include "sim/symbolic_compute.h"
#include "sim/world.h"
#include "swarm/local_routing.h"

namespace tributary::sim {
namespace {

struct Shape {
  std::string router = "gwtf";
  std::uint64_t seed = 1;
  std::uint32_t data_nodes = 1;
  std::uint16_t stages = 4;
  std::uint32_t replicas = 4;
  std::uint64_t iterations = 6;
};

// A whole swarm with links of 2 to 80 ms and machines unlike each other.
class RoutedSwarm {
 public:
  explicit RoutedSwarm(const Shape& shape) : shape_(shape) {
    run_.stages = shape.stages;
    run_.state_sizes.assign(shape.stages + 1u, 12);
    run_.block = 4;
    run_.iterations = shape.iterations + 1;  // the last one is cut short by the end
    run_.voters = {NodeId(0)};
    run_.replicas_at_start = static_cast<std::uint16_t>(shape.replicas);
    run_.router = shape.router;
    run_.step.iterations = run_.iterations;
    const auto nodes = shape.data_nodes + shape.stages * shape.replicas;
    // As many microbatches as the thinnest stage has slots: each is a flow.
    std::uint32_t thinnest = 1000;
    for (std::uint16_t s = 1; s <= shape.stages; ++s) {
      std::uint32_t slots = 0;
      for (std::uint32_t id = 0; id < nodes; ++id) slots += stage_of(id) == s ? slots_of(id) : 0;
      thinnest = std::min(thinnest, slots);
    }
    run_.microbatches = thinnest - thinnest % shape.data_nodes;

    SymbolicOptions symbolic;
    symbolic.stages = run_.stages;
    symbolic.state_sizes = run_.state_sizes;
    WorldOptions world;
    world.seed = shape.seed;
    world.jitter = 0;
    world.encode_messages = true;
    world.latency = [seed = shape.seed](NodeId a, NodeId b) {
      const auto [low, high] = std::minmax({a.value(), b.value()});
      return milliseconds(2 + static_cast<std::int64_t>(mix64(mix64(seed, low), high) % 79));
    };
    world.task_time = [](const swarm::Task& task) {
      if (task.kind == swarm::TaskKind::kBackward) return milliseconds(200);
      return milliseconds(task.kind == swarm::TaskKind::kForward || task.kind == swarm::TaskKind::kHead ? 100 : 1);
    };
    world.make_compute = [symbolic](NodeId, std::shared_ptr<Disk> disk) {
      return std::make_unique<SymbolicCompute>(symbolic, std::move(disk));
    };
    world_ = std::make_unique<World>(std::move(world));
    world_->on_applied = [this](NodeId, const swarm::Applied& applied) {
      newest_ = std::max(newest_, applied.commit.iteration.value() + 1);
    };
    for (std::uint32_t id = 0; id < nodes; ++id) start(NodeId(id));
  }

  std::uint16_t stage_of(std::uint32_t id) const {
    return static_cast<std::uint16_t>(id < shape_.data_nodes ? 0 : 1 + (id - shape_.data_nodes) / shape_.replicas);
  }
  std::uint16_t slots_of(std::uint32_t id) const { return static_cast<std::uint16_t>(1 + mix64(shape_.seed, id) % 3); }
  void start(NodeId id) {
    NodeSpec spec;
    spec.options.run = run_;
    spec.options.self = id;
    spec.options.data_node = id.value() < shape_.data_nodes;
    spec.options.stage = StageId(stage_of(id.value()));
    spec.options.any_stage = false;
    spec.options.slots = slots_of(id.value());
    spec.options.chunk_elements = 4;
    spec.slowness = 1 + static_cast<double>(mix64(shape_.seed, id.value() + 1000) % 100) / 100;
    world_->start(spec);
  }
  bool reach(std::uint64_t iterations) {
    const auto end = world_->now() + seconds(600);
    while (newest_ < iterations)
      if (world_->now() > end || !world_->step()) return false;
    return true;
  }
  World& world() { return *world_; }
  const swarm::RunOptions& run() const { return run_; }
  const wire::Plan& plan() const { return world_->node(NodeId(0))->raft()->ledger().plan; }

  // The routing problem with the costs that the nodes measured.
  flow::Network network() const {
    flow::Network network;
    network.stages.resize(shape_.stages);
    for (const auto id : world_->nodes()) {
      const auto stage = stage_of(id.value());
      (stage == 0 ? network.data_nodes : network.stages[stage - 1u]).push_back(id.value());
      network.capacity.push_back(
          static_cast<std::int32_t>(stage == 0 ? run_.microbatches / shape_.data_nodes : slots_of(id.value())));
      auto& links = network.links.emplace_back();
      for (const auto& [peer, cost] : world_->node(id)->routing().links()) links.push_back({peer.value(), cost});
    }
    return network;
  }
  // Of the next iteration's paths.
  flow::Cost plan_cost() const {
    const auto network = this->network();
    flow::Cost sum = 0;
    for (const auto& path : plan().paths)
      for (std::size_t at = 0; at + 1 < path.size(); ++at)
        sum += network.cost(path[at].value(), path[at + 1].value()).value_or(flow::kMaxCost);
    return sum;
  }

 private:
  const Shape shape_;
  swarm::RunOptions run_;
  std::unique_ptr<World> world_;
  std::uint64_t newest_ = 0;
};

class AmongRelays : public testing::TestWithParam<const char*> {};

TEST_P(AmongRelays, FlowsAreAsGoodAsInTheLaboratoryAndAllMicrobatchesTakeThem) {
  double mean = 0;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    const auto data_nodes = 1 + static_cast<std::uint32_t>(seed % 2);
    RoutedSwarm swarm({.router = GetParam(), .seed = seed, .data_nodes = data_nodes, .stages = 5, .replicas = 6});
    ASSERT_TRUE(swarm.reach(6)) << seed;
    const auto counters = swarm.world().counters();
    EXPECT_EQ(counters.ill_formed, 0u) << seed;
    const auto network = swarm.network();
    ASSERT_TRUE(network.check().ok()) << network.check().error().message;
    const auto laboratory = (*flow::make_router(GetParam()))->solve(network, seed);
    const auto optimum = (*flow::make_router("optimal"))->solve(network, seed);
    ASSERT_EQ(optimum->count, swarm.run().microbatches);
    const auto best = static_cast<double>(optimum->cost);
    std::printf(
        "%s seed %d: %d flows, laboratory %.4f and among relays %.4f of the optimum, %d routed, %d not, %d messages\n",
        GetParam(), static_cast<int>(seed), static_cast<int>(optimum->count),
        static_cast<double>(laboratory->cost) / best, static_cast<double>(swarm.plan_cost()) / best,
        static_cast<int>(counters.routed), static_cast<int>(counters.unrouted),
        static_cast<int>(counters.routing_messages));
    mean += static_cast<double>(swarm.plan_cost()) / static_cast<double>(laboratory->cost) / 4;
    EXPECT_GE(counters.routed, 5 * swarm.run().microbatches);
  }
  EXPECT_LE(mean, 1.03);
}

INSTANTIATE_TEST_SUITE_P(LocalRouting, AmongRelays, testing::Values("gwtf", "labels"),
                         [](const auto& info) { return std::string(info.param); });

TEST(LocalRouting, SwarmSendersChooseAndNothingIsDoneTwice) {
  RoutedSwarm swarm({.router = "swarm", .seed = 2, .stages = 3, .replicas = 3});
  // How often each relay computed in the last iterations, and how slow it is.
  std::map<NodeId, int> work;
  ASSERT_TRUE(swarm.reach(3));
  swarm.world().on_task = [&](NodeId node, const swarm::Task& task, Time, Time) {
    work[node] += task.kind == swarm::TaskKind::kForward;
  };
  ASSERT_TRUE(swarm.reach(6));
  const auto counters = swarm.world().counters();
  EXPECT_GT(counters.rechosen, 10u);
  EXPECT_EQ(counters.duplicates, 0u);
  EXPECT_EQ(counters.replays, 0u);
  EXPECT_EQ(counters.repairs, 0u);
  EXPECT_EQ(counters.retries, 0u);
  int sum = 0;
  for (const auto& [node, count] : work) sum += count;
  EXPECT_EQ(sum, static_cast<int>(3 * swarm.run().microbatches * swarm.run().stages));
}

class UnderChurn : public testing::TestWithParam<const char*> {};

TEST_P(UnderChurn, BreaksNoRuleAndGoesOnFindingFlows) {
  swarm::Counters counters;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    auto swarm = draw_swarm(seed, 0);
    swarm.run.router = GetParam();
    for (auto& spec : swarm.nodes) spec.options.run.router = GetParam();
    ChaosOptions options;
    options.seed = seed;
    const auto result = run_chaos(options, swarm);
    ASSERT_EQ(result.violation, "") << GetParam() << " seed " << seed;
    counters.add(result.counters);
  }
  EXPECT_EQ(counters.ill_formed, 0u);
  if (std::string(GetParam()) == "swarm") {
    EXPECT_GT(counters.rechosen, 1000u);
  } else {
    EXPECT_GT(counters.routed, 3 * counters.unrouted);
  }
}

INSTANTIATE_TEST_SUITE_P(LocalRouting, UnderChurn, testing::Values("gwtf", "labels", "swarm"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tributary::sim
