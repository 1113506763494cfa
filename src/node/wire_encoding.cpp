#include "node/wire_encoding.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "model/kernels.h"
#include "model/parallel.h"

namespace tributary::node {
namespace {

using model::Bf16;
using model::kernels;
using model::parallel_for;

constexpr std::size_t kGrain = 65536;
static_assert(kGrain % kInt8Block == 0);
constexpr float kInfinity = std::numeric_limits<float>::infinity();
// Blocks of nothing but smaller values are zeros: their scale's inverse could be infinite.
constexpr float kSmallest = 1e-30f;
// Adding and taking away 1.5 * 2^23 rounds to the nearest whole number, ties to even, and compiles to plain vectors.
constexpr float kRound = 12582912.0f;

std::size_t blocks_of(std::size_t count) { return (count + kInt8Block - 1) / kInt8Block; }

void quantize(const float* values, float* scale, std::int8_t* out, std::size_t count) {
  float largest = 0;
  for (std::size_t i = 0; i < count; ++i) largest = std::max(largest, std::fabs(values[i]));
  const bool zero = largest < kSmallest;
  *scale = zero ? 0.0f : largest / 127.0f;
  const float inverse = zero ? 0.0f : 127.0f / largest;
  for (std::size_t i = 0; i < count; ++i) {
    const float rounded = (values[i] * inverse + kRound) - kRound;
    out[i] = static_cast<std::int8_t>(static_cast<int>(rounded));
  }
}

void dequantize(const std::int8_t* values, float scale, float* out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) out[i] = scale * static_cast<float>(values[i]);
}

// [begin, end) starts at a multiple of the block. False: not all are finite.
bool encode_int8(const at::Tensor& tensor, std::byte* payload, std::size_t all, std::size_t begin, std::size_t end) {
  auto* scales = reinterpret_cast<float*>(payload);
  auto* values = reinterpret_cast<std::int8_t*>(payload + blocks_of(all) * sizeof(float));
  float widened[kInt8Block];
  for (std::size_t at = begin; at < end; at += kInt8Block) {
    const std::size_t count = std::min(kInt8Block, end - at);
    const float* from = widened;
    if (tensor.scalar_type() == at::kFloat) {
      from = static_cast<const float*>(tensor.data_ptr()) + at;
    } else {
      kernels().bf16.to_float(static_cast<const Bf16*>(tensor.data_ptr()) + at, widened, 0, count);
    }
    if (!kernels().f32.all_below(from, kInfinity, 0, count)) return false;
    quantize(from, scales + at / kInt8Block, values + at, count);
  }
  return true;
}

bool decode_int8(const std::byte* payload, const at::Tensor& tensor, std::size_t all, std::size_t begin,
                 std::size_t end) {
  const auto* scales = reinterpret_cast<const float*>(payload);
  const auto* values = reinterpret_cast<const std::int8_t*>(payload + blocks_of(all) * sizeof(float));
  float widened[kInt8Block];
  for (std::size_t at = begin; at < end; at += kInt8Block) {
    const std::size_t count = std::min(kInt8Block, end - at);
    const float scale = scales[at / kInt8Block];
    // What 127 or 128 times it is must be finite too.
    if (!(scale >= 0 && scale < std::numeric_limits<float>::max() / 128)) return false;
    if (tensor.scalar_type() == at::kFloat) {
      dequantize(values + at, scale, static_cast<float*>(tensor.data_ptr()) + at, count);
    } else {
      dequantize(values + at, scale, widened, count);
      kernels().bf16.from_float(widened, static_cast<Bf16*>(tensor.data_ptr()) + at, 0, count);
    }
  }
  return true;
}

bool encode_part(const at::Tensor& tensor, WireType type, Buffer& buffer, std::size_t all, std::size_t begin,
                 std::size_t end) {
  if (type == WireType::kInt8) return encode_int8(tensor, buffer.data(), all, begin, end);
  const auto& k = kernels();
  const bool is_float = tensor.scalar_type() == at::kFloat;
  const auto* floats = static_cast<const float*>(tensor.data_ptr());
  const auto* halves = static_cast<const Bf16*>(tensor.data_ptr());
  if (type == WireType::kBf16) {
    auto* out = reinterpret_cast<Bf16*>(buffer.data());
    if (is_float) {
      k.bf16.from_float(floats, out, begin, end);
    } else {
      std::memcpy(out + begin, halves + begin, (end - begin) * 2);
    }
    return k.bf16.all_below(out, kInfinity, begin, end);
  }
  auto* out = reinterpret_cast<float*>(buffer.data());
  if (is_float) {
    std::memcpy(out + begin, floats + begin, (end - begin) * 4);
  } else {
    k.bf16.to_float(halves, out, begin, end);
  }
  return k.f32.all_below(out, kInfinity, begin, end);
}

}  // namespace

std::uint64_t encoded_bytes(WireType type, std::uint64_t count) {
  if (type == WireType::kInt8) return blocks_of(count) * sizeof(float) + count;
  return count * (type == WireType::kBf16 ? 2 : 4);
}

Result<Payload> encode_tensor(const at::Tensor& tensor, WireType type) {
  const auto count = static_cast<std::size_t>(tensor.numel());
  auto buffer = make_buffer(encoded_bytes(type, count));
  std::atomic<bool> finite = true;
  parallel_for(count, kGrain, [&](std::size_t begin, std::size_t end) {
    if (!encode_part(tensor, type, *buffer, count, begin, end)) finite = false;
  });
  if (!finite) return Error{"an activation or gradient is not finite"};
  return Payload(std::move(buffer));
}

Result<at::Tensor> decode_tensor(const Payload& payload, WireType type, std::int64_t rows, std::int64_t columns,
                                 at::ScalarType scalar) {
  const auto count = static_cast<std::size_t>(rows * columns);
  if (payload_size(payload) != encoded_bytes(type, count))
    return Error{"has " + std::to_string(payload_size(payload)) + " bytes instead of " +
                 std::to_string(encoded_bytes(type, count))};
  const auto* as_bf16 = reinterpret_cast<const Bf16*>(payload->data());
  const auto* as_float = reinterpret_cast<const float*>(payload->data());
  const bool shared = type == (scalar == at::kFloat ? WireType::kFp32 : WireType::kBf16);
  const auto tensor = shared ? at::from_blob(
                                   const_cast<std::byte*>(payload->data()), {rows, columns}, [payload](void*) {},
                                   at::TensorOptions(scalar))
                             : at::empty({rows, columns}, scalar);
  std::atomic<bool> finite = true;
  parallel_for(count, kGrain, [&](std::size_t begin, std::size_t end) {
    const auto& k = kernels();
    bool good;
    if (type == WireType::kInt8) {
      good = decode_int8(payload->data(), tensor, count, begin, end);
    } else if (type == WireType::kBf16) {
      good = k.bf16.all_below(as_bf16, kInfinity, begin, end);
      if (good && !shared) k.bf16.to_float(as_bf16, static_cast<float*>(tensor.data_ptr()), begin, end);
    } else {
      good = k.f32.all_below(as_float, kInfinity, begin, end);
      if (good && !shared) k.bf16.from_float(as_float, static_cast<Bf16*>(tensor.data_ptr()), begin, end);
    }
    if (!good) finite = false;
  });
  if (!finite) return Error{"is not finite"};
  return tensor;
}

}  // namespace tributary::node
