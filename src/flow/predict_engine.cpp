#include "flow/predict_engine.h"

#include <limits>

namespace tributary::flow {

PredictEngine::PredictEngine(const PredictWorld& world) : world_(world), stages_(world.stages()) {
  const std::size_t n = world.nodes.size();
  nodes_.resize(n);
  transfer_s_.resize(n * n);
  for (std::size_t k = 0; k < n * n; ++k)
    transfer_s_[k] = world.message_bytes > 0 ? world.message_bytes / world.bandwidth_Bps[k] : 0;
  restage();
}

void PredictEngine::restage() {
  relays_.assign(stages_, {});
  for (std::uint32_t id = 0; id < world_.nodes.size(); ++id)
    if (const std::uint32_t stage = world_.nodes[id].stage; stage > 0) relays_[stage - 1].push_back(id);
  for (auto& known : aggregation_s_) known.assign(stages_, -1);
}

const Prediction& PredictEngine::run(const PredictPlan& plan, const PredictFaults& faults, PredictTrace* trace,
                                     PredictPolicy* policy) {
  policy_ = policy;
  plan_ = &plan;
  faults_ = &faults;
  trace_ = trace;
  reset();
  launch_all();
  choose();
  while (unfinished()) {
    if (events_.empty() && (!missed_all() || (choose(), events_.empty()))) break;
    now_ = events_.front().at;
    while (!events_.empty() && events_.front().at == now_) {
      std::pop_heap(events_.begin(), events_.end(), LaterEvent{});
      const Event event = events_.back();
      events_.pop_back();
      handle(event);
    }
    choose();
  }
  finish();
  return result_;
}

void PredictEngine::reset() {
  const auto& microbatches = plan_->microbatches;
  const std::size_t count = microbatches.size(), width = stages_ + 2;
  now_ = 0;
  order_ = 0;
  done_ = 0;
  events_.clear();
  messages_.clear();
  marked_.clear();
  for (auto& node : nodes_) {
    node.forward.clear();
    node.repair.clear();
    node.backward.clear();
    node.uplink.clear();
    node.sending = kNone;
    node.held = 0;
    node.busy = node.dead = node.marked = false;
  }
  path_.resize(count * width);
  for (std::uint32_t m = 0; m < count; ++m) {
    slot(path_, m, 0) = slot(path_, m, stages_ + 1) = microbatches[m].data_node;
    for (std::uint32_t s = 1; s <= stages_; ++s) slot(path_, m, s) = microbatches[m].path[s - 1];
  }
  result_.done_s.assign(count, std::numeric_limits<double>::infinity());
  result_.stage_end_s.assign(stages_, 0);
  faulty_ = !faults_->crashes.empty() || !faults_->dead.empty();
  replays_.clear();
  parked_.clear();
  given_.assign(nodes_.size(), 0);
  if (faulty_) reset_faults();
  launch_row_.resize(count);
  for (std::uint32_t m = 0; m < count; ++m) launch_row_[m] = m;
  std::sort(launch_row_.begin(), launch_row_.end(), [&](std::uint32_t a, std::uint32_t b) {
    const auto &x = microbatches[a], &y = microbatches[b];
    return x.data_node != y.data_node ? x.data_node < y.data_node : x.id < y.id;
  });
  next_launch_.assign(nodes_.size(), 0);
  end_launch_.assign(nodes_.size(), 0);
  for (std::uint32_t k = 0; k < count; ++k) {
    const std::uint32_t d = microbatches[launch_row_[k]].data_node;
    if (end_launch_[d] == 0) next_launch_[d] = k;
    end_launch_[d] = k + 1;
  }
}

std::uint32_t PredictEngine::node_at(std::uint32_t microbatch, std::uint32_t position) const {
  return path_[microbatch * (stages_ + 2) + position];
}

void PredictEngine::schedule(double at, EventKind kind, std::uint32_t node, std::uint32_t what, std::uint32_t turn) {
  if (at == std::numeric_limits<double>::infinity()) return;  // over a link that is not there
  events_.push_back({at, kind, order_++, node, what, turn});
  std::push_heap(events_.begin(), events_.end(), LaterEvent{});
}

void PredictEngine::launch_all() {
  for (std::uint32_t d = 0; d < nodes_.size(); ++d)
    if (next_launch_[d] < end_launch_[d]) launch(d);
}

// As many of a data node's microbatches as it has room for.
void PredictEngine::launch(std::uint32_t d) {
  while (next_launch_[d] < end_launch_[d] && nodes_[d].held < world_.nodes[d].capacity) {
    ++nodes_[d].held;
    send_forward(d, launch_row_[next_launch_[d]++], 1, false);
  }
}

void PredictEngine::send_forward(std::uint32_t from, std::uint32_t microbatch, std::uint32_t position, bool repair) {
  std::uint32_t to = node_at(microbatch, position);
  if (policy_ && position <= stages_ && (!repair || knows(from, to))) {
    to = policy_->choose(*this, from, microbatch, position, to);
    if (to == PredictPolicy::kWait) return parked_.push_back({from, microbatch, position, repair});
    slot(path_, microbatch, position) = to;
    ++given_[to];
  }
  if (faulty_ && position <= stages_ && knows(from, to)) {
    to = replacement(from, position);
    if (to == kNone) return;  // nobody is left: it never ends
    slot(path_, microbatch, position) = to;
  }
  enqueue(from, {from, to, microbatch, position, MessageKind::kForward, repair, 0, now_});
}

void PredictEngine::send_gradient(std::uint32_t from, std::uint32_t microbatch, std::uint32_t position) {
  const std::uint32_t to = node_at(microbatch, position);
  if (faulty_ && position > 0 && knows(from, to)) return recover_gradient(from, microbatch, position);
  enqueue(from, {from, to, microbatch, position, MessageKind::kGradient, false, 0, now_});
}

void PredictEngine::enqueue(std::uint32_t from, Message message) {
  const auto index = static_cast<std::uint32_t>(messages_.size());
  messages_.push_back(message);
  nodes_[from].uplink.push({now_, plan_->microbatches[message.microbatch].id, index});
  mark(from);
  if (!faulty_ || world_.nodes[message.to].stage == 0) return;
  open_[message.microbatch].push_back(index);
  if (nodes_[message.to].dead) expect_detection(from, message.to);
}

void PredictEngine::handle(const Event& event) {
  NodeState& node = nodes_[event.node];
  switch (event.kind) {
    case EventKind::kCrash:
      return crash(event.node);
    case EventKind::kTaskEnd:
      if (!node.dead) end_task(event.node);
      return;
    case EventKind::kSent:
      if (!node.dead && node.turn == event.turn) end_send(event.node);
      return;
    case EventKind::kDelivery:
      if (!node.dead) deliver(messages_[event.what]);
      return;
    case EventKind::kDetection:
      if (event.turn == kNone - 1) return replay_for(event.what);
      return event.turn == kNone ? missed(event.what) : detected(event.node, event.what);
    case EventKind::kControl:
      if (event.turn == kNone) {  // a restart reaches the data node
        waits_restart_[event.what] = false;
        ++node.held;
        return send_forward(event.node, event.what, 1, false);
      }
      if (!node.dead) asked(messages_[event.what]);
      return;
  }
}

void PredictEngine::end_task(std::uint32_t id) {
  NodeState& node = nodes_[id];
  const Task task = node.task;
  node.busy = false;
  mark(id);
  if (trace_)
    trace_->tasks.push_back({id, plan_->microbatches[task.microbatch].id, task.kind, node.task_start_s, now_});
  if (task.kind == 'R') return replayed(id, task);
  if (policy_ && task.kind == 'F') policy_->seen(node_at(task.microbatch, task.position - 1), id, now_ - task.since_s);
  if (faulty_ && task.kind == 'F') slot(kept_output_, task.microbatch, task.position) = id;
  if (task.kind == 'F') return send_forward(id, task.microbatch, task.position + 1, task.repair);
  bool held = task.kind == 'B';
  if (faulty_) {
    std::uint32_t& holder = slot(holds_slot_, task.microbatch, task.position);
    held = holder == id;
    holder = kNone;
    slot(kept_gradient_, task.microbatch, task.position) = id;
  }
  if (held) --node.held;
  if (task.kind == 'B') {
    given_[id] = std::max(0, given_[id] - 1);
    if (policy_) ask_again();
    double& end = result_.stage_end_s[task.position - 1];
    end = std::max(end, now_);
  }
  send_gradient(id, task.microbatch, task.position - 1);
}

void PredictEngine::end_send(std::uint32_t id) {
  NodeState& node = nodes_[id];
  const std::uint32_t index = node.sending;
  messages_[index].sent = true;
  const Message message = messages_[index];
  const double arrive = now_ + world_.latency(id, message.to);
  node.sending = kNone;
  mark(id);
  if (trace_)
    trace_->sends.push_back(
        {id, message.to, plan_->microbatches[message.microbatch].id, node.send_start_s, now_, arrive});
  schedule(arrive, EventKind::kDelivery, message.to, index);
  if (faulty_) close_messages(id, index);
}

void PredictEngine::deliver(Message message) {
  const std::uint32_t id = message.to, microbatch = message.microbatch, position = message.position;
  if (message.kind == MessageKind::kReplay) return replay_arrived(id, microbatch, position);
  if (faulty_ && result_.done_s[microbatch] <= now_) return;  // two hops had its work done again
  NodeState& node = nodes_[id];
  Task task{now_, plan_->microbatches[microbatch].id, microbatch, position, 'F', message.repair, message.enqueued_s};
  if (message.kind == MessageKind::kForward) {
    // It has done its part already: the gradient is there, or else the output.
    if (faulty_ && slot(kept_gradient_, microbatch, position) == id) return send_gradient(id, microbatch, position - 1);
    if (faulty_ && message.repair && slot(kept_output_, microbatch, position) == id)
      return send_forward(id, microbatch, position + 1, true);
    if (position > stages_) task.kind = 'H';
    (task.kind == 'F' && task.repair ? node.repair : node.forward).push(task);
  } else if (position > 0) {
    if (faulty_ && slot(kept_gradient_, microbatch, position) == id) return send_gradient(id, microbatch, position - 1);
    task.kind = 'B';
    task.repair = false;
    node.backward.push(task);
  } else {
    result_.done_s[microbatch] = now_;
    ++done_;
    --node.held;
    // Elsewhere room comes only of restarts.
    faulty_ ? launch_all() : launch(id);
    if (policy_) {
      policy_->done(microbatch);
      ask_again();
    }
  }
  mark(id);
}

void PredictEngine::mark(std::uint32_t id) {
  if (nodes_[id].marked) return;
  nodes_[id].marked = true;
  marked_.push_back(id);
}

void PredictEngine::choose() {
  for (const std::uint32_t id : marked_) {
    NodeState& node = nodes_[id];
    node.marked = false;
    if (node.dead) continue;
    if (!node.busy) choose_task(id);
    if (node.sending == kNone && !node.uplink.empty()) choose_send(id);
  }
  marked_.clear();
}

void PredictEngine::choose_task(std::uint32_t id) {
  NodeState& node = nodes_[id];
  const PredictNode& world = world_.nodes[id];
  OrderedQueue<Task>* best = nullptr;
  const auto consider = [&](OrderedQueue<Task>& queue) {
    if (!queue.empty() && (!best || queue.front() < best->front())) best = &queue;
  };
  consider(node.backward);
  if (best && plan_->order == TaskOrder::kBackwardFirst) return start(id, *best);
  consider(node.repair);
  if (world.stage == 0 || node.held < world.capacity) consider(node.forward);
  if (best) start(id, *best);
}

void PredictEngine::start(std::uint32_t id, OrderedQueue<Task>& queue) {
  NodeState& node = nodes_[id];
  const PredictNode& world = world_.nodes[id];
  node.task = queue.front();
  queue.pop();
  node.busy = true;
  node.task_start_s = now_;
  double takes = world.head_s;
  if (node.task.kind == 'R') takes = (1 + world_.backward_ratio) * world.forward_s;
  if (node.task.kind == 'B') takes = world_.backward_ratio * world.forward_s;
  if (node.task.kind == 'F') {
    takes = world.forward_s;
    if (!faulty_ || std::exchange(slot(holds_slot_, node.task.microbatch, node.task.position), id) != id) ++node.held;
  }
  schedule(now_ + takes, EventKind::kTaskEnd, id, 0);
}

void PredictEngine::choose_send(std::uint32_t id) {
  NodeState& node = nodes_[id];
  node.sending = node.uplink.front().message;
  node.uplink.pop();
  node.send_start_s = now_;
  const std::uint32_t to = messages_[node.sending].to;
  schedule(now_ + transfer_s_[id * nodes_.size() + to], EventKind::kSent, id, 0, ++node.turn);
}

void PredictEngine::finish() {
  result_.pipeline_end_s = 0;
  for (const double done : result_.done_s) result_.pipeline_end_s = std::max(result_.pipeline_end_s, done);
  for (const double end : result_.stage_end_s) result_.pipeline_end_s = std::max(result_.pipeline_end_s, end);
  result_.gradient_at.clear();
  if (faulty_)
    for (std::uint32_t m = 0; m < plan_->microbatches.size(); ++m)
      for (std::uint32_t s = 1; s <= stages_; ++s) result_.gradient_at.push_back(slot(kept_gradient_, m, s));
  result_.iteration_end_s = result_.pipeline_end_s;
  result_.aggregated_s.assign(stages_, result_.pipeline_end_s);
  if (world_.aggregation_bytes > 0)
    for (std::uint32_t s = 1; s <= stages_; ++s) {
      const double start = plan_->aggregate_per_stage ? result_.stage_end_s[s - 1] : result_.pipeline_end_s;
      result_.aggregated_s[s - 1] = start + aggregation(s);
      result_.iteration_end_s = std::max(result_.iteration_end_s, result_.aggregated_s[s - 1]);
    }
  if (!trace_) return;
  std::sort(trace_->tasks.begin(), trace_->tasks.end(), [](const auto& a, const auto& b) {
    return std::tie(a.start_s, a.node, a.end_s, a.microbatch) < std::tie(b.start_s, b.node, b.end_s, b.microbatch);
  });
  std::sort(trace_->sends.begin(), trace_->sends.end(), [](const auto& a, const auto& b) {
    return std::tie(a.start_s, a.from, a.end_s, a.microbatch) < std::tie(b.start_s, b.from, b.end_s, b.microbatch);
  });
  std::sort(trace_->detections.begin(), trace_->detections.end(), [](const auto& a, const auto& b) {
    return std::tie(a.at_s, a.node, a.dead) < std::tie(b.at_s, b.node, b.dead);
  });
}

double PredictEngine::aggregation(std::uint32_t stage) {
  const bool uneven = plan_->shares == AggregationShares::kUneven;
  bool all = true;
  std::vector<std::uint32_t>& live = live_;
  live.clear();
  for (const std::uint32_t id : relays_[stage - 1]) nodes_[id].dead ? void(all = false) : live.push_back(id);
  double& known = aggregation_s_[uneven][stage - 1];
  if (all && known >= 0) return known;
  const double takes = uneven ? uneven_aggregation(world_, live, world_.aggregation_bytes).seconds
                              : ring_seconds(world_, live, world_.aggregation_bytes);
  if (all) known = takes;
  return takes;
}

}  // namespace tributary::flow
