// The kernels themselves, compiled once a level. Only plain memory and arithmetic here: a function of the standard
// library that this file instantiated could be linked into code that runs on lesser processors.
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

template <class T>
void rms_norm(const typename RowKernels<T>::RmsNorm& a, std::size_t begin, std::size_t end) {
  for (std::size_t row = begin; row < end; ++row) {
    const T* x = a.x + row * a.width;
    T* out = a.out + row * a.width;
    V squares = {};
    if (a.delta) {
      const T* delta = a.delta + row * a.width;
      T* sum = a.sum + row * a.width;
      for_lanes(a.width, [&](std::size_t at, std::size_t left, bool whole) TRIBUTARY_INLINE_LAMBDA {
        STORE(sum, LOAD(x) + LOAD(delta));
        const V s = LOAD(sum);  // as stored: what the backward pass will read
        squares += s * s;
      });
      x = sum;
    } else {
      for_lanes(a.width, [&](std::size_t at, std::size_t left, bool whole) TRIBUTARY_INLINE_LAMBDA {
        const V s = LOAD(x);
        squares += s * s;
      });
    }
    const float rstd = reciprocal_root(sum_lanes(squares) / static_cast<float>(a.width) + a.epsilon);
    a.rstd[row] = rstd;
    for_lanes(a.width, [&](std::size_t at, std::size_t left, bool whole)
                           TRIBUTARY_INLINE_LAMBDA { STORE(out, LOAD(x) * rstd * LOAD(a.weight)); });
  }
}

template <class T>
void rms_norm_backward(const typename RowKernels<T>::RmsNormBackward& a, std::size_t begin, std::size_t end) {
  for (std::size_t block = begin; block < end; ++block) {
    float* partial = a.partial + block * a.width;
    std::memset(partial, 0, a.width * sizeof(float));
    const std::size_t last = (block + 1) * kRowBlock < a.rows ? (block + 1) * kRowBlock : a.rows;
    for (std::size_t row = block * kRowBlock; row < last; ++row) {
      const T *x = a.x + row * a.width, *dy = a.dy + row * a.width;
      const T* residual = a.residual ? a.residual + row * a.width : nullptr;
      T* dx = a.dx + row * a.width;
      const float rstd = a.rstd[row];
      V dots = {};
      for_lanes(a.width, [&](std::size_t at, std::size_t left, bool whole) TRIBUTARY_INLINE_LAMBDA {
        const V xhat = LOAD(x) * rstd, g = LOAD(dy);
        STORE(partial, LOAD(partial) + g * xhat);
        dots += g * LOAD(a.weight) * xhat;
      });
      const float mean = sum_lanes(dots) / static_cast<float>(a.width);
      for_lanes(a.width, [&](std::size_t at, std::size_t left, bool whole) TRIBUTARY_INLINE_LAMBDA {
        V g = (LOAD(dy) * LOAD(a.weight) - LOAD(x) * rstd * mean) * rstd;
        if (residual) g += LOAD(residual);
        STORE(dx, g);
      });
    }
  }
}

