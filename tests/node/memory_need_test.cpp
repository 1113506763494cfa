#include "node/memory_need.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>

namespace tributary::node {
namespace {

using swarm::Task;
using swarm::TaskKind;

ComputeOptions options() {
  ComputeOptions o;
  o.config.vocabulary = 300;
  o.config.layers = 4;
  o.config.hidden = 256;
  o.config.heads = 8;
  o.config.kv_heads = 8;
  o.config.intermediate = 1024;
  o.config.context = 256;
  o.cut = *model::cut_evenly(o.config, 1);
  o.seed = 5;
  o.microbatches = 6;
  o.batch = 4;
  o.sequence = 128;
  o.threads = 1;
  return o;
}

std::uint64_t resident() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t all = 0, pages = 0;
  file >> all >> pages;
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

// A relay through several iterations, with as many microbatches between forward and backward as it has slots.
class Relay {
 public:
  explicit Relay(const ComputeOptions& o) : options_(o), compute_(std::move(*TorchCompute::create(o))) {
    run(TaskKind::kInit, 0, 0);
  }
  std::uint64_t highest() const { return highest_; }

  void iterate(std::uint64_t iteration, std::uint32_t slots) {
    std::vector<Payload> kept;  // inputs, outputs, gradients of the whole iteration, as the protocol keeps them
    const auto random = [&](std::uint32_t) {
      auto buffer = make_buffer(options_.payload_bytes());
      std::memset(buffer->data(), 0x3f, buffer->size());  // bf16: 0.75
      kept.push_back(Payload(std::move(buffer)));
      return kept.back();
    };
    for (std::uint32_t first = 0; first < options_.microbatches; first += slots) {
      const auto last = std::min(options_.microbatches, first + slots);
      std::vector<Payload> inputs;
      for (auto m = first; m < last; ++m) {
        inputs.push_back(random(m));
        kept.push_back(run(TaskKind::kForward, iteration, m, inputs.back()).output);
      }
      for (auto m = first; m < last; ++m) {
        kept.push_back(run(TaskKind::kBackward, iteration, m, inputs[m - first], random(m)).output);
        run(TaskKind::kFold, iteration, m);
      }
    }
    auto partial = run(TaskKind::kPartial, iteration, 0);
    auto share = run(TaskKind::kSumShare, iteration, 0, nullptr, nullptr, {partial.output});
    run(TaskKind::kSetResult, iteration, 0, share.output);
    run(TaskKind::kFinishResult, iteration, 0);
    run(TaskKind::kApply, iteration, 0);
    if (iteration >= 2) run(TaskKind::kForget, iteration - 2, 0);
  }

 private:
  swarm::TaskResult run(TaskKind kind, std::uint64_t iteration, std::uint32_t microbatch, Payload input = nullptr,
                        Payload gradient = nullptr, std::vector<Payload> inputs = {}) {
    Task task;
    task.kind = kind;
    task.stage = StageId(1);
    task.part = PartId(1);
    task.iteration = Iteration(iteration);
    task.microbatch = MicrobatchId(microbatch);
    task.input = std::move(input);
    task.gradient = std::move(gradient);
    task.inputs = std::move(inputs);
    task.range = {0, compute_->state_size(StageId(1))};
    task.step = {1e-3, 1, iteration + 1};
    auto result = compute_->run(task);
    EXPECT_TRUE(result.ok) << result.error;
    highest_ = std::max(highest_, resident());
    return result;
  }

  const ComputeOptions options_;
  std::unique_ptr<TorchCompute> compute_;
  std::uint64_t highest_ = 0;
};

TEST(MemoryNeed, IsAnUpperBoundThatIsNotFarOff) {
  for (const auto precision : {model::Precision::kFp32, model::Precision::kBf16}) {
    auto o = options();
    o.precision = precision;
    constexpr std::uint32_t kSlots = 3;
    o.kept_graphs = kSlots;
    const auto need = memory_need(o, StageId(1));
    const auto allowed = need.least() + kSlots * need.slot;
    const auto before = resident();
    Relay relay(o);
    for (std::uint64_t iteration = 0; iteration < 3; ++iteration) relay.iterate(iteration, kSlots);
    ASSERT_GT(relay.highest(), before);
    const auto used = relay.highest() - before;
    EXPECT_LE(used, allowed) << used / 1e6 << " MB of " << allowed / 1e6;
    // What an earlier case had used may be used again, so only the first one is held to this.
    if (precision == model::Precision::kFp32) {
      EXPECT_GE(used * 3, allowed) << used / 1e6 << " MB of " << allowed / 1e6;
    }
  }
}

TEST(MemoryNeed, FewerSlotsFitIntoLessAndNoneIsRefusedWithFigures) {
  const auto need = memory_need(options(), StageId(1));
  EXPECT_EQ(*slots_within(need.least() + 100 * need.slot, need, 4, StageId(1)), 4u);
  EXPECT_EQ(*slots_within(need.least() + 2 * need.slot + 1, need, 4, StageId(1)), 2u);
  EXPECT_EQ(*slots_within(need.least() + need.slot, need, 4, StageId(1)), 1u);
  const auto refused = slots_within(need.least() + need.slot - 1, need, 4, StageId(1));
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("stage 1 needs"), std::string::npos);
  EXPECT_NE(refused.error().message.find("--memory"), std::string::npos);
}

}  // namespace
}  // namespace tributary::node
