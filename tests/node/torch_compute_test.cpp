#include "node/torch_compute.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "swarm/step.h"
#include "text/files.h"
#include "text/temporary_folder.h"

namespace tributary::node {
namespace {

using swarm::Task;
using swarm::TaskKind;
using swarm::TaskResult;

constexpr std::uint32_t kMicrobatches = 3;

// Sequences that count upwards: a model learns them within a few steps.
std::vector<text::Token> counting(Iteration iteration, MicrobatchId microbatch) {
  std::vector<text::Token> tokens;
  Random random(mix64(iteration.value(), microbatch.value()));
  for (int row = 0; row < 2; ++row) {
    auto at = static_cast<text::Token>(random.below(50));
    for (int i = 0; i < 17; ++i) tokens.push_back(at++ % 50);
  }
  return tokens;
}

ComputeOptions options(std::uint32_t stages, model::Family family = model::Family::kLlama) {
  ComputeOptions o;
  o.config.family = family;
  o.config.vocabulary = 50;
  o.config.layers = 3;
  o.config.hidden = 64;
  o.config.heads = 4;
  o.config.kv_heads = family == model::Family::kLlama ? 2 : 4;
  o.config.intermediate = 96;
  o.config.context = 16;
  o.cut = *model::cut_evenly(o.config, stages);
  o.hold_all = true;
  o.seed = 5;
  o.microbatches = kMicrobatches;
  o.batch = 2;
  o.sequence = 16;
  o.tokens = counting;
  o.held_out = [](std::uint32_t batch) { return counting(Iteration(99), MicrobatchId(batch)); };
  o.threads = 1;
  return o;
}

TEST(TorchCompute, ADeviceThatIsNotThereIsNamed) {
  auto o = options(1);
  o.device = "gpu";
  auto made = TorchCompute::create(o);
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.error().message.find("\"gpu\""), std::string::npos);
  EXPECT_NE(devices_here().find("cpu"), std::string::npos);
  if (devices_here() != "cpu") GTEST_SKIP() << "there is a GPU";
  o.device = "cuda";
  made = TorchCompute::create(o);
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.error().message.find("sees no GPU"), std::string::npos);
}

std::unique_ptr<TorchCompute> make(ComputeOptions o) {
  auto compute = TorchCompute::create(std::move(o));
  EXPECT_TRUE(compute.ok()) << compute.error().message;
  return std::move(*compute);
}

// Drives a set of computes through whole iterations; `holder(stage)` says who does the work of a stage.
class Driver {
 public:
  explicit Driver(std::vector<swarm::Compute*> holders) : holders_(std::move(holders)) {}
  std::uint16_t stages() const { return static_cast<std::uint16_t>(holders_.size() - 1); }
  swarm::Compute& holder(std::uint16_t stage) { return *holders_[stage]; }

