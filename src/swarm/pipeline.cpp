#include "swarm/pipeline.h"

#include <algorithm>
#include <utility>

namespace tributary::swarm {
namespace {

constexpr double kUnknownRate = 1e6;  // bytes/s, of links in general

}  // namespace

void Pipeline::begin(bool member, StageId stage) {
  member_ = member;
  stage_ = stage;
  works_.clear();
  folded_.clear();
  bad_.clear();
  ready_.clear();
  to_launch_.clear();
  slots_used_ = 0;
  launched_open_ = 0;
  greedy_.begin();
  if (!member || stage != StageId(0)) return;
  const auto& paths = context_.ledger.plan.paths;
  for (std::uint32_t m = static_cast<std::uint32_t>(paths.size()); m-- > 0;)
    if (paths[m].front() == context_.options.self && !excluded(MicrobatchId(m))) to_launch_.push_back(MicrobatchId(m));
  launch();
}

void Pipeline::launch() {
  while (!to_launch_.empty() && launched_open_ < context_.ledger.plan.in_flight) {
    const auto microbatch = to_launch_.back();
    to_launch_.pop_back();
    if (excluded(microbatch) || works_.contains({PartId(0), microbatch})) continue;
    ++launched_open_;
    advance(open(PartId(0), microbatch));
  }
}

bool Pipeline::excluded(MicrobatchId microbatch) const {
  const auto& list = context_.ledger.excluded;
  return std::binary_search(list.begin(), list.end(), microbatch);
}

bool Pipeline::accepts(PartId part, MicrobatchId microbatch, std::size_t hops) const {
  return member_ && part <= context_.head_part() && context_.stage_of(part) == stage_ &&
         microbatch.value() < context_.microbatches() && hops == context_.stages() + 2u && !excluded(microbatch);
}

std::uint32_t Pipeline::key_of(const Work& work) const {
  return swarm::key_of(work.part, work.microbatch, context_.stages(), context_.microbatches());
}

Pipeline::Work& Pipeline::open(PartId part, MicrobatchId microbatch) {
  const auto [at, created] = works_.try_emplace({part, microbatch});
  auto& work = at->second;
  if (created) {
    work.part = part;
    work.microbatch = microbatch;
    work.hops = context_.ledger.plan.paths[microbatch.value()];
    work.hops[part.value()] = context_.options.self;
  }
  return work;
}

// What the sender knows of its own side of the path is better than what is known here; of the other side, only when
// nothing is known yet.
void Pipeline::learn(Work& work, NodeId from, const std::vector<NodeId>& hops, const std::vector<NodeId>& suspects,
                     bool upstream) {
  const auto own = work.part.value();
  // Whoever was asked for the activation before is not the one who has it.
  if (upstream && work.hops[own - 1] != from && !work.act_in) work.prev_asked = false;
  for (std::uint16_t p = 0; p < hops.size(); ++p) {
    const bool senders_side = upstream ? p < own : p > own;
    if (senders_side && hops[p] != wire::kNobody) work.hops[p] = hops[p];
  }
  work.hops[upstream ? own - 1 : own + 1] = from;
  for (const auto node : suspects)
    if (node != context_.options.self && node != from) work.avoid.insert(node);
  work.avoid.erase(from);
}

NodeId Pipeline::resolve(Work& work, PartId part) {
  auto& hop = work.hops[part.value()];
  if (hop != wire::kNobody && context_.usable(hop, context_.stage_of(part)) && !work.avoid.contains(hop)) return hop;
  auto next = context_.replacement(part, work.microbatch, work.avoid);
  if (next == wire::kNobody) {
    work.avoid.clear();
    next = context_.replacement(part, work.microbatch, {});
  }
  if (next != wire::kNobody && next != hop) ++context_.counters.repairs;
  if (next != wire::kNobody) hop = next;
  return next;
}

Duration Pipeline::patience(int tries) const {
  const auto& pace = context_.options.pace;
  // Payloads that are asked for too early travel twice, so that all others wait.
  const double unmeasured = static_cast<double>(context_.options.run.payload_bytes) / kUnknownRate;
  const auto base = usual_wait_s_ == 0 ? pace.retry_first + seconds(pace.retry_factor * unmeasured)
                                       : std::max(pace.retry_floor, seconds(pace.retry_factor * usual_wait_s_));
  return base * (1 << std::min(tries, 4));
}

void Pipeline::ask_previous(Work& work, bool again) {
  const auto node = resolve(work, before(work.part));
  work.prev_asked = node != wire::kNobody;
  if (!work.prev_asked) return;
  work.prev_at = context_.now;
  context_.send(node, wire::Want{context_.stamp(), work.microbatch, before(work.part), false, again, work.hops,
                                 context_.suspects()});
}

void Pipeline::ask_next(Work& work, bool again) {
  const auto node = resolve(work, after(work.part));
  work.next_engaged = node != wire::kNobody;
  if (!work.next_engaged) return;
  work.next_at = context_.now;
  context_.send(node, wire::Want{context_.stamp(), work.microbatch, after(work.part), true, again, work.hops,
                                 context_.suspects()});
}

void Pipeline::receive(NodeId from, const wire::Forward& message, Payload payload) {
  if (!payload || message.part == PartId(0) || !accepts(message.part, message.microbatch, message.hops.size())) {
    ++context_.counters.dropped;
    return;
  }
  const bool known = works_.contains({message.part, message.microbatch});
  auto& work = open(message.part, message.microbatch);
  learn(work, from, message.hops, message.suspects, true);
  if (!known) {
    for (std::uint16_t p = message.part.value() + 1; p < message.hops.size(); ++p) work.hops[p] = message.hops[p];
    work.repair = message.repair;
  } else if (work.act_in) {
    ++context_.counters.duplicates;
  }
  if (!work.act_in) work.act_in = std::move(payload);
  work.grad_waiters.insert(from);
  advance(work);
}

void Pipeline::receive(NodeId from, const wire::Backward& message, Payload payload) {
  if (!payload || message.part == context_.head_part() ||
      !accepts(message.part, message.microbatch, message.hops.size())) {
    ++context_.counters.dropped;
    return;
  }
  const bool known = works_.contains({message.part, message.microbatch});
  auto& work = open(message.part, message.microbatch);
  learn(work, from, message.hops, message.suspects, false);
  if (!known) {
    // A gradient for a microbatch never seen here: this node was chosen in place of a dead one.
    for (std::uint16_t p = 0; p < message.part.value(); ++p) work.hops[p] = message.hops[p];
    work.repair = true;
  }
  if (!work.grad_in) {
    work.grad_in = std::move(payload);
    if (work.chosen != wire::kNobody) greedy_.took(work.chosen, context_.now - work.chosen_at);
    if (work.next_engaged && work.next_tries == 0) {
      const double waited = to_seconds(context_.now - work.next_at);
      usual_wait_s_ = waited > usual_wait_s_ ? waited : usual_wait_s_ + 0.1 * (waited - usual_wait_s_);
    }
  } else {
    ++context_.counters.duplicates;
  }
  advance(work);
}

void Pipeline::receive(NodeId from, const wire::Want& message) {
  const bool impossible = message.gradient ? message.part == PartId(0) : message.part == context_.head_part();
  if (impossible || !accepts(message.part, message.microbatch, message.hops.size())) {
    ++context_.counters.dropped;
    return;
  }
  const bool known = works_.contains({message.part, message.microbatch});
  auto& work = open(message.part, message.microbatch);
  learn(work, from, message.hops, message.suspects, message.gradient);
  if (!known) {
    work.repair = true;
    const auto& hops = message.hops;
    for (std::uint16_t p = 0; p < hops.size(); ++p)
      if (p != message.part.value() && (message.gradient ? p > message.part.value() : p < message.part.value()))
        work.hops[p] = hops[p];
  }
  if (message.gradient) {
    work.grad_waiters.insert(from);
    if (message.again) work.grad_sent.erase(from);
    if (work.grad_out) ++context_.counters.duplicates;
  } else {
    work.act_waiters.insert(from);
    if (message.again) work.act_sent.erase(from);
    // It stands at the next part now; its gradient will come.
    if (!work.grad_in) {
      work.next_engaged = true;
      work.next_at = context_.now;
    }
  }
  advance(work);
}

void Pipeline::assign(const wire::Assignment& a) {
  if (!accepts(a.part, a.microbatch, context_.stages() + 2u)) return;
  const bool known = works_.contains({a.part, a.microbatch});
  auto& work = open(a.part, a.microbatch);
  if (folded_.contains(key_of(work))) return;
  if (!known) {
    ++context_.counters.replays;
    work.repair = true;
  }
  if (a.part > PartId(0) && a.previous != wire::kNobody && work.hops[a.part.value() - 1] != a.previous) {
    work.hops[a.part.value() - 1] = a.previous;
    if (!work.act_in) work.prev_asked = false;
  }
  if (a.part < context_.head_part() && a.next != wire::kNobody && work.hops[a.part.value() + 1] != a.next) {
    work.hops[a.part.value() + 1] = a.next;
    if (!work.grad_in && (work.repair || work.forward_done)) work.next_engaged = false;
  }
  if (work.done) {  // its contribution was discarded or retracted before this node became the owner
    ++context_.counters.replays;
    work.done = work.backward_queued = false;
    if (work.part == context_.head_part()) work.forward_queued = work.forward_done = false;
  }
  advance(work);
}

// Moves a work as far as it can go now. Idempotent: everything it does is marked in the work.
void Pipeline::advance(Work& work) {
  if (excluded(work.microbatch) || bad_.contains(work.microbatch)) return;
  const bool embed = work.part == PartId(0);
  const bool head = work.part == context_.head_part();
  if (!embed && !work.act_in && !work.prev_asked && !work.done) ask_previous(work, false);
  // A stand-in that has the gradient of an embedding needs no activation at all.
  const bool input = embed ? (!work.grad_in || !work.act_waiters.empty()) : work.act_in != nullptr;
  if (input && !work.forward_queued) queue(work, false);
  if (!head && !work.grad_in && !work.next_engaged && (work.repair || work.act_out)) engage_next(work);
  if (!head && work.grad_in && (embed || work.act_in) && !work.backward_queued) queue(work, true);
  deliver(work);
  pump();
}

void Pipeline::engage_next(Work& work) {
  if (work.repair) return ask_next(work, false);
  if (greedy_.used() && work.chosen == wire::kNobody && after(work.part) < context_.head_part()) {
    work.chosen = greedy_.choose(StageId(after(work.part).value()), work.microbatch, work.avoid);
    work.chosen_at = context_.now;
    auto& hop = work.hops[after(work.part).value()];
    if (work.chosen != wire::kNobody && work.chosen != std::exchange(hop, work.chosen)) ++context_.counters.rechosen;
  }
  const auto node = resolve(work, after(work.part));
  work.next_engaged = node != wire::kNobody;
  work.next_at = context_.now;
  if (work.next_engaged) work.act_waiters.insert(node);
}

void Pipeline::deliver(Work& work) {
  if (work.act_out) {
    for (const auto node : work.act_waiters) {
      if (!work.act_sent.insert(node).second) continue;
      const auto meant = work.chosen != wire::kNobody
                             ? work.chosen
                             : context_.ledger.plan.paths[work.microbatch.value()][work.part.value() + 1];
      const bool stands_in = meant != node;
      context_.send(
          node,
          wire::Forward{context_.stamp(), work.microbatch, after(work.part), stands_in, work.hops, context_.suspects()},
          work.act_out);
    }
  }
  if (!work.grad_out || work.part == PartId(0)) return;
  if (work.grad_waiters.empty() && !work.grad_delivered) {
    const auto node = resolve(work, before(work.part));
    if (node != wire::kNobody) work.grad_waiters.insert(node);
  }
  for (const auto node : work.grad_waiters) {
    if (!work.grad_sent.insert(node).second) continue;
    work.grad_delivered = true;
    context_.send(node,
                  wire::Backward{context_.stamp(), work.microbatch, before(work.part), work.hops, context_.suspects()},
                  work.grad_out);
  }
  if (context_.bugs.forget_kept_gradient && work.grad_delivered) work.grad_out = nullptr;
}

void Pipeline::peer_lost(NodeId peer) {
  for (auto& [key, work] : works_) {
    work.act_waiters.erase(peer);
    work.act_sent.erase(peer);
    work.grad_waiters.erase(peer);
    work.grad_sent.erase(peer);
    const auto part = work.part.value();
    const bool next_lost = part < context_.head_part().value() && work.hops[part + 1] == peer;
    if (next_lost && work.next_engaged && !work.grad_in) {
      const auto node = resolve(work, after(work.part));
      work.next_engaged = node != wire::kNobody && node != peer;
      work.next_at = context_.now;
      if (work.next_engaged) {
        if (work.act_out) {
          work.act_waiters.insert(node);
        } else if (work.repair) {
          ask_next(work, false);
        }
      }
    }
    if (part > 0 && work.hops[part - 1] == peer && work.prev_asked && !work.act_in) work.prev_asked = false;
    advance(work);
  }
}

void Pipeline::drop_excluded() {
  for (auto at = works_.begin(); at != works_.end();) {
    auto& work = at->second;
    if (!excluded(work.microbatch)) {
      ++at;
      continue;
    }
    const auto key = key_of(work);
    if (folded_.contains(key)) {
      retract(key);
    } else if (work.part == PartId(0)) {
      launched_open_ = std::max(0, launched_open_ - 1);
    }
    release_slot(work);
    at = works_.erase(at);
  }
  launch();
  pump();
}

void Pipeline::tick(bool all) {
  if (!all && context_.now < next_wake()) return;
  for (auto& [key, work] : works_) {
    if (excluded(work.microbatch) || bad_.contains(work.microbatch)) continue;
    const bool waits_next = work.part < context_.head_part() && !work.grad_in;
    if (waits_next && work.next_engaged && context_.now >= work.next_at + patience(work.next_tries)) {
      ++work.next_tries;
      ++context_.counters.retries;
      ask_next(work, true);
    }
    if (work.prev_asked && !work.act_in && context_.now >= work.prev_at + patience(work.prev_tries)) {
      ++work.prev_tries;
      ++context_.counters.retries;
      ask_previous(work, true);
    }
    advance(work);  // those who found nobody to ask try again
  }
}

Time Pipeline::next_wake() const {
  Time wake = kNever;
  for (const auto& [key, work] : works_) {
    if (excluded(work.microbatch) || bad_.contains(work.microbatch)) continue;
    if (work.part < context_.head_part() && !work.grad_in && work.next_engaged)
      wake = std::min(wake, work.next_at + patience(work.next_tries));
    if (work.prev_asked && !work.act_in) wake = std::min(wake, work.prev_at + patience(work.prev_tries));
  }
  return wake;
}

void Pipeline::add_awaited(std::vector<NodeId>& peers) const {
  for (const auto& [key, work] : works_) {
    const auto part = work.part.value();
    if (work.part < context_.head_part() && !work.grad_in && work.next_engaged) peers.push_back(work.hops[part + 1]);
    if (work.prev_asked && !work.act_in) peers.push_back(work.hops[part - 1]);
  }
}

void Pipeline::fill(wire::Report& report) const {
  const auto m = context_.microbatches();
  report.folded.assign(folded_.begin(), folded_.end());
  report.bad.assign(bad_.begin(), bad_.end());
  if (stage_ != StageId(0)) return;
  for (const auto key : report.folded) {
    const auto& work = works_.at({key < m ? PartId(0) : context_.head_part(), MicrobatchId(key % m)});
    if (key < m) {
      report.hops.push_back(work.hops);
    } else {
      report.losses.push_back(work.loss);
      report.tokens.push_back(work.tokens);
    }
  }
}

std::string Pipeline::describe() const {
  std::string out;
  for (const auto& [key, work] : works_) {
    if (folded_.contains(key_of(work))) continue;
    const auto part = work.part.value();
    out += "part " + to_string(work.part) + " microbatch " + to_string(work.microbatch) + ":";
    if (bad_.contains(work.microbatch)) out += " not finite;";
    if (part > 0 && !work.act_in)
      out += work.prev_asked ? " activation from node " + to_string(work.hops[part - 1]) + ";"
                             : " activation from nobody;";
    else if (!work.forward_done)
      out += work.forward_queued ? " forward;" : "";
    if (work.part < context_.head_part() && !work.grad_in)
      out +=
          work.next_engaged ? " gradient from node " + to_string(work.hops[part + 1]) + ";" : " gradient from nobody;";
    else if (!work.done)
      out += work.backward_queued ? " backward;" : "";
    if (work.done) out += " done, not folded;";
    out += "\n";
  }
  return out;
}

std::uint64_t Pipeline::kept_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& [key, work] : works_)
    for (const auto* payload : {&work.act_in, &work.act_out, &work.grad_in, &work.grad_out})
      bytes += payload_size(*payload);
  return bytes;
}

}  // namespace tributary::swarm
