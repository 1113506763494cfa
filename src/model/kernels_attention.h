// Rotary positions, and attention between its matrix products. Included by kernels_body.h only.
#pragma once
#include "model/kernels_lanes.h"

namespace tributary::model::TRIBUTARY_KERNEL_LEVEL {
namespace {

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

}  // namespace
}  // namespace tributary::model::TRIBUTARY_KERNEL_LEVEL
