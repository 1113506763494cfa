#include <algorithm>

#include "base/check.h"
#include "model/ops.h"
#include "model/portable.h"

namespace tributary::model {
namespace {

// Chunks of logits take at most this much memory.
constexpr std::int64_t kLogitsBytes = 32 << 20;

struct Names {
  const char *embedding, *norm;
};
Names names(const Config& config) {
  return config.family == Family::kLlama ? Names{"model.embed_tokens.weight", "model.norm.weight"}
                                         : Names{"transformer.wte.weight", "transformer.ln_f.weight"};
}

}  // namespace

EndStage::EndStage(const StageOptions& options)
    : options_(options), layout_(stage_layout(options.config, options.cut, StageId(0))) {}

void EndStage::set_weights(const float* flat) {
  flat_ = flat;
  const auto& parameter = layout_.find(options_.config.tied ? names(options_.config).embedding : "lm_head.weight");
  const std::int64_t V = options_.config.vocabulary, H = options_.config.hidden;
  if (!options_.device.is_cpu()) {
    moved_ = at::from_blob(const_cast<float*>(flat), {static_cast<std::int64_t>(layout_.size)}, at::kFloat)
                 .to(options_.device);
    flat_ = static_cast<const float*>(moved_.data_ptr());
    head_ = moved_.narrow(0, static_cast<std::int64_t>(parameter.offset), V * H)
                .view({V, H})
                .to(scalar_type(options_.precision));
    return;
  }
  const float* weight = flat + parameter.offset;
  if (options_.precision == Precision::kFp32) {
    head_ = at::from_blob(const_cast<float*>(weight), {V, H}, at::kFloat);
    return;
  }
  if (!head_.defined()) head_ = at::empty({V, H}, at::kBFloat16);
  parallel_for(parameter.size, kElementGrain, [&](std::size_t begin, std::size_t end) {
    kernels().bf16.from_float(weight, data<Bf16>(head_), begin, end);
  });
}

at::Tensor EndStage::table(const char* name, std::int64_t rows) const {
  return at::from_blob(const_cast<float*>(flat_ + layout_.find(name).offset), {rows, options_.config.hidden},
                       at::TensorOptions(at::kFloat).device(options_.device));
}

at::Tensor EndStage::on_device(const std::int32_t* tokens, std::int64_t count) const {
  return at::from_blob(const_cast<std::int32_t*>(tokens), {count}, at::kInt).to(options_.device);
}

at::Tensor EndStage::embed(const std::int32_t* tokens) const {
  const auto& c = options_.config;
  if (portable::wanted(head_)) {
    const auto rows = options_.size.rows();
    auto out = table(names(c).embedding, c.vocabulary).index_select(0, on_device(tokens, rows));
    if (c.family == Family::kGpt)
      out = out + table("transformer.wpe.weight", c.context)
                      .narrow(0, 0, options_.size.sequence)
                      .repeat({options_.size.batch, 1});
    return out.to(scalar_type(options_.precision));
  }
  auto out = at::empty({options_.size.rows(), c.hidden}, scalar_type(options_.precision));
  const float* table = flat_ + layout_.find(names(c).embedding).offset;
  const float* positions = c.family == Family::kGpt ? flat_ + layout_.find("transformer.wpe.weight").offset : nullptr;
  by_type(out.scalar_type(), [&](auto* tag) {
    using T = Pointee<decltype(tag)>;
    const typename RowKernels<T>::Embed arguments{
        tokens, table, positions, data<T>(out), c.hidden, static_cast<std::size_t>(options_.size.sequence)};
    parallel_for(static_cast<std::size_t>(options_.size.rows()), kRowGrain,
                 [&](std::size_t begin, std::size_t end) { kernels().rows<T>().embed(arguments, begin, end); });
  });
  return out;
}

void EndStage::embed_backward(const std::int32_t* tokens, const at::Tensor& dx, Gradients& gradients) const {
  const auto& c = options_.config;
  if (portable::wanted(dx)) {
    const auto wide = dx.to(at::kFloat);
    auto sums = at::zeros({c.vocabulary, c.hidden}, wide.options());
    sums.index_add_(0, on_device(tokens, options_.size.rows()), wide);
    gradients.push_back({layout_.find(names(c).embedding).offset, sums});
    if (c.family == Family::kGpt)
      gradients.push_back({layout_.find("transformer.wpe.weight").offset,
                           wide.view({options_.size.batch, options_.size.sequence, c.hidden}).sum(0)});
    return;
  }
  const auto rows = static_cast<std::size_t>(options_.size.rows());
  const std::size_t H = c.hidden, sequence = static_cast<std::size_t>(options_.size.sequence);
  // Rows by token, each token's in their order: the order of the sums.
  std::vector<std::pair<std::int32_t, std::uint32_t>> order(rows);
  for (std::size_t row = 0; row < rows; ++row) order[row] = {tokens[row], static_cast<std::uint32_t>(row)};
  std::sort(order.begin(), order.end());
  std::vector<std::size_t> starts;
  GradientPiece piece;
  piece.offset = layout_.find(names(c).embedding).offset;
  for (std::size_t i = 0; i < rows; ++i) {
    if (i > 0 && order[i].first == order[i - 1].first) continue;
    starts.push_back(i);
    piece.rows.push_back(order[i].first);
  }
  starts.push_back(rows);
  piece.values = at::zeros({static_cast<std::int64_t>(piece.rows.size()), c.hidden}, at::kFloat);
  by_type(dx.scalar_type(), [&](auto* tag) {
    using T = Pointee<decltype(tag)>;
    const auto& k = kernels().rows<T>();
    parallel_for(piece.rows.size(), 1, [&](std::size_t begin, std::size_t end) {
      for (std::size_t token = begin; token < end; ++token) {
        for (std::size_t i = starts[token]; i < starts[token + 1]; ++i) {
          k.accumulate(data<T>(dx) + order[i].second * H, data<float>(piece.values) + token * H, 0, H);
        }
      }
    });
    gradients.push_back(std::move(piece));
    if (c.family != Family::kGpt) return;
    auto positions = at::zeros({options_.size.sequence, c.hidden}, at::kFloat);
    parallel_for(sequence, 1, [&](std::size_t begin, std::size_t end) {
      for (std::size_t row = 0; row < rows; ++row) {
        const std::size_t position = row % sequence;
        if (position < begin || position >= end) continue;
        k.accumulate(data<T>(dx) + row * H, data<float>(positions) + position * H, 0, H);
      }
    });
    gradients.push_back({layout_.find("transformer.wpe.weight").offset, positions});
  });
}

EndStage::Normed EndStage::norm(const at::Tensor& x) const {
  const float* weight = flat_ + layout_.find(names(options_.config).norm).offset;
  const float* bias = options_.config.family == Family::kGpt ? weight + options_.config.hidden : nullptr;
  auto result = norm_forward(x, {}, weight, bias, options_.config.norm_epsilon);
  return {result.out, result.rstd, result.mean};
}

EndStage::HeadResult EndStage::run(const at::Tensor& x, const std::int32_t* targets, double scale,
                                   Gradients* gradients) const {
  TRIBUTARY_CHECK(flat_ != nullptr, "weights before a forward pass");
  const auto& c = options_.config;
  const std::int64_t N = x.size(0), V = c.vocabulary;
  const auto normed = norm(x);
  const std::int64_t chunk =
      std::clamp<std::int64_t>(kLogitsBytes / (V * x.element_size()), std::min<std::int64_t>(N, 16), N);
  std::vector<float> losses(static_cast<std::size_t>(N));
  auto dnormed = gradients ? at::empty_like(x) : at::Tensor();
  at::Tensor dhead;
  for (std::int64_t begin = 0; begin < N; begin += chunk) {
    const std::int64_t count = std::min(chunk, N - begin);
    const auto rows = normed.out.narrow(0, begin, count);
    auto logits = at::mm(rows, head_.t());
    if (portable::wanted(x)) {
      const auto part = portable::cross_entropy(logits, on_device(targets + begin, count), gradients ? scale : 0);
      const auto host = part.to(at::kCPU).contiguous();
      std::copy_n(data<float>(host), count, losses.begin() + begin);
    } else
      by_type(x.scalar_type(), [&](auto* tag) {
        using T = Pointee<decltype(tag)>;
        const typename RowKernels<T>::CrossEntropy arguments{data<T>(logits), targets + begin, losses.data() + begin,
                                                             static_cast<std::size_t>(V),
                                                             gradients ? static_cast<float>(scale) : 0.0f};
        parallel_for(static_cast<std::size_t>(count), kRowGrain, [&](std::size_t first, std::size_t last) {
          kernels().rows<T>().cross_entropy(arguments, first, last);
        });
      });
    if (!gradients) continue;
    auto drows = dnormed.narrow(0, begin, count);
    at::mm_out(drows, logits, head_);
    const auto part = at::mm(logits.t(), rows);
    if (count == N) {
      dhead = part;
    } else {
      // Chunks are summed in fp32, in order.
      if (!dhead.defined()) dhead = at::zeros({V, c.hidden}, x.options().dtype(at::kFloat));
      if (portable::wanted(x)) {
        dhead.add_(part);
        continue;
      }
      by_type(part.scalar_type(), [&](auto* tag) {
        using T = Pointee<decltype(tag)>;
        parallel_for(static_cast<std::size_t>(part.numel()), kElementGrain, [&](std::size_t first, std::size_t last) {
          kernels().rows<T>().accumulate(data<T>(part), data<float>(dhead), first, last);
        });
      });
    }
  }
  HeadResult result;
  for (const float loss : losses) result.loss += static_cast<double>(loss);
  result.loss /= static_cast<double>(N);
  if (!gradients) return result;
  const auto& head = layout_.find(c.tied ? names(c).embedding : "lm_head.weight");
  gradients->push_back({head.offset, dhead});
  const auto& weight = layout_.find(names(c).norm);
  result.dx = norm_backward(dnormed, {x, normed.rstd, normed.mean}, {}, flat_ + weight.offset, c.family == Family::kGpt,
                            weight.offset, *gradients);
  return result;
}

EndStage::HeadResult EndStage::head(const at::Tensor& x, const std::int32_t* targets, double gradient_scale,
                                    Gradients& gradients) const {
  return run(x, targets, gradient_scale, &gradients);
}

double EndStage::loss(const at::Tensor& x, const std::int32_t* targets) const {
  return run(x, targets, 0, nullptr).loss;
}

at::Tensor EndStage::logits(const at::Tensor& x) const { return at::mm(norm(x).out, head_.t()); }

}  // namespace tributary::model
