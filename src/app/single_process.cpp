#include "app/single_process.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"

namespace tributary::app {

using swarm::Task;
using swarm::TaskKind;
using swarm::TaskResult;

SingleProcess::SingleProcess(swarm::Compute& compute, const RunConfig& config, std::uint16_t stages)
    : compute_(compute), config_(config), stages_(stages) {}

Result<TaskResult> SingleProcess::task(Task task) {
  task.id = next_id_++;
  const auto begin = std::chrono::steady_clock::now();
  auto result = compute_.run(task);
  seconds_[task.kind] += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!result.ok) return Error{"stage " + to_string(task.stage) + ": " + result.error};
  return result;
}

Result<void> SingleProcess::initialise() {
  for (std::uint16_t stage = 0; stage <= stages_; ++stage) {
    Task init;
    init.kind = TaskKind::kInit;
    init.stage = StageId(stage);
    if (auto done = task(init); !done) return done.error();
  }
  return {};
}

Result<void> SingleProcess::load(Iteration checkpoint) {
  for (std::uint16_t stage = 0; stage <= stages_; ++stage) {
    Task load;
    load.kind = TaskKind::kLoad;
    load.stage = StageId(stage);
    load.iteration = checkpoint;
    if (auto done = task(load); !done) return done.error();
  }
  return {};
}

Result<void> SingleProcess::save(Iteration checkpoint) {
  for (std::uint16_t stage = 0; stage <= stages_; ++stage) {
    Task save;
    save.kind = TaskKind::kSave;
    save.stage = StageId(stage);
    save.iteration = checkpoint;
    if (auto done = task(save); !done) return done.error();
  }
  return {};
}

Result<SingleProcess::Microbatch> SingleProcess::compute_microbatch(Iteration iteration, MicrobatchId microbatch) {
  Task base;
  base.iteration = iteration;
  base.microbatch = microbatch;
  const auto run = [&](TaskKind kind, std::uint16_t stage, Payload input, Payload gradient) {
    Task next = base;
    next.kind = kind;
    next.stage = StageId(stage);
    next.input = std::move(input);
    next.gradient = std::move(gradient);
    return task(std::move(next));
  };
  std::vector<Payload> inputs(stages_ + 1u);  // by stage: what its forward pass got
  auto result = run(TaskKind::kEmbed, 0, nullptr, nullptr);
  if (!result) return result.error();
  for (std::uint16_t stage = 1; stage <= stages_; ++stage) {
    inputs[stage] = result->output;
    result = run(TaskKind::kForward, stage, inputs[stage], nullptr);
    if (!result) return result.error();
  }
  result = run(TaskKind::kHead, 0, result->output, nullptr);
  if (!result) return result.error();
  const Microbatch done{result->loss, result->tokens};
  for (std::uint16_t stage = stages_; stage >= 1; --stage) {
    result = run(TaskKind::kBackward, stage, inputs[stage], result->output);
    if (!result) return result.error();
  }
  result = run(TaskKind::kEmbedBackward, 0, nullptr, result->output);
  if (!result) return result.error();
  return done;
}

// Folds or discards all parts of a microbatch: head, stages from the last to the first, embedding.
Result<void> SingleProcess::settle(Iteration iteration, MicrobatchId microbatch, TaskKind kind) {
  for (int part = stages_ + 1; part >= 0; --part) {
    Task settle;
    settle.kind = kind;
    settle.stage = StageId(static_cast<std::uint16_t>(part > stages_ ? 0 : part));
    settle.part = PartId(static_cast<std::uint16_t>(part));
    settle.iteration = iteration;
    settle.microbatch = microbatch;
    if (auto done = task(settle); !done) return done.error();
  }
  return {};
}

