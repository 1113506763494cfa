// The tensor work of a node by LibTorch: one stage's (a relay's, a data node's), or all of them in one process. The
// header names no LibTorch. One thread at a time, as swarm::Compute says.
// Bounds: at most kept_graphs forward passes are kept for their backward passes; sums, results and contributions live
// until kForget. Payloads are [batch * sequence, hidden], row by row, in the type of the wire.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/config.h"
#include "swarm/compute.h"
#include "text/tokenizer.h"

namespace tributary::node {

// kInt8: blocks of 64 values, each with its largest magnitude / 127 as scale.
enum class WireType { kBf16, kFp32, kInt8 };

struct ComputeOptions {
  model::Config config;
  model::StageCut cut;
  // True: all stages 0..S at once. False: one, the stage of the latest kInit, kLoad or kWriteState.
  bool hold_all = false;
  std::uint64_t seed = 0;
  std::uint32_t microbatches = 1;  // M: contributions are divided by it
  std::uint32_t batch = 1;         // sequences per microbatch
  std::uint32_t sequence = 1;
  model::Precision precision = model::Precision::kFp32;
  WireType wire = WireType::kBf16;
  // "cpu" or "cuda": of activations, weights for computing and gradients; state, sums and payloads stay on the CPU.
  std::string device = "cpu";
  // Sums in fixed point (unit 2^-44, int64, wrapping): the same bits in every order. Partial sums are then int64.
  bool reproducible = false;
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.1;
  std::filesystem::path checkpoints;  // for kSave and kLoad
  // [batch, sequence + 1] ids; needed for stage 0.
  std::function<std::vector<text::Token>(Iteration, MicrobatchId)> tokens;
  // A held-out batch, of the same shape; needed for kEvaluate of stage 0.
  std::function<std::vector<text::Token>(std::uint32_t batch)> held_out;
  std::size_t kept_graphs = 8;
  bool recompute_activations = false;
  int threads = 0;  // process-wide; 0 leaves them as they are

  // Bytes of an activation or gradient on the wire.
  std::uint64_t payload_bytes() const;
};

// "cpu" or "cpu, cuda": what this LibTorch can compute on.
std::string devices_here();

class TorchCompute : public swarm::Compute {
 public:
  // Errors: every fault of the options.
  static Result<std::unique_ptr<TorchCompute>> create(ComputeOptions options);
  ~TorchCompute() override;

  swarm::TaskResult run(const swarm::Task& task) override;
  std::uint64_t state_size(StageId stage) const override;

 private:
  struct Implementation;
  explicit TorchCompute(std::unique_ptr<Implementation> implementation);
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace tributary::node
