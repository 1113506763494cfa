#include "model/kernels.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include "base/random.h"

namespace tributary::model {
namespace {

float draw(Random& random) { return static_cast<float>(random.uniform() * 8 - 4); }

template <class T>
std::vector<T> numbers(std::size_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> values(count);
  for (auto& value : values) value = draw(random);
  std::vector<T> out(count);
  kernels().rows<T>().from_float(values.data(), out.data(), 0, count);
  return out;
}

template <class T>
std::vector<float> floats(const std::vector<T>& values) {
  std::vector<float> out(values.size());
  kernels().rows<T>().to_float(values.data(), out.data(), 0, values.size());
  return out;
}

// Runs every kernel of a level on fixed inputs and returns all bytes that it wrote.
template <class T>
std::vector<std::byte> run_all(const Kernels& level, std::size_t width) {
  const auto& k = level.rows<T>();
  constexpr std::size_t kRows = 70, kHeads = 4, kShared = 2, kSequence = 10;
  const std::size_t D = width / kHeads / 2 * 2;
  std::vector<std::byte> log;
  const auto record = [&](const auto& values) {
    const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
    log.insert(log.end(), bytes, bytes + values.size() * sizeof(values[0]));
  };
  const auto x = numbers<T>(kRows * width, 1), dy = numbers<T>(kRows * width, 2),
             wide = numbers<T>(kRows * 2 * width, 3);
  const auto weight = numbers<float>(width, 4), bias = numbers<float>(width, 5);
  std::vector<T> sum(kRows * width), out(kRows * width), dx(kRows * width), dwide(kRows * 2 * width);
  std::vector<float> rstd(kRows), mean(kRows), partial(2 * width), partial_bias(2 * width);
  k.rms_norm({x.data(), dy.data(), weight.data(), sum.data(), out.data(), rstd.data(), width, 1e-5f}, 0, kRows);
  k.rms_norm_backward(
      {dy.data(), sum.data(), x.data(), rstd.data(), weight.data(), dx.data(), partial.data(), width, kRows}, 0, 2);
  record(sum), record(out), record(rstd), record(dx), record(partial);
  k.layer_norm(
      {x.data(), nullptr, weight.data(), bias.data(), sum.data(), out.data(), mean.data(), rstd.data(), width, 1e-5f},
      0, kRows);
  k.layer_norm_backward({dy.data(), x.data(), nullptr, mean.data(), rstd.data(), weight.data(), dx.data(),
                         partial.data(), partial_bias.data(), width, kRows},
                        0, 2);
  record(out), record(mean), record(dx), record(partial), record(partial_bias);
  k.swiglu({wide.data(), out.data(), width}, 0, kRows);
  k.swiglu_backward({dy.data(), wide.data(), dwide.data(), width}, 0, kRows);
  record(out), record(dwide);
  k.gelu(x.data(), out.data(), 3, kRows * width - 5);
  k.gelu_backward(dy.data(), x.data(), dx.data(), 3, kRows * width - 5);
  record(out), record(dx);
  const auto angles = numbers<float>(kSequence * D, 6);
  const auto qkv = numbers<T>(kRows * (kHeads + 2 * kShared) * D, 7);
  std::vector<T> q(kRows * kHeads * D), key(q.size()), value(q.size()), back(qkv.size());
  const auto *cosine = angles.data(), *sine = angles.data() + kSequence * D / 2;
  k.rope({qkv.data(), q.data(), key.data(), value.data(), cosine, sine, kHeads, kShared, D, kSequence}, 0, kRows);
  const auto dkey = numbers<float>(q.size(), 9), dvalue = numbers<float>(q.size(), 10);
  k.rope_backward({q.data(), dkey.data(), dvalue.data(), back.data(), cosine, sine, kHeads, kShared, D, kSequence}, 0,
                  kRows);
  record(q), record(key), record(value), record(back);
  // Queries 6 to 9 of 10, in 28 groups.
  constexpr std::size_t kGroups = kRows / kSequence * kHeads, kQueries = 4, kFirst = 6;
  auto scores = numbers<T>(kGroups * kQueries * kSequence, 11), dscores = numbers<T>(scores.size(), 12);
  std::vector<float> highest(kGroups * kSequence), inverse(highest.size()), delta(highest.size());
  k.split_heads({q.data(), key.data(), value.data(), delta.data(), kHeads, D, kSequence}, 0, kRows);
  record(value), record(delta);
  auto probabilities = scores;
  k.attention({probabilities.data(), highest.data(), inverse.data(), kQueries, kSequence, kFirst, kSequence, 0.3f}, 0,
              kGroups * kQueries);
  k.attention_backward({scores.data(), dscores.data(), highest.data(), inverse.data(), delta.data(), kQueries,
                        kSequence, kFirst, kSequence, 0.3f},
                       0, kGroups * kQueries);
  record(probabilities), record(scores), record(dscores), record(highest), record(inverse);
  k.merge_heads({key.data(), inverse.data(), q.data(), kHeads, D, kQueries, kFirst, kSequence}, 0,
                kRows / kSequence * kQueries);
  record(q);
  std::vector<std::int32_t> targets(kRows);
  for (std::size_t i = 0; i < kRows; ++i) targets[i] = static_cast<std::int32_t>(i % width);
  auto logits = x;
  std::vector<float> loss(kRows);
  k.cross_entropy({logits.data(), targets.data(), loss.data(), width, 0.01f}, 0, kRows);
  record(logits), record(loss);
  k.column_sums(x.data(), partial.data(), width, kRows, 0, 2);
  record(partial);
  std::vector<std::int64_t> fixed(x.size());
  EXPECT_TRUE(k.fold_fixed(x.data(), fixed.data(), 100, false, 0, x.size()));
  record(fixed);
  std::vector<float> weights(100, 0.5f), first(100), second(100);
  const auto gradient = numbers<float>(100, 8);
  level.adamw(weights.data(), first.data(), second.data(), gradient.data(),
              {0.01f, 0.9f, 0.95f, 1e-8f, 0.1f, 0.7f, 0.1f, 0.05f}, 0, 100);
  record(weights), record(first), record(second);
  std::vector<double> squares = {level.block_sum_squares(gradient.data(), 100)};
  record(squares);
  return log;
}

TEST(Kernels, GiveTheSameBitsOnEveryLevel) {
  std::size_t count = 0;
  const auto* levels = available_kernels(count);
  for (const std::size_t width : {16u, 60u, 77u, 256u}) {
    const auto wide = run_all<float>(*levels[0], width), narrow = run_all<Bf16>(*levels[0], width);
    for (std::size_t i = 1; i < count; ++i) {
      EXPECT_EQ(run_all<float>(*levels[i], width), wide) << levels[i]->level << " " << width;
      EXPECT_EQ(run_all<Bf16>(*levels[i], width), narrow) << levels[i]->level << " " << width;
    }
  }
}

TEST(Kernels, RoundToBf16ToNearestEvenAndKeepNan) {
  const std::vector<float> values = {1.0f, std::bit_cast<float>(0x3f808000u), std::bit_cast<float>(0x3f818000u),
                                     std::numeric_limits<float>::infinity(), std::bit_cast<float>(0x7fffffffu)};
  std::vector<Bf16> out(values.size());
  kernels().bf16.from_float(values.data(), out.data(), 0, values.size());
  EXPECT_EQ(out[0].bits, 0x3f80);
  EXPECT_EQ(out[1].bits, 0x3f80);  // half way: to the even one
  EXPECT_EQ(out[2].bits, 0x3f82);
  EXPECT_EQ(out[3].bits, 0x7f80);
  EXPECT_TRUE(std::isnan(floats(out)[4]));
}

TEST(Kernels, CrossEntropyAgreesWithItsDefinition) {
  constexpr std::size_t kRows = 5, kWidth = 77;
  const auto x = numbers<float>(kRows * kWidth, 1);
  auto logits = x;
  const std::vector<std::int32_t> targets = {0, 76, 5, 16, 33};
  std::vector<float> loss(kRows);
  kernels().f32.cross_entropy({logits.data(), targets.data(), loss.data(), kWidth, 2.0f}, 0, kRows);
  for (std::size_t row = 0; row < kRows; ++row) {
    double total = 0;
    for (std::size_t i = 0; i < kWidth; ++i) total += std::exp(static_cast<double>(x[row * kWidth + i]));
    const auto target = static_cast<std::size_t>(targets[row]);
    EXPECT_NEAR(loss[row], std::log(total) - x[row * kWidth + target], 1e-5);
    for (std::size_t i = 0; i < kWidth; ++i) {
      const double p = std::exp(static_cast<double>(x[row * kWidth + i])) / total;
      EXPECT_NEAR(logits[row * kWidth + i], 2 * (p - (i == target ? 1 : 0)), 1e-5);
    }
  }
}

// A derivative by differences, for each kernel that has a backward form.
TEST(Kernels, GeluBackwardIsTheDerivative) {
  const auto x = numbers<float>(200, 1);
  const std::vector<float> ones(200, 1.0f);
  std::vector<float> up(200), down(200), dx(200), shifted(200);
  constexpr float kStep = 1e-2f;
  for (std::size_t i = 0; i < 200; ++i) shifted[i] = x[i] + kStep;
  kernels().f32.gelu(shifted.data(), up.data(), 0, 200);
  for (std::size_t i = 0; i < 200; ++i) shifted[i] = x[i] - kStep;
  kernels().f32.gelu(shifted.data(), down.data(), 0, 200);
  kernels().f32.gelu_backward(ones.data(), x.data(), dx.data(), 0, 200);
  for (std::size_t i = 0; i < 200; ++i) EXPECT_NEAR(dx[i], (up[i] - down[i]) / (2 * kStep), 1e-3) << x[i];
}

TEST(FixedPoint, RoundsToNearestEvenInUnitsOf2ToTheMinus44) {
  const std::vector<float> values = {0x1p-44f, 0x1.8p-44f, 0x1p-45f, -0x1.8p-44f, 1.0f, -200.0f, 0x1p17f};
  std::vector<std::int64_t> sum(values.size(), 10);
  ASSERT_TRUE(kernels().f32.fold_fixed(values.data(), sum.data(), 0x1p18f, false, 0, values.size()));
  EXPECT_EQ(sum,
            (std::vector<std::int64_t>{11, 12, 10, 8, 10 + (1ll << 44), 10 - 200 * (1ll << 44), 10 + (1ll << 61)}));
  ASSERT_TRUE(kernels().f32.fold_fixed(values.data(), sum.data(), 0x1p18f, true, 0, values.size()));
  EXPECT_EQ(sum, std::vector<std::int64_t>(values.size(), 10));
}

TEST(FixedPoint, RefusesWhatIsTooLargeOrNotANumber) {
  for (const float bad :
       {0x1p10f, -0x1p10f, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const std::vector<float> values = {1, 2, bad};
    std::vector<std::int64_t> sum(3);
    EXPECT_FALSE(kernels().f32.fold_fixed(values.data(), sum.data(), 0x1p10f, false, 0, 3)) << bad;
    EXPECT_FALSE(kernels().f32.all_below(values.data(), 0x1p10f, 0, 3)) << bad;
    EXPECT_TRUE(kernels().f32.all_below(values.data(), 0x1p10f, 0, 2));
  }
}

TEST(AdamW, AgreesWithAPlainTwinInDoublePrecision) {
  std::vector<float> weights = numbers<float>(50, 1), first(50), second(50);
  std::vector<double> w(weights.begin(), weights.end()), m(50), v(50);
  for (int step = 1; step <= 20; ++step) {
    const auto gradient = numbers<float>(50, 100 + static_cast<std::uint64_t>(step));
    const double c1 = 1 - std::pow(0.9, step), c2 = 1 - std::pow(0.95, step);
    kernels().adamw(weights.data(), first.data(), second.data(), gradient.data(),
                    {0.01f, 0.9f, 0.95f, 1e-8f, 0.1f, 0.5f, static_cast<float>(c1), static_cast<float>(c2)}, 0, 50);
    for (std::size_t i = 0; i < 50; ++i) {
      const double g = 0.5 * static_cast<double>(gradient[i]);
      m[i] = 0.9 * m[i] + 0.1 * g;
      v[i] = 0.95 * v[i] + 0.05 * g * g;
      w[i] = w[i] * (1 - 0.01 * 0.1) - 0.01 * (m[i] / c1) / (std::sqrt(v[i] / c2) + 1e-8);
      EXPECT_NEAR(weights[i], w[i], 1e-5) << i << " at step " << step;
    }
  }
}

}  // namespace
}  // namespace tributary::model
