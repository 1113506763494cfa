#include "node/memory_need.h"

#include <algorithm>

namespace tributary::node {
namespace {

// The current iteration's, the one before for those that are late, and the next for those that are early.
constexpr std::uint64_t kIterationsKept = 3;
// Input and output, forward and backward.
constexpr std::uint64_t kPayloadsOfMicrobatch = 4;
// Chunks of logits and of their gradient, at most (src/model/end_stage.cpp).
constexpr std::uint64_t kLogitsBytes = std::uint64_t{64} << 20;

std::string mib(std::uint64_t bytes) { return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB"; }

}  // namespace

MemoryNeed memory_need(const ComputeOptions& o, StageId stage) {
  const auto& c = o.config;
  const std::uint64_t parameters = model::stage_layout(c, o.cut, stage).size;
  const std::uint64_t rows = std::uint64_t{o.batch} * o.sequence;
  const std::uint64_t element = o.precision == model::Precision::kBf16 ? 2 : 4;
  MemoryNeed need;
  const std::uint64_t sum = o.reproducible ? 8 : 4, result = 4;
  // Weights and moments; the copy for computing; sums and results; two contributions; a partial sum and a result on
  // their way.
  need.state = parameters * (12 + (element == 2 ? 2 : 0) + kIterationsKept * (sum + result) + 2 * element + sum + 4);
  need.payloads = kPayloadsOfMicrobatch * o.microbatches * o.payload_bytes();
  if (stage == StageId(0)) {
    // Input, normed, both gradients, a row of statistics; logits in chunks.
    const std::uint64_t logits = 2 * rows * c.vocabulary * element;
    need.activations = rows * (5 * c.hidden * element + 16) + std::min(logits, kLogitsBytes);
    return need;
  }
  const std::uint64_t wide = c.family == model::Family::kLlama ? 2 : 1;
  const std::uint64_t statistics = 4 * (4 + 2ull * c.heads);
  const std::uint64_t block = rows * ((8ull * c.hidden + (wide + 1) * c.intermediate) * element + statistics);
  const std::uint64_t blocks = o.cut.blocks[stage.value() - 1u];
  need.slot = o.recompute_activations ? rows * c.hidden * element * blocks : block * blocks;
  need.activations = need.slot + 3 * block;  // a pass under way, and its gradients
  return need;
}

Result<std::uint32_t> slots_within(std::uint64_t budget, const MemoryNeed& need, std::uint32_t wanted, StageId stage) {
  const auto least = need.least() + (need.slot > 0 ? need.slot : 0);
  if (budget < least)
    return Error{"stage " + to_string(stage) + " needs " + mib(least) + " (state " + mib(need.state) +
                 ", payloads kept for repairs " + mib(need.payloads) + ", activations " +
                 mib(need.activations + need.slot) + "), and the cap is " + mib(budget) +
                 ": raise --memory, or ask for another stage with --stage N --only-stage, or have the run cut into "
                 "more stages"};
  if (need.slot == 0) return wanted;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, (budget - need.least()) / need.slot));
}

}  // namespace tributary::node
