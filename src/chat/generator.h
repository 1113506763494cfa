// Text from a model: one token at a time, keys and values of the past kept. The header names no LibTorch.
// One thread at a time per object. Bound: the cache holds the model's context; when it is full, the later half of the
// text is read again and goes on from there.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/random.h"
#include "model/checkpoint.h"

namespace tributary::chat {

struct SamplingOptions {
  double temperature = 0.8;  // 0: always the likeliest token
  std::uint32_t top_k = 50;  // 0: all
  std::uint64_t seed = 0;
};

class Generator {
 public:
  // Takes the weights; computes in fp32.
  explicit Generator(model::ModelWeights weights);
  ~Generator();

  // Logits [vocabulary] for the token that follows, after `tokens` behind all those of earlier calls.
  std::vector<float> feed(std::span<const text::Token> tokens);
  void reset();
  // Continues `prompt` until `stop`, or `count` tokens, or `each` returns false. Errors: an empty prompt, ids outside
  // the vocabulary.
  Result<void> generate(std::span<const text::Token> prompt, std::size_t count, const SamplingOptions& sampling,
                        std::optional<text::Token> stop, const std::function<bool(text::Token)>& each);

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

// The sampling rule alone: softmax(logits / temperature) over the top_k likeliest.
text::Token sample(std::span<const float> logits, const SamplingOptions& options, Random& random);

}  // namespace tributary::chat
