// For tests against other implementations: logits, loss and all gradients of a model folder on given tokens.
#pragma once
#include <filesystem>
#include <vector>

#include "base/result.h"
#include "text/tokenizer.h"

namespace tributary::node {

// windows: [batch, sequence + 1]. Writes a safetensors file with `logits` [batch * sequence, vocabulary], `loss` [1],
// and `gradient.NAME` for each parameter, all fp32, of the mean loss.
Result<void> write_gradients(const std::filesystem::path& model, const std::vector<std::vector<text::Token>>& windows,
                             const std::filesystem::path& out);

}  // namespace tributary::node
