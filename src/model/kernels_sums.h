// Conversions, sums, the fixed-point fold and the optimizer. Included by kernels_body.h only.
#pragma once
#include "model/kernels_lanes.h"

namespace tributary::model::TRIBUTARY_KERNEL_LEVEL {
namespace {

template <class T>
void from_float(const float* x, T* out, std::size_t begin, std::size_t end) {
  x += begin;
  out += begin;
  for_lanes(end - begin,
            [&](std::size_t at, std::size_t left, bool whole) TRIBUTARY_INLINE_LAMBDA { STORE(out, LOAD(x)); });
}
template <class T>
void to_float(const T* x, float* out, std::size_t begin, std::size_t end) {
  x += begin;
  out += begin;
  for_lanes(end - begin,
            [&](std::size_t at, std::size_t left, bool whole) TRIBUTARY_INLINE_LAMBDA { STORE(out, LOAD(x)); });
}
template <class T>
void accumulate(const T* x, float* out, std::size_t begin, std::size_t end) {
  x += begin;
  out += begin;
  for_lanes(end - begin, [&](std::size_t at, std::size_t left, bool whole)
                             TRIBUTARY_INLINE_LAMBDA { STORE(out, LOAD(out) + LOAD(x)); });
}

template <class T>
bool all_below(const T* x, float limit, std::size_t begin, std::size_t end) {
  x += begin;
  I bad = {};
  for_lanes(end - begin, [&](std::size_t at, std::size_t left, bool whole) TRIBUTARY_INLINE_LAMBDA {
    const V size = floats_of(bits_of(LOAD(x)) & 0x7fffffffu);
    bad |= ~(size < limit);
  });
  std::int32_t lanes[kLanes], any = 0;
  std::memcpy(lanes, &bad, sizeof lanes);
  for (const std::int32_t lane : lanes) any |= lane;
  return any == 0;
}

// Multiplying by 2^44 is exact in double, which holds a float's 24 bits with room. Below 2^51 a number is rounded by
// adding 1.5 * 2^52, whose low bits then are the integer; from 2^51 on a float times 2^44 is whole already.
template <class T>
bool fold_fixed(const T* x, std::int64_t* sum, float limit, bool subtract, std::size_t begin, std::size_t end) {
  constexpr std::size_t kBlock = 256;
  constexpr double kUnit = 0x1p44, kMagic = 0x1.8p52;
  std::int64_t magic_bits;
  std::memcpy(&magic_bits, &kMagic, sizeof magic_bits);
  const std::int64_t sign = subtract ? -1 : 0;
  for (std::size_t at_block = begin; at_block < end; at_block += kBlock) {
    const std::size_t count = end - at_block < kBlock ? end - at_block : kBlock;
    float values[kBlock];
    to_float(x + at_block, values, 0, count);
    std::int64_t* out = sum + at_block;
    int bad = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const float size = __builtin_fabsf(values[i]);
      bad |= !(size < limit);
      bad |= (size >= 0x1p7f) << 1;
    }
    if (bad & 1) return false;
    if (bad == 0) {
      for (std::size_t i = 0; i < count; ++i) {
        const double shifted = static_cast<double>(values[i]) * kUnit + kMagic;
        std::int64_t whole;
        std::memcpy(&whole, &shifted, sizeof whole);
        whole -= magic_bits;
        const std::uint64_t signed_whole = static_cast<std::uint64_t>((whole ^ sign) - sign);
        out[i] = static_cast<std::int64_t>(static_cast<std::uint64_t>(out[i]) + signed_whole);
      }
    } else {
      for (std::size_t i = 0; i < count; ++i) {
        const std::int64_t whole = static_cast<std::int64_t>(__builtin_rint(static_cast<double>(values[i]) * kUnit));
        const std::uint64_t signed_whole = static_cast<std::uint64_t>((whole ^ sign) - sign);
        out[i] = static_cast<std::int64_t>(static_cast<std::uint64_t>(out[i]) + signed_whole);
      }
    }
  }
  return true;
}

template <class T>
bool fold_float(const T* x, float* sum, bool subtract, std::size_t begin, std::size_t end) {
  if (!all_below(x, __builtin_inff(), begin, end)) return false;
  x += begin;
  sum += begin;
  const float sign = subtract ? -1.0f : 1.0f;
  for_lanes(end - begin, [&](std::size_t at, std::size_t left, bool whole)
                             TRIBUTARY_INLINE_LAMBDA { STORE(sum, LOAD(sum) + LOAD(x) * sign); });
  return true;
}

void adamw(float* weights, float* first, float* second, const float* gradient, const AdamStep& s, std::size_t begin,
           std::size_t end) {
  const float keep = 1.0f - s.learning_rate * s.decay;
  const float rest1 = 1.0f - s.beta1, rest2 = 1.0f - s.beta2;
  for (std::size_t i = begin; i < end; ++i) {
    const float g = gradient[i] * s.gradient_scale;
    const float m = s.beta1 * first[i] + rest1 * g;
    const float v = s.beta2 * second[i] + rest2 * (g * g);
    first[i] = m;
    second[i] = v;
    const float step = (m / s.correction1) / (__builtin_sqrtf(v / s.correction2) + s.epsilon);
    weights[i] = weights[i] * keep - s.learning_rate * step;
  }
}

void fixed_to_float(const std::int64_t* sum, float* out, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    out[i] = static_cast<float>(static_cast<double>(sum[i]) * 0x1p-44);
  }
}

void add_fixed(const std::int64_t* x, std::int64_t* sum, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    sum[i] = static_cast<std::int64_t>(static_cast<std::uint64_t>(sum[i]) + static_cast<std::uint64_t>(x[i]));
  }
}

double block_sum_squares(const float* x, std::size_t count) {
  double lanes[8] = {};
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (std::size_t lane = 0; lane < 8; ++lane) {
      const double value = static_cast<double>(x[i + lane]);
      lanes[lane] += value * value;
    }
  }
  for (; i < count; ++i) lanes[i % 8] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  for (std::size_t half = 4; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

}  // namespace
}  // namespace tributary::model::TRIBUTARY_KERNEL_LEVEL
