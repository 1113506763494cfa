#include "swarm/state_sync.h"

#include <algorithm>
#include <utility>

#include "base/random.h"

namespace tributary::swarm {
namespace {

constexpr std::size_t kMostServed = 8;  // chunks being read for others at a time; more are told to ask elsewhere

}  // namespace

void StateSync::begin(StageId stage, std::uint64_t size) {
  stop();
  active_ = true;
  stage_ = stage;
  const auto step = context_.options.chunk_elements;
  for (std::uint64_t begin = 0; begin < size; begin += step)
    chunks_.push_back({{begin, std::min(size, begin + step)}, false, {}, wire::kNobody, {}, 0});
  request();
}

void StateSync::reset() {
  stop();
  serving_ = 0;
}

void StateSync::stop() {
  active_ = false;
  chunks_.clear();
  steps_.clear();
}

bool StateSync::complete() const {
  return active_ && std::all_of(chunks_.begin(), chunks_.end(), [&](const Chunk& chunk) {
           return chunk.written && chunk.version == context_.ledger.iteration;
         });
}

void StateSync::request() {
  std::size_t outstanding = 0, missing = 0;
  for (const auto& chunk : chunks_) {
    outstanding += !chunk.written && chunk.asked != wire::kNobody;
    missing += !chunk.written && chunk.asked == wire::kNobody;
  }
  if (missing == 0 || outstanding >= kOutstanding) return;
  std::vector<NodeId> donors;
  for (const auto& member : context_.ledger.plan.members)
    if (member.stage == stage_ && !member.listener && member.node != context_.options.self &&
        context_.reachable(member.node))
      donors.push_back(member.node);
  if (donors.empty()) return;
  for (auto& chunk : chunks_) {
    if (outstanding >= kOutstanding) break;
    if (chunk.written || chunk.asked != wire::kNobody) continue;
    // Another donor at each try, and not the same first one for every joiner.
    const auto pick = mix64(mix64(context_.options.self.value(), chunk.range.begin), chunk.tries) % donors.size();
    chunk.asked = donors[pick];
    chunk.asked_at = context_.now;
    ++chunk.tries;
    ++outstanding;
    context_.send(chunk.asked, wire::WantState{context_.stamp(), stage_, chunk.range.begin, chunk.range.end});
  }
}

StateSync::Chunk* StateSync::chunk_at(std::uint64_t begin) {
  const auto at = std::find_if(chunks_.begin(), chunks_.end(), [&](const Chunk& c) { return c.range.begin == begin; });
  return at == chunks_.end() ? nullptr : &*at;
}

void StateSync::receive(NodeId, const wire::StateChunk& message, Payload payload) {
  auto* chunk = active_ && message.stage == stage_ ? chunk_at(message.begin) : nullptr;
  if (!chunk || chunk->written || !payload || message.end != chunk->range.end ||
      message.stamp.epoch != context_.ledger.epoch || payload->size() != chunk->range.size() * 12 ||
      checksum64(payload->span()) != message.hash) {
    ++context_.counters.dropped;
    return;
  }
  if (chunk->asked != wire::kNobody) {
    const double took = to_seconds(context_.now - chunk->asked_at);
    usual_s_ = usual_s_ == 0 ? took : usual_s_ + 0.2 * (took - usual_s_);
  }
  chunk->asked = wire::kNobody;
  auto version = message.stamp.iteration;
  // Too old to be brought up to date by the results that are kept: ask again.
  for (auto i = version; i < context_.ledger.iteration; i = Iteration(i.value() + 1)) {
    if (!steps_.contains(i) || !reduction_.kept(i)) return request();
  }
  chunk->written = true;
  Task task;
  task.kind = TaskKind::kWriteState;
  task.stage = stage_;
  task.range = chunk->range;
  task.input = std::move(payload);
  context_.run(task, nullptr);
  task.input = nullptr;
  for (; version < context_.ledger.iteration; version = Iteration(version.value() + 1)) {
    if (context_.bugs.stale_state_chunk) continue;
    ++context_.counters.late_chunks;
    task.kind = TaskKind::kApply;
    task.iteration = version;
    task.step = steps_.at(version);
    context_.run(task, nullptr);
  }
  chunk->version = version;
  request();
}

void StateSync::receive(NodeId from, const wire::NoState& message) {
  auto* chunk = active_ && message.stage == stage_ ? chunk_at(message.begin) : nullptr;
  if (chunk && chunk->asked == from && !chunk->written)
    chunk->asked_at = context_.now - patience(*chunk) + context_.options.pace.ping;  // tick() asks another one, soon
}

void StateSync::apply(const wire::Commit& commit, const StepParameters& step) {
  steps_[commit.iteration] = step;
  while (steps_.size() > 2) steps_.erase(steps_.begin());
  for (auto& chunk : chunks_) {
    if (!chunk.written || chunk.version != commit.iteration) continue;
    Task task;
    task.kind = TaskKind::kApply;
    task.stage = stage_;
    task.iteration = commit.iteration;
    task.range = chunk.range;
    task.step = step;
    context_.run(task, nullptr);
    chunk.version = Iteration(commit.iteration.value() + 1);
    ++context_.counters.late_chunks;
  }
}

void StateSync::peer_lost(NodeId peer) {
  for (auto& chunk : chunks_)
    if (chunk.asked == peer && !chunk.written) chunk.asked = wire::kNobody;
  if (active_) request();
}

// A chunk that comes late is taken all the same, so asking again costs only traffic: on a slow link ever more rarely.
Duration StateSync::patience(const Chunk& chunk) const {
  const auto& pace = context_.options.pace;
  return std::max(pace.retry_first, seconds(pace.retry_factor * usual_s_)) * (1u << std::min(chunk.tries, 6u));
}

void StateSync::tick() {
  if (!active_) return;
  for (auto& chunk : chunks_) {
    if (chunk.written || chunk.asked == wire::kNobody) continue;
    if (context_.now >= chunk.asked_at + patience(chunk)) chunk.asked = wire::kNobody;
  }
  request();
}

void StateSync::add_awaited(std::vector<NodeId>& peers) const {
  for (const auto& chunk : chunks_)
    if (!chunk.written && chunk.asked != wire::kNobody) peers.push_back(chunk.asked);
}

void StateSync::serve(NodeId from, const wire::WantState& message, bool holding, StageId stage, std::uint64_t size) {
  const auto stamp = context_.stamp();
  if (!holding || stage != message.stage || message.end > size || message.begin >= message.end ||
      message.stamp.epoch != stamp.epoch || message.stamp.iteration > stamp.iteration || serving_ >= kMostServed) {
    context_.send(from, wire::NoState{stamp, message.stage, message.begin});
    return;
  }
  ++serving_;
  Task task;
  task.kind = TaskKind::kReadState;
  task.stage = stage;
  task.range = {message.begin, message.end};
  // State tasks run in the order of their calls, so the iteration of now is the iteration of what is read.
  context_.run(task, [this, from, stamp, message](const TaskResult& result) {
    --serving_;
    if (!result.output) return;
    context_.send(from,
                  wire::StateChunk{stamp, message.stage, message.begin, message.end, checksum64(result.output->span())},
                  result.output);
  });
}

}  // namespace tributary::swarm
