// How much memory a node needs for a stage, for its cap: an upper estimate from the shapes alone, beside the program's
// own code and libraries. Plain functions; names no LibTorch.
#pragma once
#include <cstdint>

#include "node/torch_compute.h"

namespace tributary::node {

struct MemoryNeed {
  std::uint64_t state = 0;        // bytes: weights, moments, sums and results of three iterations, gradients
  std::uint64_t payloads = 0;     // of all microbatches of an iteration, kept until its commit
  std::uint64_t activations = 0;  // of one forward and backward pass
  std::uint64_t slot = 0;         // of each forward pass that waits for its backward pass
  std::uint64_t least() const { return state + payloads + activations; }
};

// Requires options that TorchCompute::create() takes.
MemoryNeed memory_need(const ComputeOptions& options, StageId stage);
// Slots that fit, from 1 to `wanted`; with fewer than wanted, forward passes are computed again. Errors: not even one
// does; the message says what is needed and what helps.
Result<std::uint32_t> slots_within(std::uint64_t budget, const MemoryNeed& need, std::uint32_t wanted, StageId stage);

}  // namespace tributary::node
