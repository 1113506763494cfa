// A small swarm in the simulated world, to be troubled at a chosen point of the protocol and checked all along against
// the undisturbed run. Data nodes come first, then the relays of stage 1, of stage 2 ...
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "sim/checker.h"
#include "sim/serial_reference.h"
#include "sim/world.h"

// Its own namespace: src/sim/scenario.h has a Scenario too.
namespace tributary::sim {
inline namespace staged {

struct TroubledSwarmOptions {
  std::uint16_t stages = 2;
  std::uint32_t data_nodes = 1;
  std::uint32_t replicas = 2;
  std::uint32_t microbatches = 6;
  std::uint64_t iterations = 6;
  std::uint64_t checkpoint_every = 2;
  std::vector<std::uint32_t> voters = {0};
  Duration latency = milliseconds(5);
  bool shared_disk = true;
  double payload_bytes_per_s = 0;  // 0: nearly no time; an activation has 8 bytes, an element of a result 4
  double most_excluded = 0.5;
  std::function<bool(Iteration, MicrobatchId, PartId, bool backward)> not_finite = {};
  // Of a node in the swarm, not of the undisturbed run.
  std::function<std::unique_ptr<swarm::Compute>(NodeId, std::unique_ptr<swarm::Compute>)> wrap_compute =
      [](NodeId, std::unique_ptr<swarm::Compute> compute) { return compute; };
};

class TroubledSwarm {
 public:
  explicit TroubledSwarm(TroubledSwarmOptions o = {}) : options_(std::move(o)) {
    for (std::uint16_t s = 0; s <= options_.stages; ++s) run_.state_sizes.push_back(11 + 4 * s);
    run_.stages = options_.stages;
    run_.block = 4;
    run_.microbatches = options_.microbatches;
    run_.iterations = options_.iterations;
    run_.checkpoint_every = options_.checkpoint_every;
    run_.wait_at_start = seconds(1);
    run_.most_excluded = options_.most_excluded;
    run_.step.iterations = options_.iterations;
    for (const auto voter : options_.voters) run_.voters.push_back(NodeId(voter));

    SymbolicOptions symbolic;
    symbolic.seed = 3;
    symbolic.stages = run_.stages;
    symbolic.state_sizes = run_.state_sizes;
    if (options_.not_finite) symbolic.not_finite = options_.not_finite;
    WorldOptions w;
    w.latency = [latency = options_.latency](NodeId, NodeId) { return latency; };
    if (options_.payload_bytes_per_s > 0) {
      w.bandwidth = [rate = options_.payload_bytes_per_s](NodeId, NodeId) { return rate; };
      w.message_bytes = [](const wire::Message& m) { return static_cast<double>(payload_size(m.payload)); };
    }
    w.shared_disk = options_.shared_disk;
    w.encode_messages = true;
    w.task_time = [](const swarm::Task& task) {
      if (task.kind == swarm::TaskKind::kBackward) return milliseconds(40);
      return milliseconds(task.kind == swarm::TaskKind::kForward ? 20 : 1);
    };
    w.make_compute = [symbolic, wrap = options_.wrap_compute](NodeId node, std::shared_ptr<Disk> disk) {
      return wrap(node, std::make_unique<SymbolicCompute>(symbolic, std::move(disk)));
    };
    world_ = std::make_unique<World>(std::move(w));

    SerialOptions serial;
    serial.stages = run_.stages;
    serial.microbatches = run_.microbatches;
    serial.make_compute = [symbolic](StageId) {
      return std::make_unique<SymbolicCompute>(symbolic, std::make_shared<Disk>());
    };
    serial.step = [run = run_](Iteration iteration, double squares, std::uint32_t used) {
      return swarm::step_parameters(run.step, iteration, squares, used, run.microbatches);
    };
    CheckerOptions c;
    c.run = run_;
    c.most_kept_bytes = std::uint64_t{64} * run_.microbatches;
    c.detection_bound = seconds(10);
    c.hash_after = [reference = std::make_shared<SerialReference>(std::move(serial))](
                       Iteration iteration, StageId stage) { return reference->hash_after(iteration, stage); };
    checker_ = std::make_unique<Checker>(std::move(c));
    checker_->watch(*world_);
    world_->on_send = [this](NodeId from, NodeId to, const wire::Message& message) { sent(from, to, message); };
  }

  World& world() { return *world_; }
  const swarm::RunOptions& run() const { return run_; }
  NodeId data_node(std::uint32_t i = 0) const { return NodeId(i); }
  NodeId relay(std::uint16_t stage, std::uint32_t i) const {
    return NodeId(options_.data_nodes + (stage - 1) * options_.replicas + i);
  }
  std::uint32_t size() const { return options_.data_nodes + options_.stages * options_.replicas; }

  NodeSpec spec(NodeId id, std::uint16_t stage) const {
    NodeSpec spec;
    spec.options.run = run_;
    spec.options.self = id;
    spec.options.data_node = id.value() < options_.data_nodes;
    spec.options.stage = StageId(stage);
    spec.options.any_stage = false;
    spec.options.shared_disk = options_.shared_disk;
    spec.options.chunk_elements = 4;
    return spec;
  }
  std::uint16_t stage_of(NodeId id) const {
    if (id.value() < options_.data_nodes) return 0;
    return static_cast<std::uint16_t>(1 + (id.value() - options_.data_nodes) / options_.replicas);
  }
  void start(NodeId id) { world_->start(spec(id, stage_of(id))); }
  void start_all() {
    for (std::uint32_t i = 0; i < size(); ++i) start(NodeId(i));
  }

  // Steps until the condition holds; false if it does not within the limit, or a rule is broken.
  bool reach(const std::function<bool()>& condition, Duration limit = seconds(120)) {
    const auto end = world_->now() + limit;
    while (!condition()) {
      if (!checker_->violation().empty() || world_->now() > end || !world_->step()) return false;
    }
    return true;
  }
  // Somebody has applied the commit of that many iterations.
  bool reach_iteration(std::uint64_t done) {
    return reach([&] { return checker_->newest() >= done; });
  }
  std::uint64_t newest() const { return checker_->newest(); }

  // Once, just before a message of type T from `from` leaves it; `when` may ask for more.
  template <class T>
  void at_message(
      NodeId from, std::function<void(NodeId to)> action,
      std::function<bool(const T&)> when = [](const T&) { return true; }) {
    trigger_ = [this, from, action, when](NodeId sender, NodeId to, const wire::Message& message) {
      const auto* body = std::get_if<T>(&message.body);
      if (sender != from || !body || !when(*body)) return false;
      world_->at(world_->now(), [action, to] { action(to); });
      return true;
    };
  }
  bool triggered() const { return !trigger_; }

  NodeId leader() const {
    for (const auto id : world_->nodes())
      if (!world_->frozen(id) && world_->node(id)->leading()) return id;
    return wire::kNobody;
  }
  bool works(NodeId id) const {
    const auto* node = world_->node(id);
    return node && node->phase() == swarm::Node::Phase::kWorking;
  }
  swarm::Counters counters() const { return world_->counters(); }
  std::string exit_of(NodeId id) const {
    const auto at = world_->exits().find(id);
    return at == world_->exits().end() ? "" : at->second;
  }

  // To the end of the run: every iteration done, no rule broken, everybody who lives has finished.
  void expect_finish(Duration limit = seconds(300)) {
    const bool done = reach([&] { return newest() >= run_.iterations && world_->nodes().empty(); }, limit);
    EXPECT_EQ(checker_->violation(), "");
    EXPECT_EQ(newest(), run_.iterations);
    EXPECT_TRUE(done) << stuck();
  }
  const std::string& violation() const { return checker_->violation(); }
  // Where everybody stands, for messages of failed tests.
  std::string stuck() const {
    std::string out;
    for (const auto id : world_->nodes()) out += world_->node(id)->describe();
    return out;
  }

 private:
  void sent(NodeId from, NodeId to, const wire::Message& message) {
    if (trigger_ && trigger_(from, to, message)) trigger_ = nullptr;
  }

  const TroubledSwarmOptions options_;
  swarm::RunOptions run_;
  std::unique_ptr<World> world_;
  std::unique_ptr<Checker> checker_;
  std::function<bool(NodeId, NodeId, const wire::Message&)> trigger_;
};

}  // namespace staged
}  // namespace tributary::sim
