#include "sim/serial_reference.h"

#include <algorithm>
#include <utility>

namespace tributary::sim {

using swarm::Task;
using swarm::TaskKind;
using swarm::TaskResult;

SerialReference::SerialReference(SerialOptions options) : options_(std::move(options)) {
  for (std::uint16_t s = 0; s <= options_.stages; ++s) {
    computes_.push_back(options_.make_compute(StageId(s)));
    Task task;
    task.kind = TaskKind::kInit;
    task.stage = StageId(s);
    at(task.stage).run(task);
  }
}

// Forward, backward, and all contributions folded, or none of them if any result is not finite.
bool SerialReference::microbatch(Iteration iteration, MicrobatchId microbatch) {
  const std::uint16_t head = options_.stages + 1;
  Task task;
  task.iteration = iteration;
  task.microbatch = microbatch;
  bool finite = true;
  const auto run = [&](TaskKind kind, std::uint16_t part, Payload input, Payload gradient) -> Payload {
    if (!finite) return nullptr;
    task.kind = kind;
    task.part = PartId(part);
    task.stage = stage_of(part);
    task.input = std::move(input);
    task.gradient = std::move(gradient);
    const auto result = at(task.stage).run(task);
    finite = result.ok;
    return result.output;
  };
  std::vector<Payload> inputs(head + 1u);
  inputs[1] = run(TaskKind::kEmbed, 0, nullptr, nullptr);
  for (std::uint16_t s = 1; s < head; ++s) inputs[s + 1u] = run(TaskKind::kForward, s, inputs[s], nullptr);
  auto gradient = run(TaskKind::kHead, head, inputs[head], nullptr);
  for (std::uint16_t s = options_.stages; s >= 1; --s) gradient = run(TaskKind::kBackward, s, inputs[s], gradient);
  run(TaskKind::kEmbedBackward, 0, nullptr, gradient);

  task.input = task.gradient = nullptr;
  task.kind = finite ? TaskKind::kFold : TaskKind::kDiscard;
  for (std::uint16_t part = 0; part <= head; ++part) {
    task.part = PartId(part);
    task.stage = stage_of(part);
    at(task.stage).run(task);
  }
  return finite;
}

double SerialReference::evaluate() {
  double sum = 0;
  for (std::uint32_t batch = 0; batch < options_.evaluate_batches; ++batch) {
    Task task;
    task.kind = TaskKind::kEvaluate;
    task.microbatch = MicrobatchId(batch);
    for (std::uint16_t part = 0; part <= options_.stages + 1; ++part) {
      task.part = PartId(part);
      task.stage = stage_of(part);
      const auto result = at(task.stage).run(task);
      task.input = result.output;
      if (part == options_.stages + 1) sum += result.loss;
    }
  }
  return sum / std::max<std::uint32_t>(1, options_.evaluate_batches);
}

void SerialReference::advance() {
  const Iteration iteration(hashes_.size());
  held_out_.push_back(evaluate());
  std::uint32_t used = 0;
  for (std::uint32_t m = 0; m < options_.microbatches; ++m) used += microbatch(iteration, MicrobatchId(m));
  double sum_squares = 0;
  const auto whole = [&](TaskKind kind, std::uint16_t stage) {
    Task task;
    task.kind = kind;
    task.iteration = iteration;
    task.stage = StageId(stage);
    task.range = {0, at(task.stage).state_size(task.stage)};
    return task;
  };
  for (std::uint16_t s = 0; s <= options_.stages; ++s) {
    const auto partial = at(StageId(s)).run(whole(TaskKind::kPartial, s));
    auto sum = whole(TaskKind::kSumShare, s);
    sum.inputs = {partial.output};
    auto result = whole(TaskKind::kSetResult, s);
    result.input = at(StageId(s)).run(sum).output;
    at(StageId(s)).run(result);
    sum_squares += at(StageId(s)).run(whole(TaskKind::kFinishResult, s)).sum_squares;
  }
  hashes_.emplace_back();
  for (std::uint16_t s = 0; s <= options_.stages; ++s) {
    auto apply = whole(TaskKind::kApply, s);
    apply.step = options_.step(iteration, sum_squares, used);
    hashes_.back().push_back(at(StageId(s)).run(apply).hash);
    at(StageId(s)).run(whole(TaskKind::kForget, s));
  }
}

double SerialReference::held_out_before(Iteration iteration) {
  while (held_out_.size() <= iteration.value()) advance();
  return held_out_[iteration.value()];
}

std::uint64_t SerialReference::hash_after(Iteration iteration, StageId stage) {
  while (hashes_.size() <= iteration.value()) advance();
  return hashes_[iteration.value()][stage.value()];
}

}  // namespace tributary::sim
