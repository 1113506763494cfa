// The mathematics of a stage, forward and backward, written out by hand: matrix products and attention by LibTorch, all
// between them by kernels.h. A stage does not know of microbatches, folding or messages; src/node does.
// One thread at a time per object. Shapes: N = batch * sequence rows, H hidden.
#pragma once
#include <ATen/ATen.h>

#include <memory>
#include <optional>
#include <vector>

#include "model/config.h"

namespace tributary::model {

at::ScalarType scalar_type(Precision precision);

// Part of a contribution: the gradient of consecutive parameters, or of some rows of one matrix.
struct GradientPiece {
  std::uint64_t offset = 0;             // of the first element in the stage's flat vector
  at::Tensor values;                    // contiguous, fp32 or the compute type
  std::vector<std::int32_t> rows = {};  // not empty: values [rows, width] belong to these rows, ascending, of a matrix
};
using Gradients = std::vector<GradientPiece>;

struct BatchSize {
  std::int64_t batch = 1, sequence = 1;
  std::int64_t rows() const { return batch * sequence; }
};

// What a block's backward pass needs of its forward pass.
struct BlockSaved {
  at::Tensor x, rstd1, mean1, a, q, k, v, attention, highest, inverse, x2, rstd2, mean2, b, wide, h;
};
struct StageSaved {
  std::vector<BlockSaved> blocks;
};

struct StageOptions {
  Config config;
  StageCut cut;
  StageId stage;
  Precision precision = Precision::kFp32;
  BatchSize size;
  bool recompute = false;  // keep only each block's input, and run its forward pass again in the backward pass
  // Of activations and of the weights for computing. Elsewhere than on the CPU portable.h does what the kernels do.
  at::Device device = at::kCPU;
};

// Stages 1..S.
class BlockStage {
 public:
  explicit BlockStage(const StageOptions& options);
  ~BlockStage();
  // Takes the weights that follow passes use. `flat` must live as long as they do (norms and biases are read from it).
  void set_weights(const float* flat);
  // x [N, H] in the compute type -> the same shape. Fills `saved` unless it is null.
  at::Tensor forward(const at::Tensor& x, StageSaved* saved) const;
  // Consumes `saved` block by block. dy [N, H] -> dx; appends the gradients of all parameters.
  at::Tensor backward(StageSaved& saved, const at::Tensor& dy, Gradients& gradients) const;

 private:
  struct Block;
  // x + delta (delta may be undefined) -> s, and what the block adds to s.x2.
  void run_block(const Block& block, const at::Tensor& x, const at::Tensor& delta, BlockSaved& s,
                 at::Tensor& out_delta) const;

  StageOptions options_;
  StageLayout layout_;
  at::Tensor cosine_, sine_;     // [sequence, D / 2], llama
  const float* flat_ = nullptr;  // on the device
  at::Tensor moved_;             // the flat vector there, if that is not the CPU
  at::Tensor weights_;           // the flat vector in the compute type
  std::vector<Block> blocks_;
};

// Stage 0.
class EndStage {
 public:
  explicit EndStage(const StageOptions& options);
  void set_weights(const float* flat);
  // tokens: N ids, all below the vocabulary -> [N, H].
  at::Tensor embed(const std::int32_t* tokens) const;
  void embed_backward(const std::int32_t* tokens, const at::Tensor& dx, Gradients& gradients) const;
  struct HeadResult {
    double loss = 0;  // mean over the N tokens, in nats
    at::Tensor dx;
  };
  // The gradient of gradient_scale * (sum of token losses). Logits are made and used in chunks of rows.
  HeadResult head(const at::Tensor& x, const std::int32_t* targets, double gradient_scale, Gradients& gradients) const;
  double loss(const at::Tensor& x, const std::int32_t* targets) const;
  at::Tensor logits(const at::Tensor& x) const;  // [N, V] in the compute type, for tests and small uses

 private:
  HeadResult run(const at::Tensor& x, const std::int32_t* targets, double scale, Gradients* gradients) const;
  // For portable.h: a matrix of fp32 weights, and ids, where the device can read them.
  at::Tensor table(const char* name, std::int64_t rows) const;
  at::Tensor on_device(const std::int32_t* tokens, std::int64_t count) const;
  struct Normed {
    at::Tensor out, rstd, mean;
  };
  Normed norm(const at::Tensor& x) const;

  StageOptions options_;
  StageLayout layout_;
  const float* flat_ = nullptr;  // on the device
  at::Tensor moved_;             // the flat vector there, if that is not the CPU
  at::Tensor head_;              // [V, H] in the compute type
};

}  // namespace tributary::model