template <class T>
void layer_norm(const typename RowKernels<T>::LayerNorm& a, std::size_t begin, std::size_t end) {
  const float width = static_cast<float>(a.width);
  for (std::size_t row = begin; row < end; ++row) {
    const T* x = a.x + row * a.width;
    T* out = a.out + row * a.width;
    V sums = {}, squares = {};
    if (a.delta) {
      const T* delta = a.delta + row * a.width;
      T* sum = a.sum + row * a.width;
      for_lanes(a.width, [&](std::size_t at, std::size_t left, bool whole) TRIBUTARY_INLINE_LAMBDA {
        STORE(sum, LOAD(x) + LOAD(delta));
        sums += LOAD(sum);
      });
      x = sum;
    } else {
      for_lanes(a.width,
                [&](std::size_t at, std::size_t left, bool whole) TRIBUTARY_INLINE_LAMBDA { sums += LOAD(x); });
    }
    const float mean = sum_lanes(sums) / width;
    for_lanes(a.width, [&](std::size_t at, std::size_t left, bool whole) TRIBUTARY_INLINE_LAMBDA {
      const V centred = whole ? load(x + at) - mean : load_some(x + at, left, 0) - mean;
      const V square = centred * centred;
      if (whole) {
        squares += square;
      } else {
        float kept[kLanes] = {};
        std::memcpy(kept, &square, left * sizeof(float));  // lanes beyond the row do not count
        squares += load(kept);
      }
    });
    const float rstd = reciprocal_root(sum_lanes(squares) / width + a.epsilon);
    a.mean[row] = mean;
    a.rstd[row] = rstd;
    for_lanes(a.width, [&](std::size_t at, std::size_t left, bool whole) TRIBUTARY_INLINE_LAMBDA {
      STORE(out, (LOAD(x) - mean) * rstd * LOAD(a.weight) + LOAD(a.bias));
    });
  }
}

template <class T>
void layer_norm_backward(const typename RowKernels<T>::LayerNormBackward& a, std::size_t begin, std::size_t end) {
  const float width = static_cast<float>(a.width);
  for (std::size_t block = begin; block < end; ++block) {
    float *partial_weight = a.partial_weight + block * a.width, *partial_bias = a.partial_bias + block * a.width;
    std::memset(partial_weight, 0, a.width * sizeof(float));
    std::memset(partial_bias, 0, a.width * sizeof(float));
    const std::size_t last = (block + 1) * kRowBlock < a.rows ? (block + 1) * kRowBlock : a.rows;
    for (std::size_t row = block * kRowBlock; row < last; ++row) {
      const T *x = a.x + row * a.width, *dy = a.dy + row * a.width;
      const T* residual = a.residual ? a.residual + row * a.width : nullptr;
      T* dx = a.dx + row * a.width;
      const float mean = a.mean[row], rstd = a.rstd[row];
      V dots = {}, sums = {};
      for_lanes(a.width, [&](std::size_t at, std::size_t left, bool whole) TRIBUTARY_INLINE_LAMBDA {
        const V xhat = (LOAD(x) - mean) * rstd, g = LOAD(dy);  // lanes beyond the row have g = 0
        STORE(partial_weight, LOAD(partial_weight) + g * xhat);
        STORE(partial_bias, LOAD(partial_bias) + g);
        const V through = g * LOAD(a.weight);
        sums += through;
        dots += through * xhat;
      });
      const float mean_sum = sum_lanes(sums) / width, mean_dot = sum_lanes(dots) / width;
      for_lanes(a.width, [&](std::size_t at, std::size_t left, bool whole) TRIBUTARY_INLINE_LAMBDA {
        const V xhat = (LOAD(x) - mean) * rstd;
        V g = (LOAD(dy) * LOAD(a.weight) - mean_sum - xhat * mean_dot) * rstd;
        if (residual) g += LOAD(residual);
        STORE(dx, g);
      });
    }
  }
}

// Rotates one head: the two halves are the real and imaginary parts, as in transformers' rotate_half.
template <class T>
TRIBUTARY_INLINE void rotate(const T* x, T* out, const float* cosine, const float* sine, std::size_t half) {
  for_lanes(half, [&](std::size_t at, std::size_t left, bool whole) TRIBUTARY_INLINE_LAMBDA {
    const V a = LOAD(x), b = LOAD(x + half), c = LOAD(cosine), s = LOAD(sine);
    STORE(out, a * c - b * s);
    STORE(out + half, b * c + a * s);
  });
}