  TaskResult must(Task task) {
    auto result = holder(task.stage.value()).run(task);
    EXPECT_TRUE(result.ok) << result.error;
    return result;
  }
  Task task(TaskKind kind, std::uint16_t stage, std::uint64_t iteration = 0, std::uint32_t microbatch = 0) {
    Task t;
    t.kind = kind;
    t.stage = StageId(stage);
    t.part = PartId(stage);
    t.iteration = Iteration(iteration);
    t.microbatch = MicrobatchId(microbatch);
    t.range = {0, kind == TaskKind::kFinishResult ? 0 : holder(stage).state_size(StageId(stage))};
    return t;
  }
  void initialise() {
    for (std::uint16_t stage = 0; stage <= stages(); ++stage) must(task(TaskKind::kInit, stage));
  }
  struct Trace {
    double loss = 0;
    std::vector<Payload> inputs, gradients;  // by stage: of its backward task
  };
  Trace pipeline(std::uint64_t iteration, std::uint32_t microbatch) {
    Trace trace;
    trace.inputs.resize(stages() + 2u);
    trace.gradients.resize(stages() + 1u);
    Payload x = must(task(TaskKind::kEmbed, 0, iteration, microbatch)).output;
    for (std::uint16_t stage = 1; stage <= stages(); ++stage) {
      auto forward = task(TaskKind::kForward, stage, iteration, microbatch);
      forward.input = trace.inputs[stage] = x;
      x = must(forward).output;
    }
    auto head = task(TaskKind::kHead, 0, iteration, microbatch);
    head.input = trace.inputs[stages() + 1u] = x;
    const auto result = must(head);
    trace.loss = result.loss;
    Payload gradient = result.output;
    for (std::uint16_t stage = stages(); stage >= 1; --stage) {
      auto backward = task(TaskKind::kBackward, stage, iteration, microbatch);
      backward.input = trace.inputs[stage];
      backward.gradient = trace.gradients[stage] = gradient;
      gradient = must(backward).output;
    }
    auto embed = task(TaskKind::kEmbedBackward, 0, iteration, microbatch);
    embed.gradient = trace.gradients[0] = gradient;
    must(embed);
    return trace;
  }
  double held_out_loss(std::uint32_t batch) {
    auto evaluate = task(TaskKind::kEvaluate, 0, 0, batch);
    for (std::uint16_t part = 0; part <= stages(); ++part) {
      evaluate.part = PartId(part);
      evaluate.stage = StageId(part);
      evaluate.input = must(evaluate).output;
    }
    evaluate.part = PartId(static_cast<std::uint16_t>(stages() + 1));
    evaluate.stage = StageId(0);
    return must(evaluate).loss;
  }
  void fold(std::uint64_t iteration, std::uint32_t microbatch) {
    for (int part = stages() + 1; part >= 0; --part) {
      auto fold = task(TaskKind::kFold, static_cast<std::uint16_t>(part > stages() ? 0 : part), iteration, microbatch);
      fold.part = PartId(static_cast<std::uint16_t>(part));
      must(fold);
    }
  }
  TaskResult share(std::uint16_t stage, std::uint64_t iteration, std::vector<Payload> partials) {
    auto share = task(TaskKind::kSumShare, stage, iteration);
    share.inputs = std::move(partials);
    return must(share);
  }
  // Returns the hashes of all stages' new weights.
  std::vector<std::uint64_t> commit(std::uint64_t iteration) {
    double sum_squares = 0;
    for (std::uint16_t stage = 0; stage <= stages(); ++stage) {
      auto set = task(TaskKind::kSetResult, stage, iteration);
      set.input = share(stage, iteration, {must(task(TaskKind::kPartial, stage, iteration)).output}).output;
      must(set);
      sum_squares += must(task(TaskKind::kFinishResult, stage, iteration)).sum_squares;
    }
    std::vector<std::uint64_t> hashes;
    swarm::StepOptions schedule;
    schedule.learning_rate = schedule.min_learning_rate = 0.01;
    schedule.clip = 0;  // the norm's last bit depends on the cut
    for (std::uint16_t stage = 0; stage <= stages(); ++stage) {
      auto apply = task(TaskKind::kApply, stage, iteration);
      apply.step = swarm::step_parameters(schedule, Iteration(iteration), sum_squares, kMicrobatches, kMicrobatches);
      hashes.push_back(must(apply).hash);
      must(task(TaskKind::kForget, stage, iteration));
    }
    return hashes;
  }
  std::vector<std::uint64_t> iterate(std::uint64_t iteration) {
    loss = 0;
    for (std::uint32_t m = 0; m < kMicrobatches; ++m) {
      loss += pipeline(iteration, m).loss / kMicrobatches;
      fold(iteration, m);
    }
    return commit(iteration);
  }
  // All weights and moments in order of the model, whatever the cut.
  std::vector<std::byte> weights() {
    std::vector<std::byte> all;
    for (std::uint16_t stage = 0; stage <= stages(); ++stage) {
      const auto state = must(task(TaskKind::kReadState, stage)).output;
      all.insert(all.end(), state->data(), state->data() + state->size() / 3);
    }
    return all;
  }
  double loss = 0;

 private:
  std::vector<swarm::Compute*> holders_;
};

Driver alone(TorchCompute& compute, std::uint32_t stages) {
  return Driver(std::vector<swarm::Compute*>(stages + 1, &compute));
}

