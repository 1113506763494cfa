// Norms, activations, loss and embedding. Included by kernels_body.h only.
#pragma once
#include "model/kernels_lanes.h"

namespace tributary::model::TRIBUTARY_KERNEL_LEVEL {
namespace {

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

}  // namespace
}  // namespace tributary::model::TRIBUTARY_KERNEL_LEVEL