template <class T>
void rope(const typename RowKernels<T>::Rope& a, std::size_t begin, std::size_t end) {
  const std::size_t D = a.head_size, half = D / 2, group = a.heads / a.kv_heads, step = a.sequence * D;
  for (std::size_t row = begin; row < end; ++row) {
    const T* in = a.qkv + row * (a.heads + 2 * a.kv_heads) * D;
    const std::size_t position = row % a.sequence;
    const float* cosine = a.cosine ? a.cosine + position * half : nullptr;
    const float* sine = a.sine ? a.sine + position * half : nullptr;
    const std::size_t base = row / a.sequence * a.heads * step + position * D;  // of the first head
    T *q = a.q + base, *k = a.k + base, *v = a.v + base;
    for (std::size_t head = 0; head < a.heads; ++head) {
      if (cosine) {
        rotate(in + head * D, q + head * step, cosine, sine, half);
      } else {
        std::memcpy(q + head * step, in + head * D, D * sizeof(T));
      }
    }
    for (std::size_t shared = 0; shared < a.kv_heads; ++shared) {
      const T* key = in + (a.heads + shared) * D;
      T* first = k + shared * group * step;
      if (cosine) {
        rotate(key, first, cosine, sine, half);
      } else {
        std::memcpy(first, key, D * sizeof(T));
      }
      for (std::size_t i = 1; i < group; ++i) std::memcpy(first + i * step, first, D * sizeof(T));
      const T* value = in + (a.heads + a.kv_heads + shared) * D;
      for (std::size_t i = 0; i < group; ++i) std::memcpy(v + (shared * group + i) * step, value, D * sizeof(T));
    }
  }
}

// The transpose of rotate, of the sum of `count` heads that lie `step` apart.
template <class In, class T>
TRIBUTARY_INLINE void rotate_back(const In* x, std::size_t count, std::size_t step, std::size_t D, T* out,
                                  const float* cosine, const float* sine) {
  const std::size_t half = D / 2;
  if (!cosine) {
    for_lanes(D, [&](std::size_t at, std::size_t left, bool whole) TRIBUTARY_INLINE_LAMBDA {
      V sum = LOAD(x);
      for (std::size_t i = 1; i < count; ++i) sum += LOAD(x + i * step);
      STORE(out, sum);
    });
    return;
  }
  for_lanes(half, [&](std::size_t at, std::size_t left, bool whole) TRIBUTARY_INLINE_LAMBDA {
    V a = LOAD(x), b = LOAD(x + half);
    for (std::size_t i = 1; i < count; ++i) {
      a += LOAD(x + i * step);
      b += LOAD(x + i * step + half);
    }
    const V c = LOAD(cosine), s = LOAD(sine);
    STORE(out, a * c + b * s);
    STORE(out + half, b * c - a * s);
  });
}

template <class T>
void rope_backward(const typename RowKernels<T>::RopeBackward& a, std::size_t begin, std::size_t end) {
  const std::size_t D = a.head_size, half = D / 2, group = a.heads / a.kv_heads, step = a.sequence * D;
  for (std::size_t row = begin; row < end; ++row) {
    T* out = a.dqkv + row * (a.heads + 2 * a.kv_heads) * D;
    const std::size_t position = row % a.sequence;
    const float* cosine = a.cosine ? a.cosine + position * half : nullptr;
    const float* sine = a.sine ? a.sine + position * half : nullptr;
    const std::size_t base = row / a.sequence * a.heads * step + position * D;
    for (std::size_t head = 0; head < a.heads; ++head) {
      rotate_back(a.dq + base + head * step, 1, step, D, out + head * D, cosine, sine);
    }
    for (std::size_t shared = 0; shared < a.kv_heads; ++shared) {
      const std::size_t from = base + shared * group * step;
      rotate_back(a.dk + from, group, step, D, out + (a.heads + shared) * D, cosine, sine);
      rotate_back<float, T>(a.dv + from, group, step, D, out + (a.heads + a.kv_heads + shared) * D, nullptr, nullptr);
    }
  }
}