TEST(TorchCompute, LearnsToCount) {
  for (const auto family : {model::Family::kLlama, model::Family::kGpt}) {
    for (const auto precision : {model::Precision::kFp32, model::Precision::kBf16}) {
      auto o = options(2, family);
      o.precision = precision;
      auto compute = make(o);
      auto driver = alone(*compute, 2);
      driver.initialise();
      driver.iterate(0);
      EXPECT_NEAR(driver.loss, std::log(50.0), 0.5);
      for (std::uint64_t i = 1; i < 80; ++i) driver.iterate(i);
      EXPECT_LT(driver.loss, 0.7);
      EXPECT_NEAR(driver.held_out_loss(0), driver.loss, 0.5);
    }
  }
}

TEST(TorchCompute, StagesChainedAreTheWholeModelInEveryBit) {
  // Where the wire keeps every bit of an activation, cutting must not change anything.
  for (const auto precision : {model::Precision::kFp32, model::Precision::kBf16}) {
    std::vector<std::byte> first;
    for (const std::uint32_t stages : {1u, 2u, 3u}) {
      auto o = options(stages);
      o.precision = precision;
      o.wire = precision == model::Precision::kFp32 ? WireType::kFp32 : WireType::kBf16;
      o.reproducible = true;
      auto compute = make(o);
      auto driver = alone(*compute, stages);
      driver.initialise();
      for (std::uint64_t i = 0; i < 3; ++i) driver.iterate(i);
      if (first.empty()) first = driver.weights();
      EXPECT_TRUE(first == driver.weights()) << stages;
    }
  }
}

TEST(TorchCompute, NodesOfOneStageEachEqualOneProcess) {
  for (const auto wire : {WireType::kBf16, WireType::kFp32}) {
    auto o = options(2);
    o.wire = wire;
    o.reproducible = true;
    auto whole = make(o);
    o.hold_all = false;
    auto data = make(o), relay1 = make(o), relay2 = make(o);
    auto one = alone(*whole, 2);
    Driver many({data.get(), relay1.get(), relay2.get()});
    one.initialise();
    many.initialise();
    for (std::uint64_t i = 0; i < 3; ++i) EXPECT_EQ(one.iterate(i), many.iterate(i));
  }
}

TEST(TorchCompute, RecomputedGraphsGiveTheSameBitsAsKeptOnes) {
  for (const auto precision : {model::Precision::kFp32, model::Precision::kBf16}) {
    std::vector<std::uint64_t> expected;
    for (const auto& [kept, recompute] : {std::pair{8u, false}, {0u, false}, {8u, true}}) {
      auto o = options(2);
      o.precision = precision;
      o.kept_graphs = kept;
      o.recompute_activations = recompute;
      auto compute = make(o);
      auto driver = alone(*compute, 2);
      driver.initialise();
      driver.iterate(0);
      const auto hashes = driver.iterate(1);
      if (expected.empty()) expected = hashes;
      EXPECT_EQ(hashes, expected) << kept << recompute;
    }
  }
}

TEST(ReproducibleSums, DoNotDependOnOrderNorOnWhoFolds) {
  auto o = options(1);
  o.reproducible = true;
  const auto hash_of = [&](std::vector<std::uint32_t> mine, std::vector<std::uint32_t> others) {
    auto a = make(o), b = make(o);
    auto first = alone(*a, 1), second = alone(*b, 1);
    first.initialise();
    second.initialise();
    for (auto* driver : {&first, &second}) {
      for (const auto m : driver == &first ? mine : others) {
        driver->pipeline(0, m);
        driver->fold(0, m);
      }
    }
    std::vector<std::uint64_t> hashes;
    for (std::uint16_t stage = 0; stage <= 1; ++stage) {
      const auto x = first.must(first.task(TaskKind::kPartial, stage)).output;
      const auto y = second.must(second.task(TaskKind::kPartial, stage)).output;
      hashes.push_back(first.share(stage, 0, {x, y}).hash);
      EXPECT_EQ(hashes.back(), first.share(stage, 0, {y, x}).hash);
    }
    return hashes;
  };
  const auto expected = hash_of({0, 1, 2}, {});
  EXPECT_EQ(hash_of({2, 0, 1}, {}), expected);
  EXPECT_EQ(hash_of({1}, {2, 0}), expected);
}

