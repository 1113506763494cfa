#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "model/ops.h"
#include "model/portable.h"

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

// Queries are taken in blocks, so that keys after a block are not multiplied with it at all, and a few sequences at a
// time, so that a block of scores stays in the cache. The sizes are those that were fastest for 8 heads of 32.
std::int64_t query_block(at::ScalarType type) { return type == at::kFloat ? 64 : 128; }
constexpr std::int64_t kGroupsAtOnce = 8;

class Pass {
 public:
  Pass(const StageOptions& options, const float* flat, const at::Tensor& cosine, const at::Tensor& sine)
      : config_(options.config), size_(options.size), flat_(flat), cosine_(cosine), sine_(sine) {}

  bool gpt() const { return config_.family == Family::kGpt; }
  const float* norm_weight(std::uint64_t offset) const { return flat_ + offset; }
  const float* norm_bias(std::uint64_t offset) const { return gpt() ? flat_ + offset + config_.hidden : nullptr; }

  // qkv [N, ...] -> s.q, s.k, s.v [batch * heads, sequence, D], s.attention [N, H], and the softmax's statistics.
  void attend(const at::Tensor& qkv, BlockSaved& s) const {
    if (portable::wanted(qkv)) return portable::attend(qkv, config_, size_, cosine_, sine_, s);
    const std::int64_t groups = size_.batch * config_.heads, D = config_.head_size();
    s.q = at::empty({groups, size_.sequence, D}, qkv.options());
    s.k = at::empty_like(s.q);
    s.v = at::empty_like(s.q);
    s.attention = at::empty({size_.rows(), config_.hidden}, qkv.options());
    s.highest = at::empty({groups, size_.sequence}, at::kFloat);
    s.inverse = at::empty({groups, size_.sequence}, at::kFloat);
    by_type(qkv.scalar_type(), [&](auto* tag) {
      using T = Pointee<decltype(tag)>;
      const auto& k = kernels().rows<T>();
      const typename RowKernels<T>::Rope rope{
          data<T>(qkv), data<T>(s.q),  data<T>(s.k),     data<T>(s.v),        cosine(),
          sine(),       config_.heads, config_.kv_heads, config_.head_size(), sequence()};
      parallel_for(rows(), kRowGrain, [&](std::size_t begin, std::size_t end) { k.rope(rope, begin, end); });
      for_blocks(qkv.scalar_type(), [&](const Part& part) {
        const auto chosen = [&](const at::Tensor& t) { return t.narrow(0, part.group, part.groups); };
        const auto scores = at::bmm(chosen(s.q).narrow(1, part.first, part.queries),
                                    chosen(s.k).narrow(1, 0, part.keys).transpose(1, 2));
        const std::size_t statistics = static_cast<std::size_t>(part.group) * sequence();
        const typename RowKernels<T>::Attention softmax{data<T>(scores),
                                                        data<float>(s.highest) + statistics,
                                                        data<float>(s.inverse) + statistics,
                                                        static_cast<std::size_t>(part.queries),
                                                        static_cast<std::size_t>(part.keys),
                                                        static_cast<std::size_t>(part.first),
                                                        sequence(),
                                                        scale()};
        parallel_for(static_cast<std::size_t>(part.groups * part.queries), kRowGrain,
                     [&](std::size_t begin, std::size_t end) { k.attention(softmax, begin, end); });
        const auto block = at::bmm(scores, chosen(s.v).narrow(1, 0, part.keys)).contiguous();
        const typename RowKernels<T>::MergeHeads merge{data<T>(block),
                                                       data<float>(s.inverse) + statistics,
                                                       data<T>(s.attention) + statistics * config_.head_size(),
                                                       config_.heads,
                                                       config_.head_size(),
                                                       static_cast<std::size_t>(part.queries),
                                                       static_cast<std::size_t>(part.first),
                                                       sequence()};
        parallel_for(static_cast<std::size_t>(part.groups / config_.heads * part.queries), kRowGrain,
                     [&](std::size_t begin, std::size_t end) { k.merge_heads(merge, begin, end); });
      });
    });
  }

