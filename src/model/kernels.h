// The element-wise work between matrix products, on raw rows, without LibTorch: fused, vectorised, and bit-equal on
// every kernel level and thread count, because each sum has a fixed order (16 lanes, then a fixed tree; rows in fixed
// blocks). Pure functions of their arguments; thread-safe. Two element types: float, and Bf16 computed in float and
// rounded to nearest even once per stored element.
#pragma once
#include <cstddef>
#include <cstdint>

namespace tributary::model {

struct Bf16 {
  std::uint16_t bits;
};

// Column sums over rows (gradients of norms and biases) are made per block of this many rows, then over blocks in
// order.
inline constexpr std::size_t kRowBlock = 64;

// Row-wise functions do rows [begin, end); names of sizes: H hidden, I intermediate, V vocabulary, D head size.
template <class T>
struct RowKernels {
  // sum = x + delta (delta may be null: then sum is x and `sum` is not written); out = sum * rstd * weight.
  struct RmsNorm {
    const T *x, *delta;
    const float* weight;
    T *sum, *out;
    float* rstd;  // one a row
    std::size_t width;
    float epsilon;
  };
  void (*rms_norm)(const RmsNorm&, std::size_t begin, std::size_t end);
  // dx = residual (may be null) + the gradient through the norm; partial: [row blocks, H], the blocks' sums of
  // dy * x * rstd. Here [begin, end) are row blocks of kRowBlock out of `rows` rows.
  struct RmsNormBackward {
    const T *dy, *x, *residual;
    const float *rstd, *weight;
    T* dx;
    float* partial;
    std::size_t width, rows;
  };
  void (*rms_norm_backward)(const RmsNormBackward&, std::size_t begin, std::size_t end);

  struct LayerNorm {
    const T *x, *delta;
    const float *weight, *bias;
    T *sum, *out;
    float *mean, *rstd;
    std::size_t width;
    float epsilon;
  };
  void (*layer_norm)(const LayerNorm&, std::size_t begin, std::size_t end);
  struct LayerNormBackward {
    const T *dy, *x, *residual;
    const float *mean, *rstd, *weight;
    T* dx;
    float *partial_weight, *partial_bias;
    std::size_t width, rows;
  };
  void (*layer_norm_backward)(const LayerNormBackward&, std::size_t begin, std::size_t end);

  // qkv [rows, (heads + 2 kv_heads) D] -> q, k, v [batch, heads, sequence, D], keys and values repeated per group, q
  // and k rotated by their position (row % sequence). cosine, sine: [sequence, D / 2]; null for no rotation.
  struct Rope {
    const T* qkv;
    T *q, *k, *v;
    const float *cosine, *sine;
    std::size_t heads, kv_heads, head_size, sequence;
  };
  void (*rope)(const Rope&, std::size_t begin, std::size_t end);
  // The transpose: gradients of q, k, v [batch, heads, sequence, D] (k's and v's in fp32) -> gradient of qkv.
  struct RopeBackward {
    const T* dq;
    const float *dk, *dv;
    T* dqkv;
    const float *cosine, *sine;
    std::size_t heads, kv_heads, head_size, sequence;
  };
  void (*rope_backward)(const RopeBackward&, std::size_t begin, std::size_t end);

  // A block of attention scores: [batch * heads, queries, keys], the queries being positions first_query and following,
  // the keys positions 0 to keys - 1. Rows are (batch * heads, query); highest and inverse are [batch * heads,
  // sequence].
  struct Attention {
    T* scores;
    float *highest, *inverse;
    std::size_t queries, keys, first_query, sequence;
    float scale;
  };
  // scores become exp(scale * score - highest of the row), 0 for keys after the query; inverse = 1 / the row's sum.
  void (*attention)(const Attention&, std::size_t begin, std::size_t end);
  // scores become probabilities, dprobabilities (in the same shape) the gradient of the scores.
  // delta [batch * heads, sequence]: dot products of the output's gradient with the output.
  struct AttentionBackward {
    T *scores, *dprobabilities;
    const float *highest, *inverse, *delta;
    std::size_t queries, keys, first_query, sequence;
    float scale;
  };
  void (*attention_backward)(const AttentionBackward&, std::size_t begin, std::size_t end);
  // A block of outputs [batch * heads, queries, D] -> rows [batch * sequence, heads * D] of the whole, times inverse.
  // [begin, end) are (batch, query).
  struct MergeHeads {
    const T* block;
    const float* inverse;
    T* out;
    std::size_t heads, head_size, queries, first_query, sequence;
  };
  void (*merge_heads)(const MergeHeads&, std::size_t begin, std::size_t end);
  // rows [batch * sequence, heads * D] -> [batch, heads, sequence, D]; and delta = dot(rows, others) by head.
  struct SplitHeads {
    const T *rows, *others;
    T* out;
    float* delta;
    std::size_t heads, head_size, sequence;
  };
  void (*split_heads)(const SplitHeads&, std::size_t begin, std::size_t end);

