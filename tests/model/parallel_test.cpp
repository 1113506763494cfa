#include "model/parallel.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <vector>

#include "model/stage.h"

namespace tributary::model {
namespace {

class Threads {
 public:
  explicit Threads(int count) { set_threads(count); }
  ~Threads() { set_threads(1); }
};

// Each of two ranges waits until the other has begun: one thread alone would wait in vain.
TEST(ParallelFor, RunsRangesAtTheSameTime) {
  const Threads two(2);
  std::mutex mutex;
  std::condition_variable begun;
  int running = 0;
  bool together = true;
  parallel_for(2, 1, [&](std::size_t, std::size_t) {
    std::unique_lock lock(mutex);
    ++running;
    begun.notify_all();
    together = begun.wait_for(lock, std::chrono::seconds(20), [&] { return running == 2; }) && together;
  });
  EXPECT_EQ(running, 2);
  EXPECT_TRUE(together);
}

TEST(ParallelFor, CoversEverythingOnceInWholeGrains) {
  for (const int threads : {1, 3})
    for (const std::size_t count : {0, 1, 99, 100, 101, 1234}) {
      const Threads set(threads);
      std::vector<int> seen(count);
      parallel_for(count, 100, [&](std::size_t begin, std::size_t end) {
        EXPECT_EQ(begin % 100, 0u);
        for (std::size_t i = begin; i < end; ++i) ++seen[i];
      });
      EXPECT_EQ(seen, std::vector<int>(count, 1));
    }
}

// Forward and backward of two blocks: every byte, by the number of threads. Sizes at which the matrix products of the
// libraries keep their order too.
std::vector<float> pass(Precision precision, Family family, int threads) {
  const Threads set(threads);
  StageOptions o;
  o.config.family = family;
  o.config.vocabulary = 64;
  o.config.layers = 2;
  o.config.hidden = 64;
  o.config.heads = 4;
  o.config.kv_heads = family == Family::kLlama ? 2 : 4;
  o.config.intermediate = 128;
  o.config.context = 64;
  o.cut = *cut_evenly(o.config, 1);
  o.stage = StageId(1);
  o.precision = precision;
  o.size = {8, 64};
  const auto layout = stage_layout(o.config, o.cut, o.stage);
  std::vector<float> flat(layout.size);
  initialise(layout, 3, flat.data());
  BlockStage stage(o);
  stage.set_weights(flat.data());
  const auto ramp = at::arange(o.size.rows() * o.config.hidden, at::kFloat).view({o.size.rows(), o.config.hidden});
  const auto x = at::sin(ramp * 0.37).to(scalar_type(precision));
  StageSaved saved;
  Gradients gradients;
  std::vector<float> out;
  const auto keep = [&](const at::Tensor& tensor) {
    const auto wide = tensor.to(at::kFloat).contiguous();
    const auto* values = static_cast<const float*>(wide.data_ptr());
    out.insert(out.end(), values, values + wide.numel());
  };
  const auto y = stage.forward(x, &saved);
  keep(y);
  keep(stage.backward(saved, at::cos(ramp * 0.11).to(scalar_type(precision)), gradients));
  for (const auto& piece : gradients) keep(piece.values);
  return out;
}

TEST(ParallelFor, AStageGivesTheSameBitsOnOneThreadAndOnThree) {
  for (const auto family : {Family::kLlama, Family::kGpt})
    for (const auto precision : {Precision::kFp32, Precision::kBf16}) {
      const auto one = pass(precision, family, 1), three = pass(precision, family, 3);
      ASSERT_EQ(one.size(), three.size());
      EXPECT_EQ(std::memcmp(one.data(), three.data(), one.size() * sizeof(float)), 0);
    }
}

}  // namespace
}  // namespace tributary::model
