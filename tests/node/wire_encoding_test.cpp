#include "node/wire_encoding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/random.h"
#include "model/parallel.h"

namespace tributary::node {
namespace {

at::Tensor random_tensor(std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  auto tensor = at::empty({rows, columns}, at::kFloat);
  Random random(seed);
  auto* values = static_cast<float*>(tensor.data_ptr());
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    // Magnitudes over many powers of ten, block by block.
    values[i] = static_cast<float>((random.uniform() - 0.5) * std::pow(10.0, static_cast<double>(i / 500 % 9) - 4));
  }
  return tensor;
}

at::Tensor decoded(const Payload& payload, WireType type, const at::Tensor& like, at::ScalarType scalar) {
  auto tensor = decode_tensor(payload, type, like.size(0), like.size(1), scalar);
  EXPECT_TRUE(tensor.ok()) << tensor.error().message;
  return *tensor;
}

TEST(WireEncoding, Int8IsWithinHalfAStepOfEachBlock) {
  // 21 x 48: blocks straddle rows, and the last one is shorter.
  const auto tensor = random_tensor(21, 48, 3);
  const auto payload = *encode_tensor(tensor, WireType::kInt8);
  ASSERT_EQ(payload->size(), 21 * 48 + 4 * ((21 * 48 + 63) / 64));
  ASSERT_EQ(payload->size(), encoded_bytes(WireType::kInt8, 21 * 48));
  const auto back = decoded(payload, WireType::kInt8, tensor, at::kFloat);
  const auto* x = static_cast<const float*>(tensor.data_ptr());
  const auto* y = static_cast<const float*>(back.data_ptr());
  for (int begin = 0; begin < 21 * 48; begin += 64) {
    const int end = std::min(begin + 64, 21 * 48);
    float largest = 0;
    for (int i = begin; i < end; ++i) largest = std::max(largest, std::fabs(x[i]));
    for (int i = begin; i < end; ++i) EXPECT_LE(std::fabs(x[i] - y[i]), largest / 127 * 0.5001f) << i;
  }
}

TEST(WireEncoding, TheBytesDoNotDependOnThreads) {
  const auto tensor = random_tensor(1500, 200, 4);
  for (const auto type : {WireType::kInt8, WireType::kBf16, WireType::kFp32}) {
    model::set_threads(1);
    const auto one = *encode_tensor(tensor, type);
    model::set_threads(3);
    const auto three = *encode_tensor(tensor, type);
    ASSERT_EQ(one->size(), three->size());
    EXPECT_EQ(std::memcmp(one->data(), three->data(), one->size()), 0);
    model::set_threads(1);
  }
}

TEST(WireEncoding, ZerosAndTheTiniestNumbersAreZeros) {
  auto tensor = at::zeros({2, 64}, at::kFloat);
  static_cast<float*>(tensor.data_ptr())[70] = 1e-40f;
  const auto back = decoded(*encode_tensor(tensor, WireType::kInt8), WireType::kInt8, tensor, at::kFloat);
  EXPECT_EQ(at::count_nonzero(back).item<std::int64_t>(), 0);
}

TEST(WireEncoding, BothComputeTypesComeBackInBothForms) {
  const auto tensor = random_tensor(8, 64, 5);
  for (const auto from : {at::kFloat, at::kBFloat16})
    for (const auto to : {at::kFloat, at::kBFloat16})
      for (const auto type : {WireType::kInt8, WireType::kBf16, WireType::kFp32}) {
        const auto given = tensor.to(from);
        const auto back = decoded(*encode_tensor(given, type), type, tensor, to);
        ASSERT_EQ(back.scalar_type(), to);
        const double error = (back.to(at::kDouble) - given.to(at::kDouble)).norm().item<double>();
        EXPECT_LT(error, 0.01 * given.to(at::kDouble).norm().item<double>());
      }
}

TEST(WireEncoding, WhatIsNotFiniteNeitherLeavesNorEnters) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
    for (const auto type : {WireType::kInt8, WireType::kBf16, WireType::kFp32}) {
      auto tensor = random_tensor(4, 64, 6);
      auto payload = *encode_tensor(tensor, type);
      static_cast<float*>(tensor.data_ptr())[130] = bad;
      EXPECT_FALSE(encode_tensor(tensor, type).ok());
      // As a liar would send it: into a value, or into a scale.
      auto lie = make_buffer(payload->size());
      std::memcpy(lie->data(), payload->data(), payload->size());
      if (type == WireType::kBf16) {
        const std::uint16_t high = std::isnan(bad) ? 0x7fc0 : 0x7f80;
        std::memcpy(lie->data() + 6, &high, 2);
      } else {
        std::memcpy(lie->data() + 8, &bad, 4);
      }
      const auto refused = decode_tensor(lie, type, 4, 64, at::kFloat);
      ASSERT_FALSE(refused.ok());
      EXPECT_EQ(refused.error().message, "is not finite");
      EXPECT_FALSE(decode_tensor(payload, type, 4, 63, at::kFloat).ok());
      EXPECT_FALSE(decode_tensor(nullptr, type, 4, 64, at::kFloat).ok());
    }
}

}  // namespace
}  // namespace tributary::node