// The iteration's result of every stage; returns the sum of squares over stages in order.
Result<double> SingleProcess::reduce(Iteration iteration) {
  double sum_squares = 0;
  for (std::uint16_t stage = 0; stage <= stages_; ++stage) {
    Task base;
    base.stage = StageId(stage);
    base.iteration = iteration;
    base.range = {0, compute_.state_size(base.stage)};
    Task partial = base;
    partial.kind = TaskKind::kPartial;
    auto result = task(partial);
    if (!result) return result.error();
    Task share = base;
    share.kind = TaskKind::kSumShare;
    share.inputs = {result->output};
    result = task(std::move(share));
    if (!result) return result.error();
    Task set = base;
    set.kind = TaskKind::kSetResult;
    set.input = result->output;
    if (result = task(std::move(set)); !result) return result.error();
    Task finish = base;
    finish.kind = TaskKind::kFinishResult;
    result = task(finish);
    if (!result) return result.error();
    sum_squares += result->sum_squares;
  }
  return sum_squares;
}

Result<IterationReport> SingleProcess::run(Iteration iteration) {
  IterationReport report;
  const std::uint32_t microbatches = config_.training.microbatches;
  std::uint32_t used = 0;
  std::string last_fault;
  for (std::uint32_t m = 0; m < microbatches; ++m) {
    auto done = compute_microbatch(iteration, MicrobatchId(m));
    const auto kind = done ? TaskKind::kFold : TaskKind::kDiscard;
    if (auto settled = settle(iteration, MicrobatchId(m), kind); !settled) return settled.error();
    if (!done) {
      ++report.excluded;
      last_fault = done.error().message;
      log::warning("microbatch-excluded", {{"iteration", iteration}, {"microbatch", m}, {"why", last_fault}});
      continue;
    }
    ++used;
    report.loss += done->loss;
    report.tokens += done->tokens;
  }
  if (used == 0) {
    return Error{"every microbatch of iteration " + to_string(iteration) + " failed (" + last_fault +
                 "); lower training.learning_rate, or take training.precision = \"fp32\""};
  }
  report.loss /= used;
  auto sum_squares = reduce(iteration);
  if (!sum_squares) return sum_squares.error();
  const auto step =
      swarm::step_parameters(config_.step(), iteration, *sum_squares, used, microbatches, &report.gradient_norm);
  report.learning_rate = step.learning_rate;
  for (std::uint16_t stage = 0; stage <= stages_; ++stage) {
    Task apply;
    apply.kind = TaskKind::kApply;
    apply.stage = StageId(stage);
    apply.iteration = iteration;
    apply.range = {0, compute_.state_size(apply.stage)};
    apply.step = step;
    if (auto done = task(apply); !done) return done.error();
    Task forget;
    forget.kind = TaskKind::kForget;
    forget.stage = StageId(stage);
    forget.iteration = iteration;
    if (auto done = task(forget); !done) return done.error();
  }
  return report;
}

std::string SingleProcess::time_shares() const {
  const auto sum = [&](std::initializer_list<TaskKind> kinds) {
    double total = 0;
    for (const auto kind : kinds) {
      if (const auto found = seconds_.find(kind); found != seconds_.end()) total += found->second;
    }
    return total;
  };
  std::vector<std::pair<double, const char*>> shares = {
      {sum({TaskKind::kForward}), "forward"},
      {sum({TaskKind::kBackward}), "backward"},
      {sum({TaskKind::kHead}), "head and loss"},
      {sum({TaskKind::kEmbed, TaskKind::kEmbedBackward}), "embedding"},
      {sum({TaskKind::kFold, TaskKind::kDiscard}), "folding"},
      {sum({TaskKind::kPartial, TaskKind::kSumShare, TaskKind::kSetResult, TaskKind::kFinishResult}), "reduction"},
      {sum({TaskKind::kApply, TaskKind::kForget}), "optimizer"}};
  double total = 0;
  for (const auto& [seconds, name] : shares) total += seconds;
  std::sort(shares.begin(), shares.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (const auto& [seconds, name] : shares) {
    char share[64];
    std::snprintf(share, sizeof share, "%s%s %.1f %%", text.empty() ? "" : ", ", name,
                  total > 0 ? 100 * seconds / total : 0);
    text += share;
  }
  return text;
}

}  // namespace tributary::app
