// LibTorch's operations against the hand-written kernels: the same stage, both ways; and on a GPU where there is one.
#include "model/portable.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tributary::model {
namespace {

constexpr std::int64_t kBatch = 3, kSequence = 24;

struct Case {
  Family family;
  Precision precision;
};

Config config_of(Family family) {
  Config c;
  c.family = family;
  c.vocabulary = 90;
  c.layers = 2;
  c.hidden = 64;
  c.heads = 4;
  c.kv_heads = family == Family::kLlama ? 2 : 4;
  c.intermediate = 96;
  c.context = 40;
  return c;
}

// What one way of computing gives; everything on the CPU in fp32. Gradients as flat vectors of their stages.
struct Outcome {
  at::Tensor embedded, y, dx, head_dx, block_gradients, end_gradients;
  double loss = 0, held_out_loss = 0;
};

at::Tensor flat_gradients(const Gradients& gradients, std::uint64_t size) {
  auto flat = at::zeros({static_cast<std::int64_t>(size)}, at::kFloat);
  for (const auto& piece : gradients) {
    const auto values = piece.values.to(at::kCPU, at::kFloat).reshape({-1});
    if (piece.rows.empty()) {
      flat.narrow(0, static_cast<std::int64_t>(piece.offset), values.numel()).add_(values);
      continue;
    }
    const auto width = values.numel() / static_cast<std::int64_t>(piece.rows.size());
    for (std::size_t i = 0; i < piece.rows.size(); ++i) {
      const auto at = static_cast<std::int64_t>(piece.offset) + piece.rows[i] * width;
      flat.narrow(0, at, width).add_(values.narrow(0, static_cast<std::int64_t>(i) * width, width));
    }
  }
  return flat;
}

Outcome compute(const Case& c, at::Device device) {
  StageOptions o;
  o.config = config_of(c.family);
  o.cut = *cut_evenly(o.config, 1);
  o.precision = c.precision;
  o.size = {kBatch, kSequence};
  o.device = device;
  std::vector<float> flats[2];
  for (std::uint16_t stage = 0; stage < 2; ++stage) {
    const auto layout = stage_layout(o.config, o.cut, StageId(stage));
    flats[stage].resize(layout.size);
    initialise(layout, 7, flats[stage].data());
  }
  EndStage end(o);
  end.set_weights(flats[0].data());
  o.stage = StageId(1);
  BlockStage blocks(o);
  blocks.set_weights(flats[1].data());

  std::vector<std::int32_t> tokens, targets;
  for (std::int32_t i = 0; i < kBatch * kSequence; ++i) {
    tokens.push_back(i * 37 % 90);
    targets.push_back((i * 53 + 11) % 90);
  }
  const auto host = [](const at::Tensor& x) { return x.to(at::kCPU, at::kFloat); };
  Outcome out;
  StageSaved saved;
  Gradients of_blocks, of_end;
  const auto x = end.embed(tokens.data());
  const auto y = blocks.forward(x, &saved);
  const auto head = end.head(y, targets.data(), 0.01, of_end);
  const auto dx = blocks.backward(saved, head.dx, of_blocks);
  end.embed_backward(tokens.data(), dx, of_end);
  out.embedded = host(x);
  out.y = host(y);
  out.head_dx = host(head.dx);
  out.dx = host(dx);
  out.loss = head.loss;
  out.held_out_loss = end.loss(y, targets.data());
  out.block_gradients = flat_gradients(of_blocks, flats[1].size());
  out.end_gradients = flat_gradients(of_end, flats[0].size());
  return out;
}

double difference(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).norm().item<double>() / b.to(at::kDouble).norm().item<double>();
}

void expect_near(const Outcome& a, const Outcome& b, double tolerance) {
  EXPECT_LT(difference(a.embedded, b.embedded), tolerance);
  EXPECT_LT(difference(a.y, b.y), tolerance);
  EXPECT_LT(difference(a.head_dx, b.head_dx), tolerance);
  EXPECT_LT(difference(a.dx, b.dx), tolerance);
  EXPECT_LT(difference(a.block_gradients, b.block_gradients), tolerance);
  EXPECT_LT(difference(a.end_gradients, b.end_gradients), tolerance);
  EXPECT_NEAR(a.loss, b.loss, tolerance * b.loss);
  EXPECT_NEAR(a.held_out_loss, b.held_out_loss, tolerance * b.loss);
}

class Portable : public testing::TestWithParam<Case> {
 protected:
  double tolerance() const { return GetParam().precision == Precision::kFp32 ? 1e-5 : 2e-2; }
};

TEST_P(Portable, AgreesWithTheKernels) {
  set_threads(1);
  const auto kernels = compute(GetParam(), at::kCPU);
  portable::force(true);
  const auto operations = compute(GetParam(), at::kCPU);
  portable::force(false);
  expect_near(operations, kernels, tolerance());
  // Otherwise the kernels would have been compared with themselves.
  EXPECT_GT(difference(operations.dx, kernels.dx), 0);
}

TEST_P(Portable, AgreesWithTheKernelsOnAGpu) {
  if (!at::hasCUDA()) GTEST_SKIP() << "this LibTorch sees no GPU";
  expect_near(compute(GetParam(), at::Device(at::kCUDA)), compute(GetParam(), at::kCPU), tolerance() * 10);
}

INSTANTIATE_TEST_SUITE_P(Cases, Portable,
                         testing::Values(Case{Family::kLlama, Precision::kFp32}, Case{Family::kGpt, Precision::kFp32},
                                         Case{Family::kLlama, Precision::kBf16}, Case{Family::kGpt, Precision::kBf16}));

}  // namespace
}  // namespace tributary::model