TEST(ReproducibleSums, ARetractionLeavesNothingBehind) {
  auto o = options(1);
  o.reproducible = true;
  auto compute = make(o);
  auto driver = alone(*compute, 1);
  driver.initialise();
  driver.pipeline(0, 0);
  driver.fold(0, 0);
  const auto before0 = driver.must(driver.task(TaskKind::kPartial, 0)).output;
  const auto before1 = driver.must(driver.task(TaskKind::kPartial, 1)).output;
  const auto trace = driver.pipeline(0, 1);
  driver.fold(0, 1);
  auto retract = driver.task(TaskKind::kRetract, 1, 0, 1);
  retract.input = trace.inputs[1];
  retract.gradient = trace.gradients[1];
  driver.must(retract);
  retract = driver.task(TaskKind::kRetract, 0, 0, 1);
  retract.gradient = trace.gradients[0];
  driver.must(retract);
  retract = driver.task(TaskKind::kRetract, 0, 0, 1);
  retract.part = PartId(2);
  retract.input = trace.inputs[2];
  driver.must(retract);
  const auto after0 = driver.must(driver.task(TaskKind::kPartial, 0)).output;
  const auto after1 = driver.must(driver.task(TaskKind::kPartial, 1)).output;
  EXPECT_EQ(checksum64(before0->span()), checksum64(after0->span()));
  EXPECT_EQ(checksum64(before1->span()), checksum64(after1->span()));
}

TEST(TorchCompute, StateMovesInPieces) {
  auto from = make(options(1)), to = make(options(1));
  auto source = alone(*from, 1);
  source.initialise();
  source.iterate(0);
  auto target = alone(*to, 1);
  for (std::uint16_t stage = 0; stage <= 1; ++stage) {
    const auto size = from->state_size(StageId(stage));
    for (std::uint64_t begin = 0; begin < size; begin += 5000) {
      auto piece = source.task(TaskKind::kReadState, stage);
      piece.range = {begin, std::min(begin + 5000, size)};
      auto write = piece;
      write.kind = TaskKind::kWriteState;
      write.input = source.must(piece).output;
      target.must(write);
    }
  }
  EXPECT_EQ(source.iterate(1), target.iterate(1));
}

TEST(TorchCompute, CheckpointsResumeInTheSameBits) {
  TemporaryFolder folder;
  auto o = options(1);
  o.checkpoints = folder.path();
  auto first = make(o), second = make(o);
  auto a = alone(*first, 1), b = alone(*second, 1);
  a.initialise();
  a.iterate(0);
  for (std::uint16_t stage = 0; stage <= 1; ++stage) {
    const auto saved = a.must(a.task(TaskKind::kSave, stage, 1));
    EXPECT_EQ(b.must(b.task(TaskKind::kLoad, stage, 1)).hash, saved.hash);
  }
  EXPECT_EQ(a.iterate(1), b.iterate(1));
  const auto missing = second->run(b.task(TaskKind::kLoad, 0, 9));
  EXPECT_FALSE(missing.ok);
  EXPECT_NE(missing.error.find("0000000009"), std::string::npos) << missing.error;
}

TEST(TorchCompute, AStateLoadedAgainKeepsNothingOfTheIterationsThatComeAgain) {
  TemporaryFolder folder;
  auto o = options(1);
  o.checkpoints = folder.path();
  auto compute = make(o), undisturbed = make(o);
  auto a = alone(*compute, 1), b = alone(*undisturbed, 1);
  a.initialise();
  b.initialise();
  a.iterate(0);
  b.iterate(0);
  for (std::uint16_t stage = 0; stage <= 1; ++stage) a.must(a.task(TaskKind::kSave, stage, 1));
  // A rewind in the middle of iteration 1: one microbatch is in the sums, another waits to be folded.
  a.pipeline(1, 0);
  a.fold(1, 0);
  a.pipeline(1, 1);
  for (std::uint16_t stage = 0; stage <= 1; ++stage) a.must(a.task(TaskKind::kLoad, stage, 1));
  EXPECT_EQ(a.iterate(1), b.iterate(1));
}

TEST(TorchCompute, AStateMadeAnewKeepsNothingEither) {
  auto compute = make(options(1)), undisturbed = make(options(1));
  auto a = alone(*compute, 1), b = alone(*undisturbed, 1);
  a.initialise();
  a.pipeline(0, 0);
  a.fold(0, 0);
  a.initialise();
  b.initialise();
  EXPECT_EQ(a.iterate(0), b.iterate(0));
}

