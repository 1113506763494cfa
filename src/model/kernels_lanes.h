// What the kernels are written in: sixteen floats at a time, loaded from and stored to either element type. Included by
// the kernels' bodies only, once a level.
#pragma once
#include <cstring>

#include "model/kernels.h"

namespace tributary::model::TRIBUTARY_KERNEL_LEVEL {
namespace {

using V = float __attribute__((vector_size(64)));
using U = std::uint32_t __attribute__((vector_size(64)));
using I = std::int32_t __attribute__((vector_size(64)));
using H = std::uint16_t __attribute__((vector_size(32)));
constexpr std::size_t kLanes = 16;

#define TRIBUTARY_INLINE inline __attribute__((always_inline))
#define TRIBUTARY_INLINE_LAMBDA __attribute__((always_inline))

TRIBUTARY_INLINE V splat(float x) { return V{} + x; }
TRIBUTARY_INLINE U bits_of(V v) {
  U u;
  std::memcpy(&u, &v, sizeof u);
  return u;
}
TRIBUTARY_INLINE V floats_of(U u) {
  V v;
  std::memcpy(&v, &u, sizeof v);
  return v;
}

TRIBUTARY_INLINE V load(const float* p) {
  V v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
TRIBUTARY_INLINE V widen(H h) { return floats_of(__builtin_convertvector(h, U) << 16); }
TRIBUTARY_INLINE V load(const Bf16* p) {
  H h;
  std::memcpy(&h, p, sizeof h);
  return widen(h);
}
// Round to nearest even; a NaN stays one.
TRIBUTARY_INLINE H narrow(V v) {
  const U u = bits_of(v);
  const U rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  const U nan = (u >> 16) | 0x40u;
  return __builtin_convertvector((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded, H);
}
TRIBUTARY_INLINE void store(float* p, V v) { std::memcpy(p, &v, sizeof v); }
TRIBUTARY_INLINE void store(Bf16* p, V v) {
  const H h = narrow(v);
  std::memcpy(p, &h, sizeof h);
}
// Fewer than 16 elements; the other lanes are `fill`.
TRIBUTARY_INLINE V load_some(const float* p, std::size_t n, float fill = 0) {
  V v = splat(fill);
  std::memcpy(&v, p, n * sizeof *p);
  return v;
}
TRIBUTARY_INLINE V load_some(const Bf16* p, std::size_t n, float fill = 0) {
  H h = narrow(splat(fill));
  std::memcpy(&h, p, n * sizeof *p);
  return widen(h);
}
TRIBUTARY_INLINE void store_some(float* p, V v, std::size_t n) { std::memcpy(p, &v, n * sizeof *p); }
TRIBUTARY_INLINE void store_some(Bf16* p, V v, std::size_t n) {
  const H h = narrow(v);
  std::memcpy(p, &h, n * sizeof *p);
}

TRIBUTARY_INLINE float sum_lanes(V v) {
  float a[kLanes];
  std::memcpy(a, &v, sizeof a);
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) a[i] += a[i + half];
  }
  return a[0];
}
TRIBUTARY_INLINE V larger(V a, V b) { return a > b ? a : b; }
TRIBUTARY_INLINE float max_lanes(V v) {
  float a[kLanes];
  std::memcpy(a, &v, sizeof a);
  float m = a[0];
  for (std::size_t i = 1; i < kLanes; ++i) m = a[i] > m ? a[i] : m;
  return m;
}

// e^x to about 1 ulp: x = n ln 2 + r with |r| <= ln 2 / 2, a polynomial for e^r (Cephes), n into the exponent.
// Outside [-87, 88] it stays at those ends; a NaN stays one.
TRIBUTARY_INLINE V exponential(V x) {
  const V nan = x;
  x = x < -87.0f ? splat(-87.0f) : x;
  x = x > 88.0f ? splat(88.0f) : x;
  const V magic = splat(12582912.0f);  // 1.5 * 2^23: adding it rounds to a whole number
  const V shifted = x * 1.44269504088896341f + magic;
  const V n = shifted - magic;
  V r = x - n * 0.693359375f;
  r = r + n * 2.12194440e-4f;
  V p = splat(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const U exponent = (bits_of(shifted) - bits_of(magic)) << 23;
  const V result = floats_of(bits_of(p) + exponent);
  return nan == nan ? result : nan;
}
TRIBUTARY_INLINE V sigmoid(V x) { return 1.0f / (1.0f + exponential(-x)); }

// Newton's steps in plain arithmetic would do too, but the square root is exact on every level.
TRIBUTARY_INLINE float reciprocal_root(float x) { return 1.0f / __builtin_sqrtf(x); }

// One expression for whole groups and for the rest of a row.
#define LOAD(p) (whole ? load((p) + at) : load_some((p) + at, left))
#define STORE(p, v) (whole ? store((p) + at, v) : store_some((p) + at, v, left))

// f(at, left, whole) with compile-time `whole`.
template <class F>
TRIBUTARY_INLINE void for_lanes(std::size_t width, F&& f) {
  std::size_t at = 0;
  for (; at + kLanes <= width; at += kLanes) f(at, kLanes, true);
  if (at < width) f(at, width - at, false);
}

}  // namespace
}  // namespace tributary::model::TRIBUTARY_KERNEL_LEVEL
