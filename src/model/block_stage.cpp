#include <cmath>
#include <tuple>

#include "base/check.h"
#include "model/ops.h"

namespace tributary::model {

struct BlockStage::Block {
  Linear qkv, attention_out, wide, down;
  std::uint64_t norm1 = 0, norm2 = 0;  // offsets of the weights; a bias lies right behind
};

namespace {

// Views of the stage's weights in the compute type. Llama's q, k, v lie side by side, and so do gate and up.
Linear linear(const at::Tensor& flat, const Parameter& weight, std::uint64_t rows, bool outputs_first,
              const Parameter* bias) {
  Linear result;
  const auto columns = static_cast<std::int64_t>(weight.shape[1]);
  const auto height = static_cast<std::int64_t>(rows);
  result.weight = flat.narrow(0, static_cast<std::int64_t>(weight.offset), height * columns).view({height, columns});
  result.weight_offset = weight.offset;
  result.outputs_first = outputs_first;
  if (bias) {
    result.bias = flat.narrow(0, static_cast<std::int64_t>(bias->offset), static_cast<std::int64_t>(bias->size));
    result.bias_offset = bias->offset;
  }
  return result;
}

// [N, heads * D] rows as attention wants them: [batch, heads, sequence, D].
at::Tensor heads_view(const at::Tensor& rows, const BatchSize& size, std::int64_t heads) {
  return rows.view({size.batch, size.sequence, heads, -1}).transpose(1, 2);
}
at::Tensor rows_of(const at::Tensor& heads, const BatchSize& size) {
  return heads.transpose(1, 2).contiguous().view({size.rows(), -1});
}

class Pass {
 public:
  Pass(const StageOptions& options, const float* flat, const at::Tensor& cosine, const at::Tensor& sine)
      : config_(options.config), size_(options.size), flat_(flat), cosine_(cosine), sine_(sine) {}

  bool gpt() const { return config_.family == Family::kGpt; }
  const float* norm_weight(std::uint64_t offset) const { return flat_ + offset; }
  const float* norm_bias(std::uint64_t offset) const { return gpt() ? flat_ + offset + config_.hidden : nullptr; }

  // qkv [N, ...] -> s.q, s.k, s.v, s.attention [N, H], s.logsumexp.
  void attend(const at::Tensor& qkv, BlockSaved& s) const {
    const std::int64_t N = size_.rows(), H = config_.hidden;
    s.q = at::empty({N, H}, qkv.options());
    s.k = at::empty({N, H}, qkv.options());
    s.v = at::empty({N, H}, qkv.options());
    by_type(qkv.scalar_type(), [&](auto* tag) {
      using T = Pointee<decltype(tag)>;
      const typename RowKernels<T>::Rope arguments{
          data<T>(qkv), data<T>(s.q),  data<T>(s.k),     data<T>(s.v),        cosine(),
          sine(),       config_.heads, config_.kv_heads, config_.head_size(), static_cast<std::size_t>(size_.sequence)};
      parallel_for(static_cast<std::size_t>(N), kRowGrain,
                   [&](std::size_t begin, std::size_t end) { kernels().rows<T>().rope(arguments, begin, end); });
    });
    const std::int64_t heads = config_.heads;
    auto [out, logsumexp] = at::_scaled_dot_product_flash_attention_for_cpu(
        heads_view(s.q, size_, heads), heads_view(s.k, size_, heads), heads_view(s.v, size_, heads), 0.0, true);
    s.attention = rows_of(out, size_);
    s.logsumexp = logsumexp;
  }

  // The gradient of qkv.
  at::Tensor attend_backward(const at::Tensor& dattention, const BlockSaved& s) const {
    const std::int64_t N = size_.rows(), heads = config_.heads;
    auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        heads_view(dattention, size_, heads), heads_view(s.q, size_, heads), heads_view(s.k, size_, heads),
        heads_view(s.v, size_, heads), heads_view(s.attention, size_, heads), s.logsumexp, 0.0, true);
    const auto q = rows_of(dq, size_), k = rows_of(dk, size_), v = rows_of(dv, size_);
    auto dqkv = at::empty({N, (config_.heads + 2ll * config_.kv_heads) * config_.head_size()}, dattention.options());
    by_type(dqkv.scalar_type(), [&](auto* tag) {
      using T = Pointee<decltype(tag)>;
      const typename RowKernels<T>::RopeBackward arguments{
          data<T>(q), data<T>(k),    data<T>(v),       data<T>(dqkv),       cosine(),
          sine(),     config_.heads, config_.kv_heads, config_.head_size(), static_cast<std::size_t>(size_.sequence)};
      parallel_for(static_cast<std::size_t>(N), kRowGrain, [&](std::size_t begin, std::size_t end) {
        kernels().rows<T>().rope_backward(arguments, begin, end);
      });
    });
    return dqkv;
  }

