#include "chat/generator.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "model/ops.h"

namespace tributary::chat {

using model::Linear;

text::Token sample(std::span<const float> logits, const SamplingOptions& options, Random& random) {
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto likelier = [&](std::int32_t a, std::int32_t b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  if (options.temperature <= 0) return *std::min_element(order.begin(), order.end(), likelier);
  std::size_t kept = options.top_k == 0 ? order.size() : std::min<std::size_t>(options.top_k, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(), likelier);
  const float highest = logits[static_cast<std::size_t>(order[0])];
  std::vector<double> weights(kept);
  double total = 0;
  for (std::size_t i = 0; i < kept; ++i) {
    weights[i] = std::exp((logits[static_cast<std::size_t>(order[i])] - highest) / options.temperature);
    total += weights[i];
  }
  double at = random.uniform() * total;
  for (std::size_t i = 0; i < kept; ++i) {
    at -= weights[i];
    if (at < 0) return order[i];
  }
  return order[kept - 1];
}

struct Generator::Implementation {
  struct Block {
    Linear qkv, attention_out, wide, down;
    const float *norm1, *norm2;
    at::Tensor keys, values;  // [heads, context, D]
  };

  explicit Implementation(model::ModelWeights given);
  void make_blocks();
  at::Tensor run(std::span<const text::Token> tokens);
  at::Tensor attend(Block& block, const at::Tensor& qkv, std::int64_t count);
  const float* bias(const float* weight) const { return gpt() ? weight + weights.config.hidden : nullptr; }
  bool gpt() const { return weights.config.family == model::Family::kGpt; }
  at::Tensor view(std::size_t stage, std::uint64_t offset, std::vector<std::int64_t> shape) {
    return at::from_blob(weights.stages[stage].data() + offset, shape, at::kFloat);
  }

  model::ModelWeights weights;
  model::StageLayout ends;
  std::vector<Block> blocks;
  at::Tensor embedding, positions, head, cosine, sine;
  const float* final_norm = nullptr;
  std::int64_t length = 0;  // tokens in the cache
  std::vector<text::Token> history;
};

Generator::Implementation::Implementation(model::ModelWeights given) : weights(std::move(given)) {
  const auto& c = weights.config;
  const std::int64_t H = c.hidden, V = c.vocabulary, context = c.context, half = c.head_size() / 2;
  ends = model::stage_layout(c, weights.cut, StageId(0));
  const bool llama = !gpt();
  const auto offset = [&](const char* name) { return ends.find(name).offset; };
  embedding = view(0, offset(llama ? "model.embed_tokens.weight" : "transformer.wte.weight"), {V, H});
  head = c.tied ? embedding : view(0, offset("lm_head.weight"), {V, H});
  final_norm = weights.stages[0].data() + offset(llama ? "model.norm.weight" : "transformer.ln_f.weight");
  if (llama) {
    const auto frequencies =
        at::pow(c.rope_theta, at::arange(half, at::kDouble) * (-2.0 / static_cast<double>(c.head_size())));
    const auto angles = at::outer(at::arange(context, at::kFloat), frequencies.to(at::kFloat));
    cosine = angles.cos().contiguous();
    sine = angles.sin().contiguous();
  } else {
    positions = view(0, offset("transformer.wpe.weight"), {context, H});
  }
  make_blocks();
}

void Generator::Implementation::make_blocks() {
  const auto& c = weights.config;
  const std::int64_t H = c.hidden, I = c.intermediate, D = c.head_size();
  const std::int64_t wide = H + 2 * static_cast<std::int64_t>(c.kv_heads) * D;
  for (std::uint16_t stage = 1; stage <= weights.cut.stages(); ++stage) {
    const auto layout = model::stage_layout(c, weights.cut, StageId(stage));
    const std::uint32_t first = weights.cut.first_block(StageId(stage));
    for (std::uint32_t i = first; i < first + weights.cut.blocks[stage - 1u]; ++i) {
      const std::string at_block = (gpt() ? "transformer.h." : "model.layers.") + std::to_string(i) + ".";
      const auto offset = [&](const char* name) { return layout.find(at_block + name).offset; };
      const auto matrix = [&](const char* name, std::int64_t rows, std::int64_t columns) {
        return Linear{view(stage, offset(name), {rows, columns}), {}, true, 0, 0};
      };
      const auto biased = [&](const char* name, const char* bias_name, std::int64_t rows, std::int64_t columns) {
        return Linear{view(stage, offset(name), {rows, columns}), view(stage, offset(bias_name), {columns}), false, 0,
                      0};
      };
      Block block{};
      const float* flat = weights.stages[stage].data();
      if (gpt()) {
        block.norm1 = flat + offset("ln_1.weight");
        block.norm2 = flat + offset("ln_2.weight");
        block.qkv = biased("attn.c_attn.weight", "attn.c_attn.bias", H, 3 * H);
        block.attention_out = biased("attn.c_proj.weight", "attn.c_proj.bias", H, H);
        block.wide = biased("mlp.c_fc.weight", "mlp.c_fc.bias", H, I);
        block.down = biased("mlp.c_proj.weight", "mlp.c_proj.bias", I, H);
      } else {
        block.norm1 = flat + offset("input_layernorm.weight");
        block.norm2 = flat + offset("post_attention_layernorm.weight");
        block.qkv = matrix("self_attn.q_proj.weight", wide, H);
        block.attention_out = matrix("self_attn.o_proj.weight", H, H);
        block.wide = matrix("mlp.gate_proj.weight", 2 * I, H);
        block.down = matrix("mlp.down_proj.weight", H, I);
      }
      block.keys = at::empty({c.heads, c.context, D}, at::kFloat);
      block.values = at::empty({c.heads, c.context, D}, at::kFloat);
      blocks.push_back(std::move(block));
    }
  }
}

// The new rows attend to all before them and to themselves; their keys and values join the cache.
at::Tensor Generator::Implementation::attend(Block& block, const at::Tensor& qkv, std::int64_t count) {
  const auto& c = weights.config;
  const std::int64_t H = c.hidden, D = c.head_size(), heads = c.heads, half = D / 2, total = length + count;
  auto q = at::empty({heads, count, D}, at::kFloat), k = at::empty_like(q), v = at::empty_like(q);
  const float* cosines = cosine.defined() ? model::data<float>(cosine) + length * half : nullptr;
  const float* sines = sine.defined() ? model::data<float>(sine) + length * half : nullptr;
  model::kernels().f32.rope(
      {model::data<float>(qkv), model::data<float>(q), model::data<float>(k), model::data<float>(v), cosines, sines,
       c.heads, c.kv_heads, c.head_size(), static_cast<std::size_t>(count)},
      0, static_cast<std::size_t>(count));
  block.keys.narrow(1, length, count).copy_(k);
  block.values.narrow(1, length, count).copy_(v);
  auto scores = at::matmul(q, block.keys.narrow(1, 0, total).transpose(1, 2)) / std::sqrt(static_cast<double>(D));
  if (count > 1) {
    const auto hidden = at::ones({count, total}, at::kBool).triu(length + 1);
    scores.masked_fill_(hidden, -std::numeric_limits<float>::infinity());
  }
  return at::matmul(at::softmax(scores, -1), block.values.narrow(1, 0, total)).transpose(0, 1).reshape({count, H});
}

at::Tensor Generator::Implementation::run(std::span<const text::Token> tokens) {
  const auto& c = weights.config;
  const auto count = static_cast<std::int64_t>(tokens.size());
  std::vector<std::int64_t> ids(tokens.begin(), tokens.end());
  auto x = embedding.index_select(0, at::tensor(ids));
  if (positions.defined()) x = x + positions.narrow(0, length, count);
  at::Tensor delta;
  for (auto& block : blocks) {
    const auto first = model::norm_forward(x, delta, block.norm1, bias(block.norm1), c.norm_epsilon);
    const auto attention = attend(block, block.qkv.forward(first.out), count);
    const auto second = model::norm_forward(first.sum, block.attention_out.forward(attention), block.norm2,
                                            bias(block.norm2), c.norm_epsilon);
    const auto wide = block.wide.forward(second.out);
    auto hidden = at::empty({count, c.intermediate}, at::kFloat);
    const auto& k = model::kernels().f32;
    if (gpt()) {
      k.gelu(model::data<float>(wide), model::data<float>(hidden), 0, static_cast<std::size_t>(wide.numel()));
    } else {
      k.swiglu({model::data<float>(wide), model::data<float>(hidden), c.intermediate}, 0,
               static_cast<std::size_t>(count));
    }
    x = second.sum;
    delta = block.down.forward(hidden);
  }
  length += count;
  x = (x + delta).narrow(0, count - 1, 1);
  return at::mm(model::norm_forward(x, {}, final_norm, bias(final_norm), c.norm_epsilon).out, head.t());
}

Generator::Generator(model::ModelWeights weights)
    : implementation_(std::make_unique<Implementation>(std::move(weights))) {}
Generator::~Generator() = default;

void Generator::reset() {
  implementation_->length = 0;
  implementation_->history.clear();
}

std::vector<float> Generator::feed(std::span<const text::Token> tokens) {
  const at::NoGradGuard no_autograd;
  auto& self = *implementation_;
  const auto context = static_cast<std::size_t>(self.weights.config.context);
  TRIBUTARY_CHECK(!tokens.empty(), "tokens to feed");
  self.history.insert(self.history.end(), tokens.begin(), tokens.end());
  at::Tensor logits;
  if (static_cast<std::size_t>(self.length) + tokens.size() > context) {
    const std::size_t kept = std::min(self.history.size(), std::max<std::size_t>(1, context / 2));
    self.history.erase(self.history.begin(), self.history.end() - static_cast<std::ptrdiff_t>(kept));
    self.length = 0;
    logits = self.run(self.history);
  } else {
    logits = self.run(tokens);
  }
  const auto* values = model::data<float>(logits);
  return {values, values + logits.numel()};
}

Result<void> Generator::generate(std::span<const text::Token> prompt, std::size_t count,
                                 const SamplingOptions& sampling, std::optional<text::Token> stop,
                                 const std::function<bool(text::Token)>& each) {
  if (prompt.empty()) return Error{"the prompt is empty; give at least one character"};
  for (const auto token : prompt) {
    if (token < 0 || static_cast<std::uint32_t>(token) >= implementation_->weights.config.vocabulary) {
      return Error{"the prompt has the token id " + std::to_string(token) + ", which the model does not know"};
    }
  }
  reset();
  Random random(sampling.seed);
  auto logits = feed(prompt);
  for (std::size_t i = 0; i < count; ++i) {
    const auto token = sample(logits, sampling, random);
    if (stop && token == *stop) break;
    if (!each(token) || i + 1 == count) break;
    logits = feed(std::span(&token, 1));
  }
  return {};
}

}  // namespace tributary::chat
