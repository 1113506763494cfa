#include "sim/world.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace tributary::sim {
namespace {

// The world's time on a node's own clock.
Time on_clock(double rate, Time time) {
  if (rate == 1) return time;
  return Time(Duration(static_cast<std::int64_t>(rate * static_cast<double>(time.time_since_epoch().count()))));
}

// The first moment of the world at which that clock shows `time` or more, within the rounding of on_clock.
Time off_clock(double rate, Time time) {
  if (rate == 1) return time;
  return Time(Duration(static_cast<std::int64_t>(static_cast<double>(time.time_since_epoch().count()) / rate) + 1));
}

}  // namespace

World::World(WorldOptions options) : options_(std::move(options)), random_(mix64(options_.seed, 0x776f726c64)) {}

void World::at(Time time, std::function<void()> action) {
  queue_.push({std::max(time, now_), order_++, std::move(action)});
}

bool World::step() {
  if (queue_.empty()) return false;
  auto next = std::move(const_cast<Scheduled&>(queue_.top()));
  queue_.pop();
  now_ = next.time;
  next.action();
  return true;
}

void World::run_until(Time time) {
  while (!queue_.empty() && queue_.top().time <= time) step();
  now_ = std::max(now_, time);
}

World::Machine& World::machine_of(NodeId id) {
  constexpr std::uint32_t kSmall = 1 << 16;
  if (id.value() < by_id_.size() && by_id_[id.value()]) return *by_id_[id.value()];
  auto& machine = machines_[id];
  if (id.value() < kSmall) {
    by_id_.resize(std::max<std::size_t>(by_id_.size(), id.value() + 1u));
    by_id_[id.value()] = &machine;
  }
  return machine;
}

const swarm::Node* World::node(NodeId id) const {
  const auto at = machines_.find(id);
  return at == machines_.end() ? nullptr : at->second.node.get();
}

bool World::frozen(NodeId id) const {
  const auto at = machines_.find(id);
  return at != machines_.end() && at->second.frozen;
}

std::vector<NodeId> World::nodes() const {
  std::vector<NodeId> out;
  for (const auto& [id, machine] : machines_)
    if (machine.node) out.push_back(id);
  return out;
}

swarm::Counters World::counters() const {
  auto total = gone_;
  for (const auto& [id, machine] : machines_)
    if (machine.node) total.add(machine.node->counters());
  return total;
}

void World::start(const NodeSpec& spec) {
  const auto id = spec.options.self;
  auto& machine = machine_of(id);
  if (machine.node) end_process(id, machine);
  machine.spec = spec;
  if (options_.shared_disk) machine.disk = shared_disk_;
  ++machine.life;
  ++machine.starts;
  auto options = spec.options;
  options.incarnation = Incarnation(machine.starts << 16);
  options.shared_disk = options_.shared_disk;
  options.seed = mix64(options_.seed, machine.starts);
  for (const auto& [key, words] : machine.disk->checkpoints) options.checkpoints.push_back({key.first, key.second});
  machine.compute = options_.make_compute(id, machine.disk);
  machine.node = std::make_unique<swarm::Node>(options, machine.log, on_clock(spec.clock_rate, now_), options_.bugs);
  machine.frozen = machine.vanished = false;
  machine.uplink_free = machine.control_free = now_;
  machine.told_rate.clear();
  machine.wake_at = kNever;
  exits_.erase(id);
  handle(id, swarm::Woken{});
}

// What its peers notice: the connections close, one latency later, behind whatever was sent before.
void World::end_process(NodeId id, Machine& machine) {
  on_end(id, *machine.node);
  gone_.add(machine.node->counters());
  machine.node.reset();
  machine.compute.reset();
  machine.held.clear();
  ++machine.life;
  for (const auto peer : machine.connected) {
    auto& link = link_of(id, peer);
    auto& other = machine_of(peer);
    other.connected.erase(id);
    link.connected = link_of(peer, id).connected = false;
    if (!other.node) continue;
    const auto life = other.life;
    if (link.blocked || machine.vanished) continue;  // nobody says goodbye
    const auto arrival = std::max(link.last_arrival, now_ + latency(id, peer));
    at(arrival, [this, peer, life, id] { deliver(peer, life, swarm::PeerDown{id}); });
  }
  for (const auto peer : machine.connected) link_of(peer, id).held.clear();
  machine.connected.clear();
}

void World::crash(NodeId id) {
  auto& machine = machines_.at(id);
  if (machine.node) end_process(id, machine);
}