  // The gradient of qkv. Probabilities are made again, block by block; gradients of keys and values are summed over
  // blocks in fp32, in order.
  at::Tensor attend_backward(const at::Tensor& dattention, const BlockSaved& s) const {
    if (portable::wanted(dattention)) return portable::attend_backward(dattention, config_, size_, cosine_, sine_, s);
    const std::int64_t groups = size_.batch * config_.heads, D = config_.head_size();
    auto dout = at::empty_like(s.q), dq = at::empty_like(s.q);
    auto delta = at::empty({groups, size_.sequence}, at::kFloat);
    auto dk = at::zeros({groups, size_.sequence, D}, at::kFloat), dv = at::zeros_like(dk);
    auto dqkv =
        at::empty({size_.rows(), (config_.heads + 2ll * config_.kv_heads) * config_.head_size()}, dattention.options());
    by_type(dqkv.scalar_type(), [&](auto* tag) {
      using T = Pointee<decltype(tag)>;
      const auto& k = kernels().rows<T>();
      const typename RowKernels<T>::SplitHeads split{data<T>(dattention), data<T>(s.attention), data<T>(dout),
                                                     data<float>(delta),  config_.heads,        config_.head_size(),
                                                     sequence()};
      parallel_for(rows(), kRowGrain, [&](std::size_t begin, std::size_t end) { k.split_heads(split, begin, end); });
      for_blocks(dqkv.scalar_type(), [&](const Part& part) {
        const auto chosen = [&](const at::Tensor& t) { return t.narrow(0, part.group, part.groups); };
        const auto q = chosen(s.q).narrow(1, part.first, part.queries);
        const auto dblock = chosen(dout).narrow(1, part.first, part.queries);
        const auto key = chosen(s.k).narrow(1, 0, part.keys), value = chosen(s.v).narrow(1, 0, part.keys);
        const auto scores = at::bmm(q, key.transpose(1, 2)), dscores = at::bmm(dblock, value.transpose(1, 2));
        const std::size_t statistics = static_cast<std::size_t>(part.group) * sequence();
        const typename RowKernels<T>::AttentionBackward softmax{data<T>(scores),
                                                                data<T>(dscores),
                                                                data<float>(s.highest) + statistics,
                                                                data<float>(s.inverse) + statistics,
                                                                data<float>(delta) + statistics,
                                                                static_cast<std::size_t>(part.queries),
                                                                static_cast<std::size_t>(part.keys),
                                                                static_cast<std::size_t>(part.first),
                                                                sequence(),
                                                                scale()};
        parallel_for(static_cast<std::size_t>(part.groups * part.queries), kRowGrain,
                     [&](std::size_t begin, std::size_t end) { k.attention_backward(softmax, begin, end); });
        chosen(dq).narrow(1, part.first, part.queries).copy_(at::bmm(dscores, key));
        add_keys<T>(at::bmm(scores.transpose(1, 2), dblock), chosen(dv));
        add_keys<T>(at::bmm(dscores.transpose(1, 2), q), chosen(dk));
      });
      const typename RowKernels<T>::RopeBackward rope{
          data<T>(dq), data<float>(dk), data<float>(dv),  data<T>(dqkv),       cosine(),
          sine(),      config_.heads,   config_.kv_heads, config_.head_size(), sequence()};
      parallel_for(rows(), kRowGrain, [&](std::size_t begin, std::size_t end) { k.rope_backward(rope, begin, end); });
    });
    return dqkv;
  }

  at::Tensor activate(const at::Tensor& wide) const {
    if (portable::wanted(wide)) return portable::activate(wide, config_);
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
    if (portable::wanted(wide)) return portable::activate_backward(dout, wide, config_);
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
  // One block of scores: groups (batch, head) x queries x keys.
  struct Part {
    std::int64_t group, groups, first, queries, keys;
  };
  template <class F>
  void for_blocks(at::ScalarType type, F&& f) const {
    const std::int64_t heads = config_.heads, total = size_.batch * heads;
    const std::int64_t groups = std::max<std::int64_t>(1, kGroupsAtOnce / heads) * heads, block = query_block(type);
    const auto chunks = static_cast<std::size_t>((total + groups - 1) / groups);
    const auto run = [&](std::size_t begin, std::size_t end) {
      for (auto group = static_cast<std::int64_t>(begin) * groups; group < static_cast<std::int64_t>(end) * groups;
           group += groups) {
        for (std::int64_t first = 0; first < size_.sequence; first += block) {
          const std::int64_t queries = std::min(block, size_.sequence - first);
          f(Part{group, std::min(groups, total - group), first, queries, first + queries});
        }
      }
    };
    // A thread takes whole groups, each with its own products: hundreds of loops a layer, each shared by all threads,
    // would wait for one another longer than they run. With too few groups the loops are shared after all.
    if (chunks >= static_cast<std::size_t>(threads())) {
      parallel_for(chunks, 1, run);
    } else {
      run(0, chunks);
    }
  }
  // total [groups, sequence, D] += part [groups, keys, D] on the first keys.
  template <class T>
  void add_keys(const at::Tensor& unordered, const at::Tensor& total) const {
    const auto part = unordered.contiguous();
    const auto count = static_cast<std::size_t>(part.size(1) * part.size(2));
    const auto step = static_cast<std::size_t>(total.size(1) * total.size(2));
    parallel_for(static_cast<std::size_t>(part.size(0)), 1, [&](std::size_t begin, std::size_t end) {
      for (std::size_t group = begin; group < end; ++group) {
        kernels().rows<T>().accumulate(data<T>(part) + group * count, data<float>(total) + group * step, 0, count);
      }
    });
  }
  std::size_t rows() const { return static_cast<std::size_t>(size_.rows()); }
  std::size_t sequence() const { return static_cast<std::size_t>(size_.sequence); }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(config_.head_size())); }
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
  cosine_ = cosine_.to(options.device);
  sine_ = sine_.to(options.device);
}

BlockStage::~BlockStage() = default;

void BlockStage::set_weights(const float* flat) {
  flat_ = flat;
  const auto size = static_cast<std::int64_t>(layout_.size);
  if (!options_.device.is_cpu()) {
    moved_ = at::from_blob(const_cast<float*>(flat), {size}, at::kFloat).to(options_.device);
    flat_ = static_cast<const float*>(moved_.data_ptr());
    weights_ = moved_.to(scalar_type(options_.precision));
  } else if (options_.precision == Precision::kFp32) {
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
  if (portable::wanted(x)) return x + delta;
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