  // gate_up [rows, 2 I] -> out [rows, I] = silu(gate) * up.
  struct SwiGlu {
    const T* gate_up;
    T* out;
    std::size_t width;
  };
  void (*swiglu)(const SwiGlu&, std::size_t begin, std::size_t end);
  struct SwiGluBackward {
    const T *dout, *gate_up;
    T* dgate_up;
    std::size_t width;
  };
  void (*swiglu_backward)(const SwiGluBackward&, std::size_t begin, std::size_t end);

  // GELU in its tanh form, over elements [begin, end).
  void (*gelu)(const T* x, T* out, std::size_t begin, std::size_t end);
  void (*gelu_backward)(const T* dout, const T* x, T* dx, std::size_t begin, std::size_t end);
  void (*add)(const T* a, const T* b, T* out, std::size_t begin, std::size_t end);

  // partial [row blocks, width]: sums of x over the rows of each block; [begin, end) are row blocks.
  void (*column_sums)(const T* x, float* partial, std::size_t width, std::size_t rows, std::size_t begin,
                      std::size_t end);

  // logits [rows, V] become scale * (softmax - one-hot(target)), unless `scale` is 0; loss: one a row, in nats.
  struct CrossEntropy {
    T* logits;
    const std::int32_t* targets;
    float* loss;
    std::size_t width;
    float scale;
  };
  void (*cross_entropy)(const CrossEntropy&, std::size_t begin, std::size_t end);

  // out[row] = table[token[row]] (+ positions[row % sequence], unless null).
  struct Embed {
    const std::int32_t* tokens;
    const float *table, *positions;
    T* out;
    std::size_t width, sequence;
  };
  void (*embed)(const Embed&, std::size_t begin, std::size_t end);

  void (*from_float)(const float* x, T* out, std::size_t begin, std::size_t end);
  void (*to_float)(const T* x, float* out, std::size_t begin, std::size_t end);
  // out[i] += x[i].
  void (*accumulate)(const T* x, float* out, std::size_t begin, std::size_t end);
  // Every |x[i]| is below `limit`; infinity as the limit asks whether all are finite.
  bool (*all_below)(const T* x, float limit, std::size_t begin, std::size_t end);
  // sum[i] += (or -=) x[i] in units of 2^-44, rounded to nearest even, wrapping. False, and the sum is worthless, if
  // some |x[i]| is `limit` or more, or not a number.
  bool (*fold_fixed)(const T* x, std::int64_t* sum, float limit, bool subtract, std::size_t begin, std::size_t end);
  // sum[i] += (or -=) x[i] in fp32. False if some x[i] is not finite.
  bool (*fold_float)(const T* x, float* sum, bool subtract, std::size_t begin, std::size_t end);
};

struct AdamStep {
  float learning_rate, beta1, beta2, epsilon, decay, gradient_scale;
  float correction1, correction2;  // 1 - beta^step
};

struct Kernels {
  const char* level;
  RowKernels<float> f32;
  RowKernels<Bf16> bf16;
  // AdamW (Loshchilov and Hutter 2019, algorithm 2) in a fixed order of operations; decay is 0 where the group has
  // none.
  void (*adamw)(float* weights, float* first, float* second, const float* gradient, const AdamStep& step,
                std::size_t begin, std::size_t end);
  void (*fixed_to_float)(const std::int64_t* sum, float* out, std::size_t begin, std::size_t end);
  void (*add_fixed)(const std::int64_t* x, std::int64_t* sum, std::size_t begin, std::size_t end);
  // The sum of squares of at most 4096 elements.
  double (*block_sum_squares)(const float* x, std::size_t count);

  template <class T>
  const RowKernels<T>& rows() const {
    if constexpr (sizeof(T) == 4) {
      return f32;
    } else {
      return bf16;
    }
  }
};

// The best level that this processor has; TRIBUTARY_KERNELS=baseline|avx2|avx512 asks for another. Chosen once.
const Kernels& kernels();
// All levels that this processor has, for tests.
const Kernels* const* available_kernels(std::size_t& count);

const Kernels& kernels_baseline();
const Kernels& kernels_avx2();
const Kernels& kernels_avx512();

}  // namespace tributary::model
