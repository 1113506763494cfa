// What a dead relay had done is done again (PredictFaults::exactly_once), and what a policy let wait is asked again.
#include <limits>

#include "flow/predict_engine.h"

namespace tributary::flow {

// Microbatches, parts to be done again, and with exactly_once the crashes that would still cost parts.
bool PredictEngine::unfinished() const {
  if (done_ < plan_->microbatches.size() || !replays_.empty()) return true;
  if (!faulty_ || !faults_->exactly_once) return false;
  for (const Event& event : events_) {
    if (event.kind == EventKind::kDetection && event.turn == kNone - 1) return true;
    if (event.kind != EventKind::kCrash || nodes_[event.node].dead) continue;
    const std::uint32_t stage = world_.nodes[event.node].stage;
    const double start = plan_->aggregate_per_stage ? result_.stage_end_s[stage - 1] : now_;
    if (event.at < start + const_cast<PredictEngine*>(this)->aggregation(stage)) return true;
  }
  return false;
}

void PredictEngine::replay_for(std::uint32_t dead) {
  const std::uint32_t stage = world_.nodes[dead].stage;
  for (auto& each : replays_)
    if (each.node == dead) each.node = kNone;
  // Inputs that it had not sent to others are sent by somebody else.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> again;
  for (const Message& message : messages_)
    if (message.kind == MessageKind::kReplay && message.from == dead && !message.sent)
      for (const Replay& each : replays_)
        if (each.microbatch == message.microbatch && each.stage == message.position && each.inputs < 2)
          again.emplace_back(each.microbatch, each.stage);
  for (const auto& [microbatch, other] : again)
    if (other != stage) replay(microbatch, other);
  for (std::uint32_t m = 0; m < plan_->microbatches.size(); ++m) {
    const bool open = std::any_of(replays_.begin(), replays_.end(), [&](const Replay& each) {
      return each.microbatch == m && each.stage == stage && each.node == kNone;
    });
    if (open || slot(kept_gradient_, m, stage) == dead) replay(m, stage);
  }
}

// The relay that would be free first gets both inputs; where a neighbour is dead too, its data node sends instead.
void PredictEngine::replay(std::uint32_t microbatch, std::uint32_t stage) {
  std::erase_if(replays_, [&](const Replay& each) { return each.microbatch == microbatch && each.stage == stage; });
  std::uint32_t best = kNone;
  double least = std::numeric_limits<double>::infinity();
  for (const std::uint32_t id : relays_[stage - 1]) {
    if (nodes_[id].dead) continue;
    const auto given = std::count_if(replays_.begin(), replays_.end(), [&](const Replay& r) { return r.node == id; });
    const double waits = world_.nodes[id].forward_s * (static_cast<double>(given) + nodes_[id].held + 1);
    if (waits < least) least = waits, best = id;
  }
  if (best == kNone) return;
  replays_.push_back({microbatch, stage, best, 0});
  slot(kept_gradient_, microbatch, stage) = kNone;
  for (const std::uint32_t position : {stage - 1, stage + 1}) {
    std::uint32_t from = node_at(microbatch, position);
    if (nodes_[from].dead) from = node_at(microbatch, 0);
    const auto index = static_cast<std::uint32_t>(messages_.size());
    messages_.push_back({from, best, microbatch, stage, MessageKind::kReplay, true, 0, now_});
    nodes_[from].uplink.push({now_, plan_->microbatches[microbatch].id, index});
    mark(from);
  }
}

void PredictEngine::replay_arrived(std::uint32_t id, std::uint32_t microbatch, std::uint32_t stage) {
  for (auto& each : replays_)
    if (each.microbatch == microbatch && each.stage == stage && each.node == id && ++each.inputs == 2) {
      nodes_[id].repair.push({now_, plan_->microbatches[microbatch].id, microbatch, stage, 'R', true});
      mark(id);
    }
}

void PredictEngine::replayed(std::uint32_t id, const Task& task) {
  const auto erased = std::erase_if(replays_, [&](const Replay& each) {
    return each.microbatch == task.microbatch && each.stage == task.position && each.node == id;
  });
  if (erased == 0) return;
  slot(kept_gradient_, task.microbatch, task.position) = id;
  double& end = result_.stage_end_s[task.position - 1];
  end = std::max(end, now_);
}

void PredictEngine::ask_again() {
  std::vector<Parked> parked;
  parked.swap(parked_);
  for (const Parked& each : parked)
    if (!nodes_[each.from].dead) send_forward(each.from, each.microbatch, each.position, each.repair);
}

}  // namespace tributary::flow
