// What a model is, and how it is cut into stages. Plain data; no LibTorch.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "text/model_config.h"

namespace tributary::model {

using Config = text::ModelConfig;
using text::Family;

enum class Precision { kFp32, kBf16 };
inline std::size_t element_size(Precision precision) { return precision == Precision::kFp32 ? 4 : 2; }

// Stage 0 has the embedding, the final norm and the head; stages 1..S have the blocks, in order.
struct StageCut {
  std::vector<std::uint32_t> blocks;  // per stage 1..S
  std::uint16_t stages() const { return static_cast<std::uint16_t>(blocks.size()); }
  std::uint32_t first_block(StageId stage) const;
  bool operator==(const StageCut&) const = default;
};

// Blocks spread as evenly as can be, the first stages getting one more; or the given counts. Errors: more stages than
// blocks, counts that do not add up.
Result<StageCut> cut_evenly(const Config& config, std::uint32_t stages);
Result<StageCut> cut_as_given(const Config& config, std::vector<std::uint32_t> blocks);

enum class Init { kNormal, kOnes, kZeros };

// One named tensor within a stage's flat vector.
struct Parameter {
  std::string name;  // as in transformers
  std::vector<std::uint64_t> shape;
  std::uint64_t offset = 0, size = 0;
  bool decay = false;  // weight decay: matrices of the blocks and an untied head; no embeddings, norms, biases
  Init init = Init::kNormal;
  float deviation = 0;
};

struct StageLayout {
  std::vector<Parameter> parameters;
  std::uint64_t size = 0;
  // Requires that there is one whose name is, or ends with, `name`.
  const Parameter& find(const std::string& name) const;
};

// The flat vector of a stage: the same on every node. Matrices that are multiplied together lie side by side.
StageLayout stage_layout(const Config& config, const StageCut& cut, StageId stage);

// Initial weights, a function of (seed, name of the tensor, element): nothing else. Normal by the sum of twelve uniform
// numbers, which needs no function that differs between libraries; deviations as in PyTorch's linear layers, those that
// write into the residual stream divided by sqrt(2 layers) (GPT-2).
void initialise(const StageLayout& layout, std::uint64_t seed, float* flat);

}  // namespace tributary::model
