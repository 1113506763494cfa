// What the hand-written kernels do, in LibTorch's operations: for tensors that are not on the CPU, where the kernels
// cannot go. Slower, and equal to them up to rounding (tests/model/portable_test.cpp). Plain functions.
// Shapes: N = batch * sequence rows, H hidden, D head size.
#pragma once
#include <ATen/ATen.h>

#include "model/config.h"
#include "model/ops.h"
#include "model/stage.h"

namespace tributary::model::portable {

// Whether these are to be used for x: it is not on the CPU, or a test wants it so.
bool wanted(const at::Tensor& x);
// For tests; process-wide.
void force(bool on);

NormResult norm_forward(const at::Tensor& x, const at::Tensor& delta, const float* weight, const float* bias,
                        double epsilon);
at::Tensor norm_backward(const at::Tensor& dy, const NormSaved& saved, const at::Tensor& residual, const float* weight,
                         bool layer_norm, std::uint64_t offset, Gradients& gradients);

// As BlockStage's: qkv [N, (heads + 2 kv_heads) D] -> s.q, s.k, s.v, s.attention; cosine and sine [sequence, D / 2],
// undefined for gpt.
void attend(const at::Tensor& qkv, const Config& config, const BatchSize& size, const at::Tensor& cosine,
            const at::Tensor& sine, BlockSaved& s);
at::Tensor attend_backward(const at::Tensor& dattention, const Config& config, const BatchSize& size,
                           const at::Tensor& cosine, const at::Tensor& sine, const BlockSaved& s);
at::Tensor activate(const at::Tensor& wide, const Config& config);
at::Tensor activate_backward(const at::Tensor& dout, const at::Tensor& wide, const Config& config);

// logits [n, V] -> each token's loss in fp32; logits become the gradient of scale * their sum unless scale is 0.
at::Tensor cross_entropy(at::Tensor& logits, const at::Tensor& targets, double scale);

}  // namespace tributary::model::portable