template <class T>
void attention(const typename RowKernels<T>::Attention& a, std::size_t begin, std::size_t end) {
  constexpr float kLow = -3.0e38f;
  for (std::size_t row = begin; row < end; ++row) {
    const std::size_t head = row / a.queries, position = a.first_query + row % a.queries, visible = position + 1;
    T* scores = a.scores + row * a.keys;
    V most = splat(kLow);
    for_lanes(visible, [&](std::size_t at, std::size_t left, bool whole) TRIBUTARY_INLINE_LAMBDA {
      most = larger(most, whole ? load(scores + at) : load_some(scores + at, left, kLow));
    });
    const float highest = max_lanes(most) * a.scale;
    V sums = {};
    for_lanes(visible, [&](std::size_t at, std::size_t left, bool whole) TRIBUTARY_INLINE_LAMBDA {
      const V e = exponential(LOAD(scores) * a.scale - highest);
      STORE(scores, e);
      if (whole) {
        sums += e;
      } else {
        float kept[kLanes] = {};
        std::memcpy(kept, &e, left * sizeof(float));
        sums += load(kept);
      }
    });
    std::memset(scores + visible, 0, (a.keys - visible) * sizeof(T));
    a.highest[head * a.sequence + position] = highest;
    a.inverse[head * a.sequence + position] = 1.0f / sum_lanes(sums);
  }
}

template <class T>
void attention_backward(const typename RowKernels<T>::AttentionBackward& a, std::size_t begin, std::size_t end) {
  for (std::size_t row = begin; row < end; ++row) {
    const std::size_t head = row / a.queries, position = a.first_query + row % a.queries, visible = position + 1;
    T *scores = a.scores + row * a.keys, *dscores = a.dprobabilities + row * a.keys;
    const std::size_t statistic = head * a.sequence + position;
    const float highest = a.highest[statistic], inverse = a.inverse[statistic], delta = a.delta[statistic];
    for_lanes(visible, [&](std::size_t at, std::size_t left, bool whole) TRIBUTARY_INLINE_LAMBDA {
      const V p = exponential(LOAD(scores) * a.scale - highest) * inverse;
      STORE(scores, p);
      STORE(dscores, p * (LOAD(dscores) - delta) * a.scale);
    });
    std::memset(scores + visible, 0, (a.keys - visible) * sizeof(T));
    std::memset(dscores + visible, 0, (a.keys - visible) * sizeof(T));
  }
}

template <class T>
void merge_heads(const typename RowKernels<T>::MergeHeads& a, std::size_t begin, std::size_t end) {
  const std::size_t D = a.head_size;
  for (std::size_t row = begin; row < end; ++row) {
    const std::size_t batch = row / a.queries, query = row % a.queries, position = a.first_query + query;
    T* out = a.out + (batch * a.sequence + position) * a.heads * D;
    for (std::size_t head = 0; head < a.heads; ++head) {
      const std::size_t group = batch * a.heads + head;
      const T* block = a.block + (group * a.queries + query) * D;
      const float inverse = a.inverse[group * a.sequence + position];
      T* line = out + head * D;
      for_lanes(D, [&](std::size_t at, std::size_t left, bool whole)
                       TRIBUTARY_INLINE_LAMBDA { STORE(line, LOAD(block) * inverse); });
    }
  }
}

template <class T>
void split_heads(const typename RowKernels<T>::SplitHeads& a, std::size_t begin, std::size_t end) {
  const std::size_t D = a.head_size;
  for (std::size_t row = begin; row < end; ++row) {
    const std::size_t batch = row / a.sequence, position = row % a.sequence;
    for (std::size_t head = 0; head < a.heads; ++head) {
      const T *line = a.rows + (row * a.heads + head) * D, *other = a.others + (row * a.heads + head) * D;
      const std::size_t to = (batch * a.heads + head) * a.sequence + position;
      V dots = {};
      for_lanes(D, [&](std::size_t at, std::size_t left, bool whole)
                       TRIBUTARY_INLINE_LAMBDA { dots += LOAD(line) * LOAD(other); });
      std::memcpy(a.out + to * D, line, D * sizeof(T));
      a.delta[to] = sum_lanes(dots);
    }
  }
}

