// The kernels, compiled once a level. Only plain memory and arithmetic in them: a function of the standard library that
// they instantiated could be linked into code that runs on lesser processors.
#pragma once
#include "model/kernels_attention.h"
#include "model/kernels_norms.h"
#include "model/kernels_sums.h"

namespace tributary::model::TRIBUTARY_KERNEL_LEVEL {
namespace {

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
