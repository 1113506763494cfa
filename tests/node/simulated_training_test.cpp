// The real model in the simulated world: the protocol's own objects, LibTorch's mathematics, every failure of the chaos
// scenarios, and after each iteration the very weights of one undisturbed process.
#include <gtest/gtest.h>

#include <cstdlib>

#include "node/torch_compute.h"
#include "sim/chaos.h"
#include "text/temporary_folder.h"

namespace tributary::node {
namespace {

constexpr std::uint32_t kMicrobatches = 4;
constexpr std::uint32_t kSequence = 16;

std::vector<text::Token> counting(Iteration iteration, MicrobatchId microbatch) {
  Random random(mix64(iteration.value(), microbatch.value()));
  std::vector<text::Token> tokens;
  auto at = static_cast<text::Token>(random.below(40));
  for (std::uint32_t i = 0; i <= kSequence; ++i) tokens.push_back(at++ % 40);
  return tokens;
}

ComputeOptions options_in(const std::filesystem::path& checkpoints) {
  ComputeOptions o;
  o.config.vocabulary = 40;
  o.config.layers = 2;
  o.config.hidden = 32;
  o.config.heads = 2;
  o.config.kv_heads = 1;
  o.config.intermediate = 64;
  o.config.context = kSequence;
  o.cut = *model::cut_evenly(o.config, 2);
  o.seed = 11;
  o.microbatches = kMicrobatches;
  o.batch = 1;
  o.sequence = kSequence;
  o.reproducible = true;
  o.tokens = counting;
  o.held_out = [](std::uint32_t batch) { return counting(Iteration(1u << 30), MicrobatchId(batch)); };
  o.threads = 1;
  o.checkpoints = checkpoints;
  return o;
}

// Keeps the simulated disk's table of contents true to what lies on the real one.
class OnDisk : public swarm::Compute {
 public:
  OnDisk(std::unique_ptr<swarm::Compute> inner, std::shared_ptr<sim::Disk> disk)
      : inner_(std::move(inner)), disk_(std::move(disk)) {}
  swarm::TaskResult run(const swarm::Task& task) override {
    auto result = inner_->run(task);
    if (task.kind == swarm::TaskKind::kSave && result.ok) disk_->checkpoints[{task.stage, task.iteration}] = {};
    return result;
  }
  std::uint64_t state_size(StageId stage) const override { return inner_->state_size(stage); }

 private:
  std::unique_ptr<swarm::Compute> inner_;
  std::shared_ptr<sim::Disk> disk_;
};

class SimulatedTraining : public testing::TestWithParam<int> {};

TEST_P(SimulatedTraining, EndsWithTheWeightsOfOneProcessWhateverFails) {
  const ::tributary::TemporaryFolder folder;
  sim::ChaosModel model;
  model.stages = 2;
  model.microbatches = kMicrobatches;
  model.most_payload_bytes = kSequence * 32 * 4;
  model.make_compute = [&](std::shared_ptr<sim::Disk> disk) -> std::unique_ptr<swarm::Compute> {
    // One folder a simulated disk, by its address.
    const auto at = folder.path() / std::to_string(reinterpret_cast<std::uintptr_t>(disk.get()));
    auto compute = TorchCompute::create(options_in(at));
    EXPECT_TRUE(compute.ok()) << compute.error().message;
    return std::make_unique<OnDisk>(std::move(*compute), std::move(disk));
  };
  const auto sizes = model.make_compute(std::make_shared<sim::Disk>());
  for (std::uint16_t stage = 0; stage <= model.stages; ++stage)
    model.state_sizes.push_back(sizes->state_size(StageId(stage)));

  swarm::Counters counters;
  std::uint64_t crashes = 0, evaluations = 0;
  for (int i = 0; i < 5; ++i) {
    sim::ChaosOptions options;
    options.seed = static_cast<std::uint64_t>(GetParam() * 5 + i + 1);
    options.model = &model;
    const auto result = sim::run_chaos(options);
    EXPECT_EQ(result.violation, "") << "seed " << options.seed;
    counters.add(result.counters);
    crashes += result.crashes;
    evaluations += result.evaluations;
  }
  EXPECT_GT(crashes, 0u);
  EXPECT_GT(evaluations, 0u);
  EXPECT_GT(counters.repairs + counters.replays + counters.rewinds, 0u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, SimulatedTraining, testing::Range(0, 12));

}  // namespace
}  // namespace tributary::node