template <class T>
void swiglu(const typename RowKernels<T>::SwiGlu& a, std::size_t begin, std::size_t end) {
  for (std::size_t row = begin; row < end; ++row) {
    const T *gate = a.gate_up + row * 2 * a.width, *up = gate + a.width;
    T* out = a.out + row * a.width;
    for_lanes(a.width, [&](std::size_t at, std::size_t left, bool whole) TRIBUTARY_INLINE_LAMBDA {
      const V g = LOAD(gate);
      STORE(out, g * sigmoid(g) * LOAD(up));
    });
  }
}

template <class T>
void swiglu_backward(const typename RowKernels<T>::SwiGluBackward& a, std::size_t begin, std::size_t end) {
  for (std::size_t row = begin; row < end; ++row) {
    const T *gate = a.gate_up + row * 2 * a.width, *up = gate + a.width, *dout = a.dout + row * a.width;
    T *dgate = a.dgate_up + row * 2 * a.width, *dup = dgate + a.width;
    for_lanes(a.width, [&](std::size_t at, std::size_t left, bool whole) TRIBUTARY_INLINE_LAMBDA {
      const V g = LOAD(gate), d = LOAD(dout), s = sigmoid(g);
      STORE(dgate, d * LOAD(up) * s * (1.0f + g * (1.0f - s)));
      STORE(dup, d * g * s);
    });
  }
}

constexpr float kGeluA = 0.7978845608028654f;  // sqrt(2 / pi)
constexpr float kGeluB = 0.044715f;

TRIBUTARY_INLINE V tangent(V x) { return 1.0f - 2.0f / (exponential(2.0f * x) + 1.0f); }

template <class T>
void gelu(const T* x, T* out, std::size_t begin, std::size_t end) {
  x += begin;
  out += begin;
  for_lanes(end - begin, [&](std::size_t at, std::size_t left, bool whole) TRIBUTARY_INLINE_LAMBDA {
    const V v = LOAD(x);
    STORE(out, 0.5f * v * (1.0f + tangent(kGeluA * (v + kGeluB * v * v * v))));
  });
}

template <class T>
void gelu_backward(const T* dout, const T* x, T* dx, std::size_t begin, std::size_t end) {
  dout += begin;
  x += begin;
  dx += begin;
  for_lanes(end - begin, [&](std::size_t at, std::size_t left, bool whole) TRIBUTARY_INLINE_LAMBDA {
    const V v = LOAD(x);
    const V t = tangent(kGeluA * (v + kGeluB * v * v * v));
    const V inner = kGeluA * (1.0f + 3.0f * kGeluB * v * v);
    STORE(dx, LOAD(dout) * (0.5f * (1.0f + t) + 0.5f * v * (1.0f - t * t) * inner));
  });
}

template <class T>
void add(const T* a, const T* b, T* out, std::size_t begin, std::size_t end) {
  a += begin;
  b += begin;
  out += begin;
  for_lanes(end - begin, [&](std::size_t at, std::size_t left, bool whole)
                             TRIBUTARY_INLINE_LAMBDA { STORE(out, LOAD(a) + LOAD(b)); });
}

template <class T>
void column_sums(const T* x, float* partial, std::size_t width, std::size_t rows, std::size_t begin, std::size_t end) {
  for (std::size_t block = begin; block < end; ++block) {
    float* sums = partial + block * width;
    std::memset(sums, 0, width * sizeof(float));
    const std::size_t last = (block + 1) * kRowBlock < rows ? (block + 1) * kRowBlock : rows;
    for (std::size_t row = block * kRowBlock; row < last; ++row) {
      const T* line = x + row * width;
      for_lanes(width, [&](std::size_t at, std::size_t left, bool whole)
                           TRIBUTARY_INLINE_LAMBDA { STORE(sums, LOAD(sums) + LOAD(line)); });
    }
  }
}