  at::Tensor activate(const at::Tensor& wide) const {
    auto out = at::empty({wide.size(0), config_.intermediate}, wide.options());
    by_type(wide.scalar_type(), [&](auto* tag) {
      using T = Pointee<decltype(tag)>;
      const auto& k = kernels().rows<T>();
      if (gpt()) {
        parallel_for(static_cast<std::size_t>(wide.numel()), kElementGrain,
                     [&](std::size_t begin, std::size_t end) { k.gelu(data<T>(wide), data<T>(out), begin, end); });
      } else {
        parallel_for(static_cast<std::size_t>(wide.size(0)), kRowGrain, [&](std::size_t begin, std::size_t end) {
          k.swiglu({data<T>(wide), data<T>(out), config_.intermediate}, begin, end);
        });
      }
    });
    return out;
  }

  at::Tensor activate_backward(const at::Tensor& dout, const at::Tensor& wide) const {
    auto dwide = at::empty_like(wide);
    by_type(wide.scalar_type(), [&](auto* tag) {
      using T = Pointee<decltype(tag)>;
      const auto& k = kernels().rows<T>();
      if (gpt()) {
        parallel_for(static_cast<std::size_t>(wide.numel()), kElementGrain, [&](std::size_t begin, std::size_t end) {
          k.gelu_backward(data<T>(dout), data<T>(wide), data<T>(dwide), begin, end);
        });
      } else {
        parallel_for(static_cast<std::size_t>(wide.size(0)), kRowGrain, [&](std::size_t begin, std::size_t end) {
          k.swiglu_backward({data<T>(dout), data<T>(wide), data<T>(dwide), config_.intermediate}, begin, end);
        });
      }
    });
    return dwide;
  }

 private:
  const float* cosine() const { return cosine_.defined() ? data<float>(cosine_) : nullptr; }
  const float* sine() const { return sine_.defined() ? data<float>(sine_) : nullptr; }
  const Config& config_;
  const BatchSize& size_;
  const float* flat_;
  const at::Tensor &cosine_, &sine_;
};

}  // namespace

BlockStage::BlockStage(const StageOptions& options)
    : options_(options), layout_(stage_layout(options.config, options.cut, options.stage)) {
  TRIBUTARY_CHECK(options.size.sequence <= options.config.context, "a sequence within the model's context");
  if (options.config.family != Family::kLlama) return;
  const std::int64_t length = options.size.sequence, half = options.config.head_size() / 2;
  cosine_ = at::empty({length, half}, at::kFloat);
  sine_ = at::empty({length, half}, at::kFloat);
  for (std::int64_t i = 0; i < half; ++i) {
    const double frequency =
        std::pow(options.config.rope_theta, -2.0 * static_cast<double>(i) / options.config.head_size());
    for (std::int64_t position = 0; position < length; ++position) {
      // transformers takes frequencies and angles in fp32.
      const float angle = static_cast<float>(position) * static_cast<float>(frequency);
      data<float>(cosine_)[position * half + i] = static_cast<float>(std::cos(static_cast<double>(angle)));
      data<float>(sine_)[position * half + i] = static_cast<float>(std::sin(static_cast<double>(angle)));
    }
  }
}

BlockStage::~BlockStage() = default;

void BlockStage::set_weights(const float* flat) {
  flat_ = flat;
  const auto size = static_cast<std::int64_t>(layout_.size);
  if (options_.precision == Precision::kFp32) {
    weights_ = at::from_blob(const_cast<float*>(flat), {size}, at::kFloat);
  } else {
    if (!weights_.defined()) weights_ = at::empty({size}, at::kBFloat16);
    parallel_for(layout_.size, kElementGrain, [&](std::size_t begin, std::size_t end) {
      kernels().bf16.from_float(flat, data<Bf16>(weights_), begin, end);
    });
  }
  const auto& c = options_.config;
  const std::uint32_t first = options_.cut.first_block(options_.stage);
  blocks_.clear();
  for (std::uint32_t i = 0; i < options_.cut.blocks[options_.stage.value() - 1u]; ++i) {
    const bool llama = c.family == Family::kLlama;
    const std::string at = (llama ? "model.layers." : "transformer.h.") + std::to_string(first + i) + ".";
    const auto find = [&](const char* name) -> const Parameter& { return layout_.find(at + name); };
    Block block;
    if (llama) {
      block.norm1 = find("input_layernorm.weight").offset;
      block.norm2 = find("post_attention_layernorm.weight").offset;
      const std::uint64_t wide = c.hidden + 2ull * c.kv_heads * c.head_size();
      block.qkv = linear(weights_, find("self_attn.q_proj.weight"), wide, true, nullptr);
      block.attention_out = linear(weights_, find("self_attn.o_proj.weight"), c.hidden, true, nullptr);
      block.wide = linear(weights_, find("mlp.gate_proj.weight"), 2ull * c.intermediate, true, nullptr);
      block.down = linear(weights_, find("mlp.down_proj.weight"), c.hidden, true, nullptr);
    } else {
      block.norm1 = find("ln_1.weight").offset;
      block.norm2 = find("ln_2.weight").offset;
      block.qkv = linear(weights_, find("attn.c_attn.weight"), c.hidden, false, &find("attn.c_attn.bias"));
      block.attention_out = linear(weights_, find("attn.c_proj.weight"), c.hidden, false, &find("attn.c_proj.bias"));
      block.wide = linear(weights_, find("mlp.c_fc.weight"), c.hidden, false, &find("mlp.c_fc.bias"));
      block.down = linear(weights_, find("mlp.c_proj.weight"), c.intermediate, false, &find("mlp.c_proj.bias"));
    }
    blocks_.push_back(std::move(block));
  }
}

