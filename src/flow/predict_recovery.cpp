// Crashes, who knows of them, and what is done about it: rules 8 and 9 of the fixed scenarios.
//
// Where the scenarios leave a case open, the natural continuation was taken: if the hop before the dead one is known to
// be dead too, the one before that is asked, and stand-ins recompute stage by stage; a request is pending at its
// receiver as a message is; if a message's sender has died as well as its receiver, the data node misses the microbatch
// after the time of detection and sends it along the path again, where each live hop answers with what it kept.
#include <limits>

#include "flow/predict_engine.h"

namespace tributary::flow {
namespace {

constexpr double kNotYet = std::numeric_limits<double>::infinity();

}  // namespace

void PredictEngine::reset_faults() {
  const std::size_t n = nodes_.size(), count = plan_->microbatches.size();
  kept_output_.assign(count * (stages_ + 2), kNone);
  kept_gradient_.assign(count * (stages_ + 2), kNone);
  holds_slot_.assign(count * (stages_ + 2), kNone);
  known_at_.assign(n * n, kNotYet);
  expected_.assign(n * n, kNotYet);
  open_.resize(count);
  for (auto& list : open_) list.clear();
  waits_restart_.assign(count, false);
  stalls_ = 0;
  for (const std::uint32_t dead : faults_->dead) {
    nodes_[dead].dead = true;
    for (std::size_t i = 0; i < n; ++i) known_at_[i * n + dead] = 0;
  }
  for (const auto& crash : faults_->crashes) schedule(crash.at_s, EventKind::kCrash, crash.node, 0);
}

std::uint32_t PredictEngine::replacement(std::uint32_t chooser, std::uint32_t stage) const {
  if (stage >= faults_->replacements.size()) return kNone;
  for (const std::uint32_t candidate : faults_->replacements[stage])
    if (!knows(chooser, candidate)) return candidate;
  return kNone;
}

void PredictEngine::crash(std::uint32_t id) {
  NodeState& node = nodes_[id];
  if (node.dead) return;
  node.dead = true;
  if (faults_->exactly_once) schedule(now_ + faults_->detection_s, EventKind::kDetection, id, id, kNone - 1);
  node.busy = false;
  node.sending = kNone;
  node.forward.clear();
  node.repair.clear();
  node.backward.clear();
  node.uplink.clear();
  for (auto& list : open_) {
    // Its sender will detect it and send again; without one, what it had not sent to others is missed too.
    const bool expected = std::any_of(list.begin(), list.end(), [&](auto index) { return messages_[index].to == id; });
    const auto lost = [&](std::uint32_t index) { return messages_[index].from == id && !messages_[index].sent; };
    if (expected) std::erase_if(list, lost);
    for (const std::uint32_t index : list) {
      const Message& message = messages_[index];
      if (message.to == id) nodes_[message.from].dead ? orphaned(index) : expect_detection(message.from, id);
      if (message.from == id && (nodes_[message.to].dead || lost(index))) orphaned(index);
    }
  }
}

void PredictEngine::orphaned(std::uint32_t message) {
  const std::uint32_t data_node = node_at(messages_[message].microbatch, 0);
  schedule(now_ + faults_->detection_s, EventKind::kDetection, data_node, message, kNone);
}

// The data node has waited for a microbatch that neither end of `index` can bring back.
void PredictEngine::missed(std::uint32_t index) {
  const Message message = messages_[index];
  auto& list = open_[message.microbatch];
  if (std::erase(list, index) == 0) return;
  const std::uint32_t data_node = node_at(message.microbatch, 0);
  for (const std::uint32_t id : {message.from, message.to})
    if (nodes_[id].dead) learn(data_node, id);
  if (faults_->recovery == BackwardRecovery::kRestart) return restart(data_node, message.microbatch);
  send_forward(data_node, message.microbatch, 1, true);
}

void PredictEngine::expect_detection(std::uint32_t id, std::uint32_t dead) {
  double& expected = expected_[id * nodes_.size() + dead];
  if (expected != kNotYet || knows(id, dead) || nodes_[id].dead) return;
  expected = now_ + faults_->detection_s;
  schedule(expected, EventKind::kDetection, id, dead);
}

// Whoever was told earlier has nothing to detect.
void PredictEngine::detected(std::uint32_t id, std::uint32_t dead) {
  if (nodes_[id].dead || known_at_[id * nodes_.size() + dead] < now_) return;
  if (trace_) trace_->detections.push_back({now_, id, dead});
  if (policy_) policy_->seen(id, dead, faults_->detection_s);
  learn(id, dead);
}

void PredictEngine::learn(std::uint32_t id, std::uint32_t dead) {
  if (knows(id, dead)) return;
  known_at_[id * nodes_.size() + dead] = now_;
  if (!nodes_[id].dead) deal_with(id, dead);
}

void PredictEngine::deal_with(std::uint32_t id, std::uint32_t dead) {
  for (std::uint32_t m = 0; m < open_.size(); ++m) {
    // A message is dealt with once, and dealing with it may add others.
    for (std::size_t k = 0; k < open_[m].size();) {
      const std::uint32_t index = open_[m][k];
      const Message message = messages_[index];
      if (message.from != id || message.to != dead) {
        ++k;
        continue;
      }
      open_[m].erase(open_[m].begin() + static_cast<std::ptrdiff_t>(k));
      withdraw(id, index);
      if (message.kind == MessageKind::kForward) send_forward(id, m, message.position, message.repair);
      if (message.kind == MessageKind::kGradient) recover_gradient(id, m, message.position);
      if (message.kind == MessageKind::kRequest) ask(id, m, message.asked);
      k = 0;
    }
  }
}

// Nothing moves any more and something launched is not done: what no rule above brings back, their data nodes miss.
// False if that has been tried after every death already.
bool PredictEngine::missed_all() {
  if (!faulty_ || stalls_++ > 4 * faults_->crashes.size()) return false;
  now_ += faults_->detection_s;
  for (std::uint32_t d = 0; d < nodes_.size(); ++d) {
    if (world_.nodes[d].stage != 0) continue;
    for (std::uint32_t dead = 0; dead < nodes_.size(); ++dead)
      if (nodes_[dead].dead) learn(d, dead);
  }
  for (std::uint32_t k = 0; k < launch_row_.size(); ++k) {
    const std::uint32_t m = launch_row_[k], d = node_at(m, 0);
    if (k >= next_launch_[d] || result_.done_s[m] != kNotYet) continue;
    open_[m].clear();
    faults_->recovery == BackwardRecovery::kRestart ? restart(d, m) : send_forward(d, m, 1, true);
  }
  // Replays whose inputs were lost on the way.
  const auto open = replays_;
  for (const Replay& each : open) replay(each.microbatch, each.stage);
  return true;
}

void PredictEngine::withdraw(std::uint32_t id, std::uint32_t message) {
  NodeState& node = nodes_[id];
  mark(id);
  if (node.sending == message) {
    node.sending = kNone;
    ++node.turn;
    return;
  }
  node.uplink.erase_if([&](const Waiting& waiting) { return waiting.message == message; });
}

void PredictEngine::recover_gradient(std::uint32_t from, std::uint32_t microbatch, std::uint32_t position) {
  faults_->recovery == BackwardRecovery::kRepair ? ask(from, microbatch, position) : restart(from, microbatch);
}

// Asks the nearest hop before `position` that is not known dead to have the work done again.
void PredictEngine::ask(std::uint32_t from, std::uint32_t microbatch, std::uint32_t position) {
  std::uint32_t hop = position - 1;
  while (hop > 0 && knows(from, node_at(microbatch, hop))) --hop;
  const std::uint32_t to = node_at(microbatch, hop);
  const auto index = static_cast<std::uint32_t>(messages_.size());
  messages_.push_back({from, to, microbatch, hop, MessageKind::kRequest, true, hop + 1, now_, true});
  const double takes = from == to ? 0 : world_.latency(from, to);
  schedule(now_ + takes, EventKind::kControl, to, index);
  if (hop == 0) return;
  open_[microbatch].push_back(index);
  if (nodes_[to].dead) expect_detection(from, to);
}

void PredictEngine::asked(Message request) {
  const std::size_t n = nodes_.size();
  for (std::uint32_t dead = 0; dead < n; ++dead)
    if (known_at_[request.from * n + dead] <= request.enqueued_s) learn(request.to, dead);
  send_forward(request.to, request.microbatch, request.asked, true);
}

void PredictEngine::restart(std::uint32_t from, std::uint32_t microbatch) {
  if (waits_restart_[microbatch]) return;
  waits_restart_[microbatch] = true;
  open_[microbatch].clear();
  const std::uint32_t data_node = node_at(microbatch, 0);
  --nodes_[data_node].held;
  for (std::uint32_t s = 1; s <= stages_ + 1; ++s) {
    slot(kept_output_, microbatch, s) = slot(kept_gradient_, microbatch, s) = kNone;
    std::uint32_t& holder = slot(holds_slot_, microbatch, s);
    if (holder == kNone) continue;
    --nodes_[holder].held;
    given_[holder] = std::max(0, given_[holder] - 1);
    mark(holder);
    holder = kNone;
  }
  if (policy_) ask_again();
  const double takes = from == data_node ? 0 : world_.latency(from, data_node);
  schedule(now_ + takes, EventKind::kControl, data_node, microbatch, kNone);
  const std::size_t n = nodes_.size();
  for (std::uint32_t dead = 0; dead < n; ++dead)
    if (knows(from, dead))
      for (std::uint32_t id = 0; id < n; ++id) learn(id, dead);
}

// `sender` has transmitted `sent`: what it was sent before, for that microbatch, is no longer pending.
void PredictEngine::close_messages(std::uint32_t sender, std::uint32_t sent) {
  std::erase_if(open_[messages_[sent].microbatch],
                [&](std::uint32_t index) { return messages_[index].to == sender && index < sent; });
}

}  // namespace tributary::flow
