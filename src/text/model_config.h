// The shape of a model, and its config.json as `transformers` writes it. Here rather than in src/model because it is a
// parser of foreign bytes, and this folder builds without LibTorch, under sanitizers and fuzzers.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace tributary::text {

enum class Family { kLlama, kGpt };

struct ModelConfig {
  Family family = Family::kLlama;
  std::uint32_t vocabulary = 258;
  std::uint32_t layers = 4;
  std::uint32_t hidden = 256;
  std::uint32_t heads = 4;
  std::uint32_t kv_heads = 4;  // llama; equal to heads for gpt
  std::uint32_t intermediate = 688;
  std::uint32_t context = 512;  // gpt: number of learned positions
  bool tied = true;             // the head is the embedding
  double rope_theta = 10000;    // llama
  double norm_epsilon = 1e-5;

  std::uint32_t head_size() const { return hidden / heads; }
  // Every fault, each with the name of the key; empty if the model can be built.
  std::vector<std::string> check() const;
  bool operator==(const ModelConfig&) const = default;
};

// Errors: not JSON, another architecture, features that are not built (scaled RoPE, biases in llama, ...).
Result<ModelConfig> parse_model_config(const std::string& json);
std::string write_model_config(const ModelConfig& config, std::optional<std::int32_t> bos,
                               std::optional<std::int32_t> eos);

}  // namespace tributary::text
