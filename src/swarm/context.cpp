#include "swarm/context.h"

#include <algorithm>
#include <utility>

#include "base/random.h"
#include "swarm/stand_ins.h"

namespace tributary::swarm {
namespace {

constexpr CounterRow kCounterRows[] = {
    {"repairs", &Counters::repairs},
    {"replays", &Counters::replays},
    {"deep_replays", &Counters::deep_replays},
    {"retractions", &Counters::retractions},
    {"duplicates", &Counters::duplicates},
    {"excluded", &Counters::excluded},
    {"stale_orders", &Counters::stale_orders},
    {"resealed", &Counters::resealed},
    {"adopted", &Counters::adopted},
    {"rewinds", &Counters::rewinds},
    {"late_chunks", &Counters::late_chunks},
    {"joins", &Counters::joins},
    {"promoted", &Counters::promoted},
    {"moved", &Counters::moved},
    {"rejoins", &Counters::rejoins},
    {"false_suspicions", &Counters::false_suspicions},
    {"early", &Counters::early},
    {"dropped", &Counters::dropped},
    {"retries", &Counters::retries},
    {"elections", &Counters::elections},
    {"routing_messages", &Counters::routing_messages},
    {"ill_formed", &Counters::ill_formed},
    {"routed", &Counters::routed},
    {"unrouted", &Counters::unrouted},
    {"rechosen", &Counters::rechosen},
};
static_assert(sizeof(kCounterRows) / sizeof(CounterRow) * sizeof(std::uint64_t) == sizeof(Counters));

bool is_pipeline(TaskKind kind) {
  return kind == TaskKind::kEmbed || kind == TaskKind::kForward || kind == TaskKind::kHead ||
         kind == TaskKind::kBackward || kind == TaskKind::kEmbedBackward;
}

}  // namespace

std::span<const CounterRow> counter_rows() { return kCounterRows; }

void Counters::add(const Counters& other) {
  for (const auto& row : kCounterRows) this->*row.value += other.*row.value;
}

Context::Context(const NodeOptions& node_options, PlantedBugs planted)
    : options(node_options), bugs(planted), incarnation(node_options.incarnation), detector(node_options.pace) {}

void Context::send(NodeId to, wire::Body body, Payload payload) {
  TRIBUTARY_CHECK(to != options.self && to != wire::kNobody, wire::name_of(body));
  effects->push_back(Send{to, {std::move(body), std::move(payload)}});
}

void Context::exit(ExitReason reason, std::string message) {
  effects->emplace_back(std::in_place_type<Exit>, reason, std::move(message));
}

void Context::run(Task task, std::function<void(const TaskResult&)> done) {
  task.id = next_task_++;
  (is_pipeline(task.kind) ? pipeline_ : urgent_).push_back({std::move(task), std::move(done)});
  issue();
}

void Context::after_tasks(std::function<void()> done) {
  urgent_.push_back({Task{}, [done = std::move(done)](const TaskResult&) { done(); }});
  issue();
}

void Context::issue() {
  if (issuing_) return;
  issuing_ = true;
  while (running_ == 0) {
    auto& queue = urgent_.empty() ? pipeline_ : urgent_;
    if (queue.empty()) break;
    auto next = std::move(queue.front());
    queue.pop_front();
    if (next.task.id == 0) {
      next.done({});
      continue;
    }
    running_ = next.task.id;
    running_kind_ = next.task.kind;
    running_since_ = now;
    running_done_ = std::move(next.done);
    effects->push_back(RunTask{std::move(next.task)});
  }
  issuing_ = false;
}

void Context::computed(const TaskResult& result) {
  if (result.id != running_) return;
  running_ = 0;
  ++tasks_done_;
  const double took = to_seconds(now - running_since_);
  auto [at, first] = mean_s_.try_emplace(running_kind_, took);
  if (!first) at->second += 0.2 * (took - at->second);
  if (running_kind_ == TaskKind::kForward) {
    forward_ran_ = true;
    fade_ = 1;
  }
  const auto done = std::exchange(running_done_, nullptr);
  if (done) done(result);
  issue();
}

void Context::reset_tasks() {
  urgent_.clear();
  pipeline_.clear();
  running_done_ = nullptr;
}

void Context::iteration_begins() {
  constexpr double kFade = 0.8;
  if (!std::exchange(forward_ran_, false)) fade_ *= kFade;
}

Duration Context::mean_of(TaskKind kind) const {
  const auto at = mean_s_.find(kind);
  return at == mean_s_.end() ? Duration::zero() : seconds(at->second);
}

Time Context::next_task_check() const {
  if (running_ == 0 || !mean_s_.contains(running_kind_)) return kNever;
  const auto limit = std::max(options.pace.stuck_floor, seconds(options.pace.stuck_factor * mean_s_.at(running_kind_)));
  return running_since_ + limit;
}

bool Context::stuck() const { return now >= next_task_check(); }

bool Context::reachable(NodeId node) const {
  return !dead.contains(node) && (node == options.self || !detector.suspected(node));
}

bool Context::usable(NodeId node, StageId stage) const {
  const auto* member = member_of(ledger.plan, node);
  return member && member->stage == stage && !member->listener && reachable(node);
}

NodeId Context::replacement(PartId part, MicrobatchId microbatch, const std::set<NodeId>& avoid) const {
  const auto stage = stage_of(part);
  if (stand_ins_index_ != ledger.index) {
    stand_ins_.clear();
    stand_ins_index_ = ledger.index;
  }
  const auto [stand_ins, first] = stand_ins_.try_emplace(stage);
  if (first) stand_ins->second = choose_stand_ins(ledger.plan, stage);
  if (const auto& chosen = stand_ins->second; microbatch.value() < chosen.size()) {
    const auto node = chosen[microbatch.value()];
    if (usable(node, stage) && !avoid.contains(node)) return node;
  }
  NodeId best = wire::kNobody;
  std::uint64_t best_score = 0;
  for (const auto& member : ledger.plan.members) {
    if (!usable(member.node, stage) || avoid.contains(member.node)) continue;
    // Rendezvous hashing: who dies elsewhere does not change the choice. Stage 0's two parts stay together.
    const auto score = mix64(mix64(microbatch.value(), stage.value()), member.node.value());
    if (best == wire::kNobody || score > best_score) {
      best = member.node;
      best_score = score;
    }
  }
  return best;
}

std::vector<NodeId> Context::suspects() const {
  std::vector<NodeId> out;
  const auto add = [&](NodeId node) {
    const auto* member = node == options.self ? nullptr : member_of(ledger.plan, node);
    if (member && !member->listener) out.push_back(node);
  };
  for (const auto node : dead) add(node);
  for (const auto node : detector.suspected())
    if (!dead.contains(node)) add(node);
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace tributary::swarm
