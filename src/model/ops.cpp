#include "model/ops.h"

#include "model/portable.h"

#include <algorithm>

namespace tributary::model {

at::ScalarType scalar_type(Precision precision) { return precision == Precision::kFp32 ? at::kFloat : at::kBFloat16; }

namespace {

std::size_t row_blocks(std::size_t rows) { return (rows + kRowBlock - 1) / kRowBlock; }

// [row blocks, width] -> [width], blocks in order.
at::Tensor sum_blocks(const at::Tensor& partial) {
  const auto blocks = static_cast<std::size_t>(partial.size(0)), width = static_cast<std::size_t>(partial.size(1));
  auto total = at::zeros({partial.size(1)}, at::kFloat);
  for (std::size_t block = 0; block < blocks; ++block) {
    kernels().f32.accumulate(data<float>(partial) + block * width, data<float>(total), 0, width);
  }
  return total;
}

}  // namespace

NormResult norm_forward(const at::Tensor& x, const at::Tensor& delta, const float* weight, const float* bias,
                        double epsilon) {
  if (portable::wanted(x)) return portable::norm_forward(x, delta, weight, bias, epsilon);
  const auto rows = static_cast<std::size_t>(x.size(0)), width = static_cast<std::size_t>(x.size(1));
  NormResult result{delta.defined() ? at::empty_like(x) : x, at::empty_like(x), at::empty({x.size(0)}, at::kFloat), {}};
  if (bias) result.mean = at::empty({x.size(0)}, at::kFloat);
  by_type(x.scalar_type(), [&](auto* tag) {
    using T = Pointee<decltype(tag)>;
    const auto& k = kernels().rows<T>();
    const T* shift = delta.defined() ? data<T>(delta) : nullptr;
    parallel_for(rows, kRowGrain, [&](std::size_t begin, std::size_t end) {
      if (bias) {
        k.layer_norm({data<T>(x), shift, weight, bias, data<T>(result.sum), data<T>(result.out),
                      data<float>(result.mean), data<float>(result.rstd), width, static_cast<float>(epsilon)},
                     begin, end);
      } else {
        k.rms_norm({data<T>(x), shift, weight, data<T>(result.sum), data<T>(result.out), data<float>(result.rstd),
                    width, static_cast<float>(epsilon)},
                   begin, end);
      }
    });
  });
  return result;
}

at::Tensor norm_backward(const at::Tensor& dy, const NormSaved& saved, const at::Tensor& residual, const float* weight,
                         bool layer_norm, std::uint64_t offset, Gradients& gradients) {
  if (portable::wanted(dy)) return portable::norm_backward(dy, saved, residual, weight, layer_norm, offset, gradients);
  const auto rows = static_cast<std::size_t>(dy.size(0)), width = static_cast<std::size_t>(dy.size(1));
  const auto blocks = static_cast<std::int64_t>(row_blocks(rows));
  auto dx = at::empty_like(saved.x);
  auto partial = at::empty({blocks, dy.size(1)}, at::kFloat);
  auto partial_bias = layer_norm ? at::empty({blocks, dy.size(1)}, at::kFloat) : at::Tensor();
  by_type(dy.scalar_type(), [&](auto* tag) {
    using T = Pointee<decltype(tag)>;
    const auto& k = kernels().rows<T>();
    const T* skip = residual.defined() ? data<T>(residual) : nullptr;
    parallel_for(row_blocks(rows), 1, [&](std::size_t begin, std::size_t end) {
      if (layer_norm) {
        k.layer_norm_backward({data<T>(dy), data<T>(saved.x), skip, data<float>(saved.mean), data<float>(saved.rstd),
                               weight, data<T>(dx), data<float>(partial), data<float>(partial_bias), width, rows},
                              begin, end);
      } else {
        k.rms_norm_backward({data<T>(dy), data<T>(saved.x), skip, data<float>(saved.rstd), weight, data<T>(dx),
                             data<float>(partial), width, rows},
                            begin, end);
      }
    });
  });
  gradients.push_back({offset, sum_blocks(partial)});
  if (layer_norm) gradients.push_back({offset + width, sum_blocks(partial_bias)});
  return dx;
}

at::Tensor column_sums(const at::Tensor& x) {
  if (portable::wanted(x)) return x.to(at::kFloat).sum(0);
  const auto rows = static_cast<std::size_t>(x.size(0)), width = static_cast<std::size_t>(x.size(1));
  auto partial = at::empty({static_cast<std::int64_t>(row_blocks(rows)), x.size(1)}, at::kFloat);
  by_type(x.scalar_type(), [&](auto* tag) {
    using T = Pointee<decltype(tag)>;
    parallel_for(row_blocks(rows), 1, [&](std::size_t begin, std::size_t end) {
      kernels().rows<T>().column_sums(data<T>(x), data<float>(partial), width, rows, begin, end);
    });
  });
  return sum_blocks(partial);
}

at::Tensor Linear::forward(const at::Tensor& x) const {
  const auto matrix = outputs_first ? weight.t() : weight;
  return bias.defined() ? at::addmm(bias, x, matrix) : at::mm(x, matrix);
}

at::Tensor Linear::backward(const at::Tensor& dy, const at::Tensor& x, Gradients& gradients) const {
  gradients.push_back({weight_offset, outputs_first ? at::mm(dy.t(), x) : at::mm(x.t(), dy)});
  if (bias.defined()) gradients.push_back({bias_offset, column_sums(dy)});
  return at::mm(dy, outputs_first ? weight : weight.t());
}

}  // namespace tributary::model