TRIBUTARY_INLINE float scalar(float x) { return x; }
TRIBUTARY_INLINE float scalar(Bf16 x) {
  const std::uint32_t bits = std::uint32_t{x.bits} << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

template <class T>
void cross_entropy(const typename RowKernels<T>::CrossEntropy& a, std::size_t begin, std::size_t end) {
  constexpr float kLow = -3.0e38f;
  for (std::size_t row = begin; row < end; ++row) {
    T* logits = a.logits + row * a.width;
    V most = splat(kLow);
    for_lanes(a.width, [&](std::size_t at, std::size_t left, bool whole) TRIBUTARY_INLINE_LAMBDA {
      most = larger(most, whole ? load(logits + at) : load_some(logits + at, left, kLow));
    });
    const float highest = max_lanes(most);
    V sums = {};
    for_lanes(a.width, [&](std::size_t at, std::size_t left, bool whole) TRIBUTARY_INLINE_LAMBDA {
      const V e = exponential((whole ? load(logits + at) : load_some(logits + at, left, highest)) - highest);
      if (whole) {
        sums += e;
      } else {
        float kept[kLanes] = {};
        std::memcpy(kept, &e, left * sizeof(float));
        sums += load(kept);
      }
    });
    const float total = sum_lanes(sums);
    const auto target = static_cast<std::size_t>(a.targets[row]);
    const float target_logit = scalar(logits[target]);
    a.loss[row] = __builtin_logf(total) + highest - target_logit;
    if (a.scale == 0) continue;
    const float factor = a.scale / total;
    for_lanes(a.width, [&](std::size_t at, std::size_t left, bool whole) TRIBUTARY_INLINE_LAMBDA {
      V gradient = exponential(LOAD(logits) - highest) * factor;
      if (target >= at && target < at + kLanes) {
        float lanes[kLanes] = {};
        lanes[target - at] = a.scale;
        gradient -= load(lanes);
      }
      STORE(logits, gradient);
    });
  }
}

template <class T>
void embed(const typename RowKernels<T>::Embed& a, std::size_t begin, std::size_t end) {
  for (std::size_t row = begin; row < end; ++row) {
    const float* line = a.table + static_cast<std::size_t>(a.tokens[row]) * a.width;
    const float* position = a.positions ? a.positions + (row % a.sequence) * a.width : nullptr;
    T* out = a.out + row * a.width;
    for_lanes(a.width, [&](std::size_t at, std::size_t left, bool whole) TRIBUTARY_INLINE_LAMBDA {
      V v = LOAD(line);
      if (position) v += LOAD(position);
      STORE(out, v);
    });
  }
}

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

template <class T>
constexpr RowKernels<T> row_kernels() {
  return {rms_norm<T>,      rms_norm_backward<T>,
          layer_norm<T>,    layer_norm_backward<T>,
          rope<T>,          rope_backward<T>,
          attention<T>,     attention_backward<T>,
          merge_heads<T>,   split_heads<T>,
          swiglu<T>,        swiglu_backward<T>,
          gelu<T>,          gelu_backward<T>,
          add<T>,           column_sums<T>,
          cross_entropy<T>, embed<T>,
          from_float<T>,    to_float<T>,
          accumulate<T>,    all_below<T>,
          fold_fixed<T>,    fold_float<T>};
}

#define TRIBUTARY_QUOTE_(x) #x
#define TRIBUTARY_QUOTE(x) TRIBUTARY_QUOTE_(x)
constexpr Kernels table = {TRIBUTARY_QUOTE(TRIBUTARY_KERNEL_LEVEL),
                           row_kernels<float>(),
                           row_kernels<Bf16>(),
                           adamw,
                           fixed_to_float,
                           add_fixed,
                           block_sum_squares};

}  // namespace
}  // namespace tributary::model::TRIBUTARY_KERNEL_LEVEL
