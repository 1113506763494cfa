#include "swarm/evaluation.h"

#include <algorithm>
#include <utility>

namespace tributary::swarm {

void Evaluation::begin(bool member, StageId stage) {
  member_ = member;
  stage_ = stage;
  missing_.clear();
  losses_.clear();
  computed_.clear();
  const auto& run = context_.options.run;
  if (!member || stage != StageId(0) || run.evaluate_every == 0 || run.evaluate_batches == 0) return;
  const auto& ledger = context_.ledger;
  // A new life, or a run that went back to a checkpoint: what was due before this iteration is not made up for.
  if (last_done_ == kUnknown || ledger.iteration.value() < last_done_)
    last_done_ = ledger.iteration.value() == 0 ? 0 : ledger.iteration.value() - 1;
  // Due is the newest multiple of evaluate_every; a later iteration stands in for one that ended too soon.
  const auto due = ledger.iteration.value() / run.evaluate_every * run.evaluate_every;
  if (due == 0 || last_done_ >= due) return;
  for (const auto& other : ledger.plan.members)
    if (other.stage == StageId(0) && !other.listener && other.node < context_.options.self) return;
  std::vector<const std::vector<NodeId>*> ways;
  for (const auto& path : ledger.plan.paths)
    if (path.front() == context_.options.self) ways.push_back(&path);
  if (ways.empty()) return;
  for (std::uint32_t batch = 0; batch < run.evaluate_batches; ++batch) missing_[batch] = *ways[batch % ways.size()];
  for (std::uint32_t batch = 0; batch < run.evaluate_batches; ++batch) send_out(batch);
}

void Evaluation::send_out(std::uint32_t batch) {
  sent_at_ = context_.now;
  compute(PartId(0), batch, missing_.at(batch), nullptr);
}

void Evaluation::receive(NodeId, const wire::Evaluate& message, Payload payload) {
  const bool fits = member_ && payload && message.part > PartId(0) && message.part <= context_.head_part() &&
                    context_.stage_of(message.part) == stage_ && message.path.size() == context_.stages() + 2u &&
                    message.batch < kMostBatches;
  if (!fits || (message.part == context_.head_part() && !missing_.contains(message.batch))) {
    ++context_.counters.dropped;
    return;
  }
  compute(message.part, message.batch, message.path, std::move(payload));
}

void Evaluation::compute(PartId part, std::uint32_t batch, std::vector<NodeId> path, Payload input) {
  auto& times = computed_[{part, batch}];
  if (times >= kMostOfOne) return;
  ++times;
  Task task;
  task.kind = TaskKind::kEvaluate;
  task.stage = stage_;
  task.part = part;
  task.iteration = context_.ledger.iteration;
  task.microbatch = MicrobatchId(batch);
  task.input = std::move(input);
  context_.run(task, [this, part, batch, path = std::move(path), stamp = context_.stamp()](const TaskResult& result) {
    if (stamp != context_.stamp() || !member_ || !result.ok) return;
    if (part != context_.head_part()) {
      forward(PartId(static_cast<std::uint16_t>(part.value() + 1)), batch, path, result.output);
      return;
    }
    if (missing_.erase(batch) == 0) return;
    losses_[batch] = result.loss;
    if (waiting()) return;
    last_done_ = context_.ledger.iteration.value();
    double sum = 0;
    for (const auto& [of, loss] : losses_) sum += loss;
    context_.effects->emplace_back(Evaluated{context_.ledger.iteration, sum / static_cast<double>(losses_.size())});
  });
}

void Evaluation::forward(PartId to, std::uint32_t batch, std::vector<NodeId> path, const Payload& output) {
  auto& hop = path[to.value()];
  if (!context_.usable(hop, context_.stage_of(to))) hop = context_.replacement(to, MicrobatchId(batch), {});
  if (hop == wire::kNobody) return;
  if (hop == context_.options.self) return compute(to, batch, std::move(path), output);
  const auto next = hop;
  context_.send(next, wire::Evaluate{context_.stamp(), batch, to, std::move(path)}, output);
}

void Evaluation::peer_lost(NodeId peer) {
  std::vector<std::uint32_t> lost;
  for (const auto& [batch, path] : missing_)
    if (std::find(path.begin(), path.end(), peer) != path.end()) lost.push_back(batch);
  for (const auto batch : lost) send_out(batch);
}

void Evaluation::tick() {
  if (!waiting() || context_.now < next_wake()) return;
  ++context_.counters.retries;
  std::vector<std::uint32_t> lost;
  for (const auto& [batch, path] : missing_) lost.push_back(batch);
  sent_at_ = context_.now;
  for (const auto batch : lost) send_out(batch);
}

Time Evaluation::next_wake() const { return waiting() ? sent_at_ + context_.options.pace.retry_first : kNever; }

void Evaluation::add_awaited(std::vector<NodeId>& peers) const {
  for (const auto& [batch, path] : missing_) peers.insert(peers.end(), path.begin() + 1, path.end() - 1);
}

}  // namespace tributary::swarm
