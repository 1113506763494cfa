// What a node computes of the microbatches that pass through it: which task is next, and what follows from its result.
#include <algorithm>
#include <utility>

#include "swarm/pipeline.h"

namespace tributary::swarm {

void Pipeline::queue(Work& work, bool backward) {
  (backward ? work.backward_queued : work.forward_queued) = true;
  ready_.push_back({{work.part, work.microbatch}, backward});
}

// First in, first out; a forward that finds no slot is passed over. Stand-ins need no slot: a repair must never wait
// for one that is held by what waits for the repair.
void Pipeline::pump() {
  while (context_.pipeline_idle()) {
    const auto at = std::find_if(ready_.begin(), ready_.end(), [&](const Ready& ready) {
      const auto found = works_.find(ready.key);
      if (found == works_.end() || ready.backward || stage_ == StageId(0)) return true;
      return found->second.repair || found->second.holds_slot || slots_used_ < context_.options.slots;
    });
    if (at == ready_.end()) return;
    const auto next = *at;
    ready_.erase(at);
    const auto found = works_.find(next.key);
    if (found == works_.end()) continue;
    next.backward ? start_backward(found->second) : start_forward(found->second);
  }
}

Task Pipeline::task_for(const Work& work, TaskKind kind) const {
  Task task;
  task.kind = kind;
  task.stage = stage_;
  task.part = work.part;
  task.iteration = context_.ledger.iteration;
  task.microbatch = work.microbatch;
  if (kind != TaskKind::kEmbed && work.part != PartId(0)) task.input = work.act_in;
  if (kind != TaskKind::kEmbed && kind != TaskKind::kForward) task.gradient = work.grad_in;
  return task;
}

void Pipeline::start_forward(Work& work) {
  const auto kind = work.part == PartId(0)              ? TaskKind::kEmbed
                    : work.part == context_.head_part() ? TaskKind::kHead
                                                        : TaskKind::kForward;
  if (kind == TaskKind::kForward && !work.holds_slot) {
    work.holds_slot = true;
    ++slots_used_;
  }
  const Key key{work.part, work.microbatch};
  context_.run(task_for(work, kind), [this, key](const TaskResult& result) { finished(key, result, false); });
}

void Pipeline::start_backward(Work& work) {
  const auto kind = work.part == PartId(0) ? TaskKind::kEmbedBackward : TaskKind::kBackward;
  const Key key{work.part, work.microbatch};
  context_.run(task_for(work, kind), [this, key](const TaskResult& result) { finished(key, result, true); });
}

void Pipeline::finished(Key key, const TaskResult& result, bool backward) {
  const auto at = works_.find(key);
  if (at == works_.end()) return pump();
  auto& work = at->second;
  if (!result.ok && ask_another(work, result, backward)) return advance(work);
  if (!result.ok) {
    bad_.insert(work.microbatch);
    release_slot(work);
    on_change();
    return pump();
  }
  const bool head = work.part == context_.head_part();
  if (!backward) {
    work.forward_done = true;
    if (head) {
      work.loss = result.loss;
      work.tokens = result.tokens;
      work.grad_out = result.output;
    } else if (!work.act_out) {
      work.act_out = result.output;
    }
  } else {
    if (work.part != PartId(0)) work.grad_out = result.output;
    release_slot(work);
  }
  if (backward || head) settle(work);
  advance(work);
}

// What came from a neighbour is no tensor that an honest node sends. False: nobody else has it, or the fault is none of
// a neighbour's; then the microbatch is bad.
bool Pipeline::ask_another(Work& work, const TaskResult& result, bool backward) {
  if (result.bad_input == BadInput::kNone) return false;
  const bool upstream = result.bad_input == BadInput::kInput;
  const auto part = upstream ? before(work.part) : after(work.part);
  const auto sender = work.hops[part.value()];
  context_.effects->emplace_back(Distrusted{sender, result.error});
  work.avoid.insert(sender);
  if (context_.replacement(part, work.microbatch, work.avoid) == wire::kNobody) return false;
  if (upstream) {
    work.act_in = nullptr;
    work.prev_asked = false;
    work.grad_waiters.erase(sender);
    work.grad_sent.erase(sender);
  } else {
    work.grad_in = nullptr;
    work.next_engaged = false;
    work.act_waiters.erase(sender);
    work.act_sent.erase(sender);
  }
  (backward ? work.backward_queued : work.forward_queued) = false;
  return true;
}

// The contribution exists: fold it if it is this node's to fold. From here on it is the protocol's fact.
void Pipeline::settle(Work& work) {
  const auto key = key_of(work);
  work.done = true;
  const bool wanted = wants_fold(key) && !folded_.contains(key) && !excluded(work.microbatch);
  context_.run(task_for(work, wanted ? TaskKind::kFold : TaskKind::kDiscard), nullptr);
  if (!wanted) return;
  if (context_.bugs.fold_twice && key % 7 == 3) {
    const auto kind = work.part == context_.head_part() ? TaskKind::kHead
                      : work.part == PartId(0)          ? TaskKind::kEmbedBackward
                                                        : TaskKind::kBackward;
    context_.run(task_for(work, kind),
                 [this, fold = task_for(work, TaskKind::kFold)](const TaskResult&) { context_.run(fold, nullptr); });
  }
  folded_.insert(key);
  if (work.part == PartId(0)) {
    launched_open_ = std::max(0, launched_open_ - 1);
    launch();
  }
  if (context_.bugs.free_early) work.act_in = work.act_out = work.grad_in = nullptr;
  on_change();
}

void Pipeline::release_slot(Work& work) {
  if (!std::exchange(work.holds_slot, false)) return;
  --slots_used_;
}

void Pipeline::retract(std::uint32_t key) {
  const auto m = context_.microbatches();
  const auto part = stage_ != StageId(0) ? PartId(stage_.value()) : key < m ? PartId(0) : context_.head_part();
  const auto at = works_.find({part, MicrobatchId(key % m)});
  TRIBUTARY_CHECK(at != works_.end() && folded_.erase(key) == 1, "retracting what is not folded");
  ++context_.counters.retractions;
  if (!context_.bugs.skip_retract) context_.run(task_for(at->second, TaskKind::kRetract), nullptr);
  on_change();
}

}  // namespace tributary::swarm