void World::vanish(NodeId id) {
  auto& machine = machines_.at(id);
  if (!machine.node) return;
  machine.vanished = true;
  end_process(id, machine);
}

void World::ask_to_leave(NodeId id) {
  auto& machine = machines_.at(id);
  if (machine.node) deliver(id, machine.life, swarm::LeaveAsked{});
}

void World::ask_to_halt(NodeId id) {
  auto& machine = machines_.at(id);
  if (machine.node) deliver(id, machine.life, swarm::HaltAsked{});
}

std::uint64_t World::starts(NodeId id) const {
  const auto at = machines_.find(id);
  return at == machines_.end() ? 0 : at->second.starts;
}

void World::freeze(NodeId id) {
  if (machines_.at(id).node) machines_.at(id).frozen = true;
}

void World::thaw(NodeId id) {
  auto& machine = machines_.at(id);
  if (!std::exchange(machine.frozen, false) || !machine.node) return;
  const auto life = machine.life;
  auto held = std::exchange(machine.held, {});
  for (const auto& event : held) deliver(id, life, event);
  deliver(id, life, swarm::Woken{});
}

void World::block(NodeId from, NodeId to, bool lossy) {
  auto& link = link_of(from, to);
  link.blocked = true;
  link.lossy = lossy;
}

void World::heal(NodeId from, NodeId to) {
  auto& link = link_of(from, to);
  if (!std::exchange(link.blocked, false)) return;
  auto held = std::exchange(link.held, {});
  for (auto& [life, message] : held) {
    link.last_arrival = std::max(link.last_arrival, now_ + latency(from, to));
    at(link.last_arrival,
       [this, from, to, life, message = std::move(message)]() mutable { arrive(from, to, life, std::move(message)); });
  }
}

void World::heal_all() {
  for (auto& [from, links] : links_)
    for (auto& [to, link] : links) heal(from, to);
}

Duration World::latency(NodeId from, NodeId to) {
  const auto base = options_.latency(from, to);
  return base +
         Duration(static_cast<std::int64_t>(static_cast<double>(base.count()) * options_.jitter * random_.uniform()));
}

void World::deliver(NodeId id, std::uint64_t life, const swarm::Event& event) {
  auto& machine = machine_of(id);
  if (!machine.node || machine.life != life) return;
  if (machine.frozen) {
    if (!std::holds_alternative<swarm::Woken>(event)) machine.held.push_back(event);
    return;
  }
  handle(id, event);
}

void World::handle(NodeId id, const swarm::Event& event) {
  auto& machine = machine_of(id);
  ++event_count_;
  trace(mix64(static_cast<std::uint64_t>(now_.time_since_epoch().count()), mix64(id.value(), event.index())));
  if (const auto* received = std::get_if<swarm::Received>(&event))
    trace(mix64(received->from.value(), received->message.body.index()));
  std::vector<swarm::Effect> effects;
  machine.node->handle(on_clock(machine.spec.clock_rate, now_), event, effects);
  const auto life = machine.life;
  for (auto& effect : effects) {
    carry_out(id, machine, effect);
    if (machine.life != life) return;
  }
  on_event(id, *machine.node);
  schedule_wake(id, machine);
}

void World::schedule_wake(NodeId id, Machine& machine) {
  const auto asked = machine.node->next_wake();
  if (asked == kNever) return;
  const auto wake = off_clock(machine.spec.clock_rate, asked);
  if (machine.wake_at <= wake && machine.wake_at > now_) return;
  machine.wake_at = std::max(wake, now_ + Duration(1));
  at(machine.wake_at, [this, id, life = machine.life, at = machine.wake_at] {
    auto& m = machine_of(id);
    if (m.life != life || m.wake_at != at) return;
    m.wake_at = kNever;
    deliver(id, life, swarm::Woken{});
  });
}

