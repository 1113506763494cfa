#include "model/config.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/bytes.h"
#include "base/random.h"

namespace tributary::model {
namespace {

class LayoutBuilder {
 public:
  void add(std::string name, std::vector<std::uint64_t> shape, bool decay, Init init, double deviation = 0) {
    Parameter parameter{std::move(name), std::move(shape), layout_.size, 1, decay, init, static_cast<float>(deviation)};
    for (const auto length : parameter.shape) parameter.size *= length;
    layout_.size += parameter.size;
    layout_.parameters.push_back(std::move(parameter));
  }
  void matrix(std::string name, std::uint64_t rows, std::uint64_t columns, double deviation) {
    add(std::move(name), {rows, columns}, true, Init::kNormal, deviation);
  }
  void vector(std::string name, std::uint64_t length, Init init) { add(std::move(name), {length}, false, init); }
  StageLayout take() { return std::move(layout_); }

 private:
  StageLayout layout_;
};

constexpr double kEmbeddingDeviation = 0.02;

void add_ends(const Config& c, LayoutBuilder& out) {
  const auto embedding = [&](const char* name, std::uint64_t rows) {
    out.add(name, {rows, c.hidden}, false, Init::kNormal, kEmbeddingDeviation);
  };
  if (c.family == Family::kLlama) {
    embedding("model.embed_tokens.weight", c.vocabulary);
    out.vector("model.norm.weight", c.hidden, Init::kOnes);
  } else {
    embedding("transformer.wte.weight", c.vocabulary);
    embedding("transformer.wpe.weight", c.context);
    out.vector("transformer.ln_f.weight", c.hidden, Init::kOnes);
    out.vector("transformer.ln_f.bias", c.hidden, Init::kZeros);
  }
  if (!c.tied) out.matrix("lm_head.weight", c.vocabulary, c.hidden, kEmbeddingDeviation);
}

double linear_deviation(std::uint64_t inputs) { return 1.0 / std::sqrt(3.0 * static_cast<double>(inputs)); }

void add_llama_block(const Config& c, std::uint32_t block, LayoutBuilder& out) {
  const std::string at = "model.layers." + std::to_string(block) + ".";
  const double residual = 1.0 / std::sqrt(2.0 * c.layers);
  const std::uint64_t kv = std::uint64_t{c.kv_heads} * c.head_size();
  out.vector(at + "input_layernorm.weight", c.hidden, Init::kOnes);
  out.matrix(at + "self_attn.q_proj.weight", c.hidden, c.hidden, linear_deviation(c.hidden));
  out.matrix(at + "self_attn.k_proj.weight", kv, c.hidden, linear_deviation(c.hidden));
  out.matrix(at + "self_attn.v_proj.weight", kv, c.hidden, linear_deviation(c.hidden));
  out.matrix(at + "self_attn.o_proj.weight", c.hidden, c.hidden, residual * linear_deviation(c.hidden));
  out.vector(at + "post_attention_layernorm.weight", c.hidden, Init::kOnes);
  out.matrix(at + "mlp.gate_proj.weight", c.intermediate, c.hidden, linear_deviation(c.hidden));
  out.matrix(at + "mlp.up_proj.weight", c.intermediate, c.hidden, linear_deviation(c.hidden));
  out.matrix(at + "mlp.down_proj.weight", c.hidden, c.intermediate, residual * linear_deviation(c.intermediate));
}

// transformers' GPT-2 keeps its matrices as [inputs, outputs].
void add_gpt_block(const Config& c, std::uint32_t block, LayoutBuilder& out) {
  const std::string at = "transformer.h." + std::to_string(block) + ".";
  const double residual = 1.0 / std::sqrt(2.0 * c.layers);
  const std::uint64_t wide = 3ull * c.hidden;
  out.vector(at + "ln_1.weight", c.hidden, Init::kOnes);
  out.vector(at + "ln_1.bias", c.hidden, Init::kZeros);
  out.matrix(at + "attn.c_attn.weight", c.hidden, wide, linear_deviation(c.hidden));
  out.vector(at + "attn.c_attn.bias", wide, Init::kZeros);
  out.matrix(at + "attn.c_proj.weight", c.hidden, c.hidden, residual * linear_deviation(c.hidden));
  out.vector(at + "attn.c_proj.bias", c.hidden, Init::kZeros);
  out.vector(at + "ln_2.weight", c.hidden, Init::kOnes);
  out.vector(at + "ln_2.bias", c.hidden, Init::kZeros);
  out.matrix(at + "mlp.c_fc.weight", c.hidden, c.intermediate, linear_deviation(c.hidden));
  out.vector(at + "mlp.c_fc.bias", c.intermediate, Init::kZeros);
  out.matrix(at + "mlp.c_proj.weight", c.intermediate, c.hidden, residual * linear_deviation(c.intermediate));
  out.vector(at + "mlp.c_proj.bias", c.hidden, Init::kZeros);
}

}  // namespace

std::uint32_t StageCut::first_block(StageId stage) const {
  TRIBUTARY_CHECK(stage.value() >= 1 && stage.value() <= stages(), "a stage with blocks");
  return std::accumulate(blocks.begin(), blocks.begin() + (stage.value() - 1), 0u);
}

Result<StageCut> cut_evenly(const Config& config, std::uint32_t stages) {
  if (stages < 1 || stages > config.layers) {
    return Error{"swarm.stages is " + std::to_string(stages) + "; it must be from 1 to model.layers, " +
                 std::to_string(config.layers)};
  }
  StageCut cut;
  for (std::uint32_t i = 0; i < stages; ++i) {
    cut.blocks.push_back(config.layers / stages + (i < config.layers % stages ? 1 : 0));
  }
  return cut;
}

Result<StageCut> cut_as_given(const Config& config, std::vector<std::uint32_t> blocks) {
  const std::uint64_t sum = std::accumulate(blocks.begin(), blocks.end(), std::uint64_t{0});
  if (blocks.empty() || blocks.size() > config.layers || std::find(blocks.begin(), blocks.end(), 0u) != blocks.end() ||
      sum != config.layers) {
    return Error{"the blocks per stage must each be at least 1 and add up to model.layers, " +
                 std::to_string(config.layers)};
  }
  return StageCut{std::move(blocks)};
}

const Parameter& StageLayout::find(const std::string& name) const {
  for (const auto& parameter : parameters) {
    if (parameter.name == name || parameter.name.ends_with("." + name)) return parameter;
  }
  check_failed(__FILE__, __LINE__, "found", "no parameter " + name);
}

StageLayout stage_layout(const Config& config, const StageCut& cut, StageId stage) {
  LayoutBuilder out;
  if (stage.value() == 0) {
    add_ends(config, out);
    return out.take();
  }
  const std::uint32_t first = cut.first_block(stage), count = cut.blocks[stage.value() - 1u];
  for (std::uint32_t block = first; block < first + count; ++block) {
    if (config.family == Family::kLlama) {
      add_llama_block(config, block, out);
    } else {
      add_gpt_block(config, block, out);
    }
  }
  return out.take();
}

void initialise(const StageLayout& layout, std::uint64_t seed, float* flat) {
  for (const auto& parameter : layout.parameters) {
    float* out = flat + parameter.offset;
    if (parameter.init != Init::kNormal) {
      std::fill(out, out + parameter.size, parameter.init == Init::kOnes ? 1.0f : 0.0f);
      continue;
    }
    Random random(mix64(seed, checksum64(parameter.name)));
    for (std::uint64_t i = 0; i < parameter.size; ++i) {
      // Twelve 16-bit uniforms: mean 6 * 65535 / 65536, variance 1 - 2^-32.
      std::uint32_t sum = 0;
      for (int draw = 0; draw < 3; ++draw) {
        const std::uint64_t word = random.next();
        sum += static_cast<std::uint32_t>((word & 0xffff) + ((word >> 16) & 0xffff) + ((word >> 32) & 0xffff) +
                                          (word >> 48));
      }
      const float normal = (static_cast<float>(sum) - 6.0f * 65535.0f) * 0x1p-16f;
      out[i] = normal * parameter.deviation;
    }
  }
}

}  // namespace tributary::model
