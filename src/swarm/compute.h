// The tensor work of a node, as the protocol sees it: tasks in, results out. The protocol owns no tensor and waits for
// nothing; a host (the process, or the simulated world) runs the tasks of one node one at a time, in the order in which
// the protocol issued them, and reports each result as an event.
//
// Units of state and of work:
//   stage  0..S   what a node holds: 0 is the data nodes' (embedding, final norm and head), s the s-th slice of blocks.
//                 Its parameters are one flat fp32 vector of state_size(stage) elements, the same layout everywhere.
//   part   0..S+1 what a microbatch contributes to: 0 the embedding, s stage s, S+1 the head. Parts 0 and S+1 are
//   folded
//                 apart but into the one sum of stage 0 (with tied weights, into the same elements of it).
//
// A contribution is the gradient of (sum of the microbatch's token losses) / (M * tokens per microbatch): a sum over
// all M microbatches is the gradient of the iteration's mean loss.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"

namespace tributary::swarm {

enum class TaskKind : std::uint8_t {
  // Pipeline. Payloads in and out are encoded as on the wire; each computes from the decoded payload.
  kEmbed,          // (iteration, microbatch)                  -> output: activation for stage 1
  kForward,        // input: activation of stage-1             -> output: activation of stage
  kHead,           // input: activation of stage S             -> output: its gradient; loss; contribution to part S+1
  kBackward,       // input, gradient                          -> output: gradient of input; contribution to part stage
  kEmbedBackward,  // gradient of kEmbed's output              -> contribution to part 0
  // A contribution is held aside, by (iteration, microbatch, part), until one of these names it.
  kFold,     // add it to the stage's sum of that iteration
  kDiscard,  // forget it
  kRetract,  // input, gradient as for the task that made it: compute it again and subtract it from the sum
  // Aggregation. `range` is in elements of the stage's flat vector.
  kPartial,       // this node's sum over range               -> output: encoded partial sum (8 or 4 bytes an element)
  kSumShare,      // inputs: partial sums of disjoint sets (none: zeros) -> output: encoded final gradient over range
                  // (fp32); hash
  kSetResult,     // input: what kSumShare gave, over range   -> (stored as the iteration's result)
  kFinishResult,  // every range is set                       -> hash of the result; sum_squares of it
  kApply,         // step: optimizer step over range with the iteration's result; -> hash of the new weights of range
  kForget,        // drop sums, results and contributions of iterations up to and including `iteration`
  // State. kInit and kLoad also forget the stage's sums, results and contributions of all iterations.
  kInit,        // the stage's initial weights (a function of the run's seed), zero moments
  kReadState,   // range                                    -> output: weights and both moments of range
  kWriteState,  // range, input: what kReadState gave
  kSave,        // the stage's state as checkpoint `iteration`, synced to disk -> hash of the weights
  kLoad,        // the stage's state from checkpoint `iteration`               -> hash of the weights; ok = false if
                //   there is none or it is damaged
  // Held-out batch `microbatch`, with the present weights and without a trace: by part, tokens or input -> output, as
  // encoded on the wire; the head's part -> loss, tokens.
  kEvaluate,
};

struct Range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t size() const { return end - begin; }
  auto operator<=>(const Range&) const = default;
};

// What a commit fixes of the optimizer's step, so that no replica computes it differently.
struct StepParameters {
  double learning_rate = 0;
  double gradient_scale = 1;  // clip factor times M / (microbatches not excluded)
  std::uint64_t step = 0;     // 1 for the first step: for the bias corrections
};

struct Task {
  std::uint64_t id = 0;
  TaskKind kind = TaskKind::kForward;
  StageId stage;
  PartId part;
  Iteration iteration;
  MicrobatchId microbatch;
  Payload input;
  Payload gradient;
  std::vector<Payload> inputs;
  Range range;
  StepParameters step;
};

// An input of a pipeline task that is not what the wire's type asks for (size, finite numbers): its sender's fault.
enum class BadInput : std::uint8_t { kNone, kInput, kGradient };

struct TaskResult {
  std::uint64_t id = 0;
  bool ok = true;  // false: `error` says why (a result that is not finite, a damaged checkpoint, a full disk)
  std::string error;
  BadInput bad_input = BadInput::kNone;
  Payload output;
  double loss = 0;           // kHead: mean over the microbatch's tokens
  std::uint64_t tokens = 0;  // kHead
  std::uint64_t hash = 0;
  double sum_squares = 0;
};

// Called by one thread at a time. A node holds one stage at a time unless it was built to hold all of them.
class Compute {
 public:
  virtual ~Compute() = default;
  virtual TaskResult run(const Task& task) = 0;
  // Elements of the stage's flat vector; the same on every node.
  virtual std::uint64_t state_size(StageId stage) const = 0;
};

}  // namespace tributary::swarm
