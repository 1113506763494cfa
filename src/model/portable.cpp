#include "model/portable.h"

#include <atomic>
#include <cmath>

namespace tributary::model::portable {
namespace {

std::atomic<bool> forced = false;

at::Tensor row_of(const float* values, std::int64_t width, const at::Tensor& like) {
  return at::from_blob(const_cast<float*>(values), {width}, at::TensorOptions(at::kFloat).device(like.device()));
}

// [batch * sequence, heads * D] -> [batch, heads, sequence, D]
at::Tensor split(const at::Tensor& x, const BatchSize& size, std::int64_t heads) {
  return x.reshape({size.batch, size.sequence, heads, -1}).transpose(1, 2);
}
at::Tensor merge(const at::Tensor& x) {
  const auto heads = x.transpose(1, 2);
  return heads.reshape({heads.size(0) * heads.size(1), heads.size(2) * heads.size(3)});
}

// Rotates the two halves of each head; `sign` -1 turns back.
at::Tensor rotate(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine, double sign) {
  if (!cosine.defined()) return x;
  const auto wide = x.to(at::kFloat);
  const auto halves = wide.chunk(2, -1);
  const auto s = sine * sign;
  return at::cat({halves[0] * cosine - halves[1] * s, halves[1] * cosine + halves[0] * s}, -1).to(x.scalar_type());
}

// Sums the query heads that share a key: [batch, heads, ...] -> [batch, kv_heads, ...].
at::Tensor sum_shared(const at::Tensor& x, std::int64_t kv_heads) {
  if (x.size(1) == kv_heads) return x;
  return x.reshape({x.size(0), kv_heads, x.size(1) / kv_heads, x.size(2), x.size(3)}).sum(2);
}

at::Tensor probabilities(const at::Tensor& q, const at::Tensor& k, double scale) {
  const auto length = q.size(1);
  const auto later = at::ones({length, length}, q.options().dtype(at::kBool)).triu(1);
  const auto scores = at::bmm(q, k.transpose(1, 2)).to(at::kFloat) * scale;
  return at::softmax(scores.masked_fill(later, -INFINITY), -1);
}

double scale_of(const Config& config) { return 1 / std::sqrt(static_cast<double>(config.head_size())); }

}  // namespace

bool wanted(const at::Tensor& x) { return !x.is_cpu() || forced; }
void force(bool on) { forced = on; }

NormResult norm_forward(const at::Tensor& x, const at::Tensor& delta, const float* weight, const float* bias,
                        double epsilon) {
  NormResult result;
  result.sum = delta.defined() ? x + delta : x;
  auto wide = result.sum.to(at::kFloat);
  if (bias) {
    result.mean = wide.mean(-1);
    wide = wide - result.mean.unsqueeze(-1);
  }
  result.rstd = at::rsqrt((wide * wide).mean(-1) + epsilon);
  auto out = wide * result.rstd.unsqueeze(-1) * row_of(weight, x.size(1), x);
  if (bias) out = out + row_of(bias, x.size(1), x);
  result.out = out.to(x.scalar_type());
  return result;
}

at::Tensor norm_backward(const at::Tensor& dy, const NormSaved& saved, const at::Tensor& residual, const float* weight,
                         bool layer_norm, std::uint64_t offset, Gradients& gradients) {
  const auto width = dy.size(1);
  const auto wide = dy.to(at::kFloat);
  auto normed = saved.x.to(at::kFloat);
  if (layer_norm) normed = normed - saved.mean.unsqueeze(-1);
  normed = normed * saved.rstd.unsqueeze(-1);
  const auto scaled = wide * row_of(weight, width, dy);
  auto dx = scaled - normed * (scaled * normed).mean(-1, true);
  if (layer_norm) dx = dx - scaled.mean(-1, true);
  dx = dx * saved.rstd.unsqueeze(-1);
  if (residual.defined()) dx = dx + residual.to(at::kFloat);
  gradients.push_back({offset, (wide * normed).sum(0)});
  if (layer_norm) gradients.push_back({offset + static_cast<std::uint64_t>(width), wide.sum(0)});
  return dx.to(dy.scalar_type());
}

void attend(const at::Tensor& qkv, const Config& config, const BatchSize& size, const at::Tensor& cosine,
            const at::Tensor& sine, BlockSaved& s) {
  const std::int64_t D = config.head_size(), heads = config.heads, kv = config.kv_heads;
  const auto parts = qkv.split_with_sizes({heads * D, kv * D, kv * D}, 1);
  const auto flat = [&](const at::Tensor& x) { return x.reshape({size.batch * heads, size.sequence, D}); };
  const auto shared = [&](const at::Tensor& x) { return flat(x.repeat_interleave(heads / kv, 1)); };
  s.q = flat(rotate(split(parts[0], size, heads), cosine, sine, 1));
  s.k = shared(rotate(split(parts[1], size, kv), cosine, sine, 1));
  s.v = shared(split(parts[2], size, kv));
  const auto p = probabilities(s.q, s.k, scale_of(config)).to(qkv.scalar_type());
  s.attention = merge(at::bmm(p, s.v).view({size.batch, heads, size.sequence, D}));
}

at::Tensor attend_backward(const at::Tensor& dattention, const Config& config, const BatchSize& size,
                           const at::Tensor& cosine, const at::Tensor& sine, const BlockSaved& s) {
  const std::int64_t D = config.head_size(), heads = config.heads, kv = config.kv_heads;
  const auto type = dattention.scalar_type();
  const auto dout = split(dattention, size, heads).reshape({size.batch * heads, size.sequence, D});
  const auto p = probabilities(s.q, s.k, scale_of(config));
  const auto dp = at::bmm(dout, s.v.transpose(1, 2)).to(at::kFloat);
  const auto ds = (p * (dp - (dp * p).sum(-1, true)) * scale_of(config)).to(type);
  const auto headed = [&](const at::Tensor& x) { return x.to(at::kFloat).view({size.batch, heads, size.sequence, D}); };
  const auto dq = rotate(headed(at::bmm(ds, s.k)), cosine, sine, -1);
  const auto dk = rotate(sum_shared(headed(at::bmm(ds.transpose(1, 2), s.q)), kv), cosine, sine, -1);
  const auto dv = sum_shared(headed(at::bmm(p.to(type).transpose(1, 2), dout)), kv);
  return at::cat({merge(dq), merge(dk), merge(dv)}, 1).to(type);
}

at::Tensor activate(const at::Tensor& wide, const Config& config) {
  if (config.family == Family::kGpt) return at::gelu(wide, "tanh");
  const auto halves = wide.to(at::kFloat).chunk(2, 1);
  return (at::silu(halves[0]) * halves[1]).to(wide.scalar_type());
}

at::Tensor activate_backward(const at::Tensor& dout, const at::Tensor& wide, const Config& config) {
  if (config.family == Family::kGpt) return at::gelu_backward(dout, wide, "tanh");
  const auto halves = wide.to(at::kFloat).chunk(2, 1);
  const auto d = dout.to(at::kFloat), gate = at::sigmoid(halves[0]);
  const auto dgate = d * halves[1] * gate * (1 + halves[0] * (1 - gate));
  return at::cat({dgate, d * halves[0] * gate}, 1).to(wide.scalar_type());
}

at::Tensor cross_entropy(at::Tensor& logits, const at::Tensor& targets, double scale) {
  const auto logs = at::log_softmax(logits.to(at::kFloat), -1);
  const auto index = targets.to(at::kLong).unsqueeze(-1);
  const auto losses = -logs.gather(-1, index).squeeze(-1);
  if (scale == 0) return losses;
  auto gradient = logs.exp();
  gradient.scatter_add_(-1, index, at::full_like(index, -1, gradient.options()));
  logits = (gradient * scale).to(logits.scalar_type());
  return losses;
}

}  // namespace tributary::model::portable
