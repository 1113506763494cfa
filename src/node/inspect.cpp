#include "node/inspect.h"

#include "model/checkpoint.h"
#include "model/kernels.h"
#include "model/stage.h"
#include "text/safetensors.h"

namespace tributary::node {
namespace {

std::vector<float> dense(const model::Gradients& gradients, std::uint64_t size) {
  std::vector<float> flat(size);
  for (const auto& piece : gradients) {
    const auto values = piece.values.to(at::kFloat).contiguous();
    const auto* from = static_cast<const float*>(values.data_ptr());
    const auto count = static_cast<std::uint64_t>(values.numel());
    if (piece.rows.empty()) {
      for (std::uint64_t i = 0; i < count; ++i) flat[piece.offset + i] += from[i];
      continue;
    }
    const std::uint64_t width = count / piece.rows.size();
    for (std::size_t row = 0; row < piece.rows.size(); ++row) {
      for (std::uint64_t i = 0; i < width; ++i) {
        flat[piece.offset + static_cast<std::uint64_t>(piece.rows[row]) * width + i] += from[row * width + i];
      }
    }
  }
  return flat;
}

}  // namespace

Result<void> write_gradients(const std::filesystem::path& folder, const std::vector<std::vector<text::Token>>& windows,
                             const std::filesystem::path& out) {
  const at::NoGradGuard no_autograd;
  auto weights = model::load_model_folder(folder);
  if (!weights) return weights.error();
  const std::size_t length = windows.empty() ? 0 : windows[0].size();
  std::vector<text::Token> inputs, targets;
  for (const auto& window : windows) {
    if (window.size() != length || length < 2) return Error{"the windows must have one length, at least 2"};
    for (const auto token : window) {
      if (token < 0 || static_cast<std::uint32_t>(token) >= weights->config.vocabulary) {
        return Error{"the token id " + std::to_string(token) + " is outside the vocabulary"};
      }
    }
    inputs.insert(inputs.end(), window.begin(), window.end() - 1);
    targets.insert(targets.end(), window.begin() + 1, window.end());
  }
  if (inputs.empty()) return Error{"there are no windows"};
  model::StageOptions options{weights->config, weights->cut, StageId(0), model::Precision::kFp32, {}, false};
  options.size = {static_cast<std::int64_t>(windows.size()), static_cast<std::int64_t>(length - 1)};
  model::EndStage end(options);
  options.stage = StageId(1);
  model::BlockStage blocks(options);
  end.set_weights(weights->stages[0].data());
  blocks.set_weights(weights->stages[1].data());

  model::StageSaved saved;
  model::Gradients gradients[2];
  const auto x = blocks.forward(end.embed(inputs.data()), &saved);
  const auto logits = end.logits(x).contiguous();
  const auto head = end.head(x, targets.data(), 1.0 / static_cast<double>(inputs.size()), gradients[0]);
  end.embed_backward(inputs.data(), blocks.backward(saved, head.dx, gradients[1]), gradients[0]);

  const float loss = static_cast<float>(head.loss);
  std::vector<text::TensorToWrite> tensors = {
      {"logits",
       text::ElementType::kF32,
       {inputs.size(), weights->config.vocabulary},
       std::as_bytes(
           std::span(static_cast<const float*>(logits.data_ptr()), static_cast<std::size_t>(logits.numel())))},
      {"loss", text::ElementType::kF32, {1}, std::as_bytes(std::span(&loss, 1))}};
  std::vector<float> flat[2];
  for (std::uint16_t stage = 0; stage <= 1; ++stage) {
    const auto layout = model::stage_layout(weights->config, weights->cut, StageId(stage));
    flat[stage] = dense(gradients[stage], layout.size);
    for (const auto& parameter : layout.parameters) {
      tensors.push_back({"gradient." + parameter.name, text::ElementType::kF32, parameter.shape,
                         std::as_bytes(std::span(flat[stage]).subspan(parameter.offset, parameter.size))});
    }
  }
  return text::write_safetensors(out, tensors, {});
}

}  // namespace tributary::node
