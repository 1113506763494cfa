// Kernels on tensors, norms, linear maps: what the stages and the generator are made of.
#pragma once
#include <ATen/ATen.h>

#include "model/kernels.h"
#include "model/parallel.h"
#include "model/stage.h"

namespace tributary::model {

template <class T>
T* data(const at::Tensor& tensor) {
  return static_cast<T*>(tensor.data_ptr());
}

// Calls f with a null pointer of the element type.
template <class F>
auto by_type(at::ScalarType type, F&& f) {
  if (type == at::kFloat) return f(static_cast<float*>(nullptr));
  return f(static_cast<Bf16*>(nullptr));
}
template <class P>
using Pointee = std::remove_pointer_t<P>;

inline constexpr std::size_t kRowGrain = 16;
inline constexpr std::size_t kElementGrain = 16384;

struct NormResult {
  at::Tensor sum, out, rstd, mean;  // `sum` is x + delta, or x itself; `mean` for layer norms only
};
// RMSNorm if `bias` is null, else LayerNorm. delta may be undefined.
NormResult norm_forward(const at::Tensor& x, const at::Tensor& delta, const float* weight, const float* bias,
                        double epsilon);

struct NormSaved {
  const at::Tensor &x, &rstd, &mean;
};
// Appends the weight's gradient, and the bias's behind it if `layer_norm`, at `offset`. residual may be undefined.
at::Tensor norm_backward(const at::Tensor& dy, const NormSaved& saved, const at::Tensor& residual, const float* weight,
                         bool layer_norm, std::uint64_t offset, Gradients& gradients);

// Sums over rows, in fp32 and a fixed order: [columns].
at::Tensor column_sums(const at::Tensor& x);

// A matrix product with optional bias. Llama's matrices are [outputs, inputs], GPT-2's [inputs, outputs].
struct Linear {
  at::Tensor weight, bias;  // in the compute type
  bool outputs_first = true;
  std::uint64_t weight_offset = 0, bias_offset = 0;
  at::Tensor forward(const at::Tensor& x) const;
  at::Tensor backward(const at::Tensor& dy, const at::Tensor& x, Gradients& gradients) const;
};

}  // namespace tributary::model