void World::carry_out(NodeId id, Machine& machine, swarm::Effect& effect) {
  if (auto* sent = std::get_if<swarm::Send>(&effect)) {
    send(id, machine, *sent);
  } else if (auto* task = std::get_if<swarm::RunTask>(&effect)) {
    run_task(id, machine, task->task);
  } else if (auto* store = std::get_if<swarm::StoreLog>(&effect)) {
    const auto takes = machine.spec.store_time > Duration::zero() ? machine.spec.store_time : options_.store_time;
    at(now_ + takes, [this, id, life = machine.life, stored = std::move(*store)] {
      auto& m = machine_of(id);
      if (m.life != life || !m.node) return;  // the crash came before the sync
      m.log = stored.log;
      deliver(id, life, swarm::Stored{stored.sequence});
    });
  } else if (auto* left = std::get_if<swarm::Exit>(&effect)) {
    static constexpr const char* kReasons[] = {"finished", "halted", "left", "refused", "stopped"};
    exits_[id] = kReasons[static_cast<int>(left->reason)] + (left->message.empty() ? "" : ": " + left->message);
    on_exit(id, *left);
    end_process(id, machine);
  } else if (auto* applied = std::get_if<swarm::Applied>(&effect)) {
    trace(applied->weights_hash);
    on_applied(id, *applied);
  } else if (auto* evaluated = std::get_if<swarm::Evaluated>(&effect)) {
    on_evaluated(id, *evaluated);
  } else if (auto* distrusted = std::get_if<swarm::Distrusted>(&effect)) {
    on_distrusted(id, *distrusted);
  }
}

void World::send(NodeId from, Machine& machine, swarm::Send& effect) {
  const auto to = effect.to;
  auto& other = machine_of(to);
  ++message_count_;
  on_send(from, to, effect.message);
  if (other.vanished) return;
  if (!other.node) {
    // Nobody listens there: the dialler learns it after a round trip.
    at(now_ + latency(from, to) + latency(to, from),
       [this, from, life = machine.life, to] { deliver(from, life, swarm::PeerDown{to}); });
    return;
  }
  if (auto& link = link_of(from, to); !link.connected) {
    link.connected = link_of(to, from).connected = true;
    machine.connected.insert(to);
    other.connected.insert(from);
  }
  if (options_.encode_messages) {
    auto decoded = wire::decode(wire::encode(effect.message.body));
    effect.message.body = std::move(decoded).value();
  }
  const bool bulk = effect.message.payload != nullptr;
  const double rate = options_.bandwidth(from, to);
  const double bytes = options_.message_bytes(effect.message);
  auto& free = bulk ? machine.uplink_free : machine.control_free;
  const auto begin = std::max(free, now_);
  free = begin + seconds(bytes / rate);
  // What is small has left at once. A process may die while its payload waits in the uplink; then it never left.
  if (!bulk) return leave(from, to, other.life, std::move(effect.message), begin, free);
  at(free, [this, from, to, begin, bytes, rate, sender_life = machine.life, life = other.life,
            message = std::move(effect.message)]() mutable {
    auto& sender = machine_of(from);
    if (sender.life != sender_life) return;
    double seen_rate = rate;
    auto through = now_;
    if (!link_of(from, to).blocked) {
      through = options_.beyond_uplink(from, to, bytes, begin, now_);
      if (through > now_) seen_rate = bytes / to_seconds(through - begin);
    }
    leave(from, to, life, std::move(message), begin, through);
    auto& told = sender.told_rate[to];
    if (std::exchange(told, seen_rate) != seen_rate) deliver(from, sender_life, swarm::LinkMeasured{to, seen_rate});
  });
}

// It has left the uplink, and whatever is behind it at `through`.
void World::leave(NodeId from, NodeId to, std::uint64_t life, wire::Message message, Time begin, Time through) {
  auto& link = link_of(from, to);
  if (link.blocked) {
    if (!link.lossy) link.held.emplace_back(life, std::move(message));
    return;
  }
  link.last_arrival = std::max(link.last_arrival, through + latency(from, to));
  on_transfer(from, to, message, begin, now_, link.last_arrival);
  at(link.last_arrival,
     [this, from, to, life, message = std::move(message)]() mutable { arrive(from, to, life, std::move(message)); });
}

void World::arrive(NodeId from, NodeId to, std::uint64_t life, wire::Message message) {
  deliver(to, life, swarm::Received{from, std::move(message)});
}

void World::run_task(NodeId id, Machine& machine, const swarm::Task& task) {
  const auto work = Duration(
      static_cast<std::int64_t>(static_cast<double>(options_.task_time(task).count()) * machine.spec.slowness));
  at(now_ + options_.task_takes(id, now_, work), [this, id, begin = now_, life = machine.life, task] {
    auto& m = machine_of(id);
    if (m.life != life || !m.node) return;
    on_task(id, task, begin, now_);
    deliver(id, life, swarm::Computed{m.compute->run(task)});
  });
}

}  // namespace tributary::sim