TEST(TorchCompute, ApplyInRangesIsApplyAtOnce) {
  auto whole = make(options(1)), pieces = make(options(1));
  auto a = alone(*whole, 1), b = alone(*pieces, 1);
  for (auto* driver : {&a, &b}) {
    driver->initialise();
    driver->pipeline(0, 0);
    driver->fold(0, 0);
    auto set = driver->task(TaskKind::kSetResult, 1);
    set.input = driver->share(1, 0, {driver->must(driver->task(TaskKind::kPartial, 1)).output}).output;
    driver->must(set);
  }
  auto apply = a.task(TaskKind::kApply, 1);
  apply.step = {0.01, 1, 1};
  a.must(apply);
  const auto size = apply.range.end;
  for (const swarm::Range range : {swarm::Range{777, size}, {0, 777}}) {
    apply.range = range;
    b.must(apply);
  }
  EXPECT_TRUE(a.weights() == b.weights());
}

class BadInput : public ::testing::Test {
 protected:
  void SetUp() override {
    auto o = options(1);
    o.reproducible = true;
    compute = make(o);
    driver.emplace(alone(*compute, 1));
    driver->initialise();
  }
  void expect_error(const Task& task, const std::string& part) {
    const auto result = compute->run(task);
    EXPECT_FALSE(result.ok);
    EXPECT_NE(result.error.find(part), std::string::npos) << result.error;
    EXPECT_EQ(result.output, nullptr);
  }
  std::unique_ptr<TorchCompute> compute;
  std::optional<Driver> driver;
};

TEST_F(BadInput, IsAnErrorNotACrash) {
  auto forward = driver->task(TaskKind::kForward, 1);
  expect_error(forward, "bytes");
  forward.input = make_buffer(10);
  expect_error(forward, "10 bytes");
  auto buffer = make_buffer(options(1).payload_bytes());
  std::memset(buffer->data(), 0, buffer->size());
  const std::uint16_t nan = 0x7fc0;
  std::memcpy(buffer->data() + 100, &nan, 2);
  forward.input = buffer;
  expect_error(forward, "not finite");
  auto backward = driver->task(TaskKind::kBackward, 1);
  backward.input = driver->must(driver->task(TaskKind::kEmbed, 0)).output;
  backward.gradient = buffer;
  expect_error(backward, "not finite");
  expect_error(driver->task(TaskKind::kFold, 1), "no contribution");
  expect_error(driver->task(TaskKind::kApply, 1), "no result");
  expect_error(driver->task(TaskKind::kFinishResult, 1), "not complete");
  auto range = driver->task(TaskKind::kReadState, 1);
  range.range.end += 1;
  expect_error(range, "outside");
  auto share = driver->task(TaskKind::kSumShare, 1);
  share.inputs = {make_buffer(8)};
  expect_error(share, "size");
  auto stage = driver->task(TaskKind::kForward, 1);
  stage.stage = StageId(7);
  expect_error(stage, "no stage 7");
}

TEST_F(BadInput, AGradientTooLargeForTheSumIsReportedAndNotFolded) {
  // A gradient of the output that is huge but finite makes gradients of the weights beyond 2^18 / M.
  auto buffer = make_buffer(options(1).payload_bytes());
  auto* values = reinterpret_cast<std::uint16_t*>(buffer->data());
  std::fill(values, values + buffer->size() / 2, static_cast<std::uint16_t>(0x4f80));  // 2^32
  auto backward = driver->task(TaskKind::kBackward, 1);
  backward.input = driver->must(driver->task(TaskKind::kEmbed, 0)).output;
  backward.gradient = buffer;
  expect_error(backward, "too large");
  expect_error(driver->task(TaskKind::kFold, 1), "no contribution");
}

TEST(ComputeOptionsCheck, NamesEveryFault) {
  auto o = options(1);
  o.sequence = 17;
  o.batch = 0;
  const auto compute = TorchCompute::create(o);
  ASSERT_FALSE(compute.ok());
  EXPECT_NE(compute.error().message.find("training.batch"), std::string::npos);
  EXPECT_NE(compute.error().message.find("training.sequence exceeds"), std::string::npos);
}

}  // namespace
}  // namespace tributary::node