void BlockStage::run_block(const Block& block, const at::Tensor& x, const at::Tensor& delta, BlockSaved& s,
                           at::Tensor& out_delta) const {
  const Pass pass(options_, flat_, cosine_, sine_);
  const double epsilon = options_.config.norm_epsilon;
  auto first = norm_forward(x, delta, pass.norm_weight(block.norm1), pass.norm_bias(block.norm1), epsilon);
  s.x = first.sum;
  s.a = first.out;
  s.rstd1 = first.rstd;
  s.mean1 = first.mean;
  pass.attend(block.qkv.forward(s.a), s);
  auto second = norm_forward(s.x, block.attention_out.forward(s.attention), pass.norm_weight(block.norm2),
                             pass.norm_bias(block.norm2), epsilon);
  s.x2 = second.sum;
  s.b = second.out;
  s.rstd2 = second.rstd;
  s.mean2 = second.mean;
  s.wide = block.wide.forward(s.b);
  s.h = pass.activate(s.wide);
  out_delta = block.down.forward(s.h);
}

at::Tensor BlockStage::forward(const at::Tensor& input, StageSaved* saved) const {
  TRIBUTARY_CHECK(flat_ != nullptr, "weights before a forward pass");
  at::Tensor x = input, delta;
  for (const auto& block : blocks_) {
    BlockSaved s;
    at::Tensor next_delta;
    run_block(block, x, delta, s, next_delta);
    x = s.x2;
    delta = next_delta;
    if (!saved) continue;
    if (options_.recompute) {
      BlockSaved kept;
      kept.x = s.x;
      s = std::move(kept);
    }
    saved->blocks.push_back(std::move(s));
  }
  auto out = at::empty_like(x);
  by_type(x.scalar_type(), [&](auto* tag) {
    using T = Pointee<decltype(tag)>;
    parallel_for(static_cast<std::size_t>(x.numel()), kElementGrain, [&](std::size_t begin, std::size_t end) {
      kernels().rows<T>().add(data<T>(x), data<T>(delta), data<T>(out), begin, end);
    });
  });
  return out;
}

at::Tensor BlockStage::backward(StageSaved& saved, const at::Tensor& dy, Gradients& gradients) const {
  TRIBUTARY_CHECK(saved.blocks.size() == blocks_.size(), "what the forward pass of this stage saved");
  const Pass pass(options_, flat_, cosine_, sine_);
  at::Tensor d = dy;
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    const auto& block = blocks_[i];
    BlockSaved s = std::move(saved.blocks[i]);
    if (!s.a.defined()) {
      at::Tensor unused;
      const at::Tensor x = s.x;
      run_block(block, x, {}, s, unused);
    }
    const auto dh = block.down.backward(d, s.h, gradients);
    const auto dwide = pass.activate_backward(dh, s.wide);
    const auto db = block.wide.backward(dwide, s.b, gradients);
    const auto dx2 = norm_backward(db, {s.x2, s.rstd2, s.mean2}, d, pass.norm_weight(block.norm2), pass.gpt(),
                                   block.norm2, gradients);
    const auto dattention = block.attention_out.backward(dx2, s.attention, gradients);
    const auto dqkv = pass.attend_backward(dattention, s);
    const auto da = block.qkv.backward(dqkv, s.a, gradients);
    d = norm_backward(da, {s.x, s.rstd1, s.mean1}, dx2, pass.norm_weight(block.norm1), pass.gpt(), block.norm1,
                      gradients);
  }
  saved.blocks.clear();
  return d;
}

}  // namespace tributary::model
