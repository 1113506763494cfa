#include "sim/faults.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <type_traits>
#include <variant>

namespace tributary::sim {
namespace {

// A message kind's place in wire::Body.
template <class T>
constexpr std::size_t kKind = [] {
  std::size_t index = 0;
  [&]<class... Ts>(std::type_identity<std::variant<Ts...>>) {
    (void)((std::is_same_v<T, Ts> || (++index, false)) || ...);
  }(std::type_identity<wire::Body>{});
  return index;
}();

}  // namespace

Faults::Faults(World& world, const ChaosSwarm& swarm, FaultOptions options)
    : world_(world), swarm_(swarm), options_(options), random_(mix64(swarm.seed, 0x6661756c74)) {
  for (double t = 0.2; options.enabled;) {
    t += random_.exponential(1 / swarm.fault_rate);
    if (seconds(t) >= swarm.horizon) break;
    world_.at(Time(seconds(t)), [this, number = strikes_] { strike(number); });
    ++strikes_;
  }
  world_.at(Time(swarm.horizon), [this] { heal(); });
}

void Faults::say(const char* what, NodeId id) const {
  if (options_.log)
    std::printf("%9.4f s  %-9s node %u\n", to_seconds(world_.now().time_since_epoch()), what, id.value());
}

void Faults::start(NodeId id) {
  say("restart", id);
  world_.start(spec_of(id));
}

void Faults::start_later(NodeId id, Duration pause) {
  world_.at(world_.now() + pause, [this, id] {
    if (!world_.running(id) && !world_.exits().contains(id)) start(id);
  });
}

void Faults::crash(NodeId id) {
  say("crash", id);
  world_.crash(id);
  ++crashes_;
  // Soon enough to be back within the detection time, or much later, or only when all is healed.
  const double away = random_.chance(0.3) ? 0.05 + 0.3 * random_.uniform() : random_.exponential(2);
  if (random_.chance(0.8)) start_later(id, seconds(away));
}

// All that hold the same stage: what they held is gone, the run must rewind.
void Faults::crash_stage(NodeId member) {
  const auto stage = world_.node(member)->stage();
  for (const auto id : world_.nodes())
    if (world_.node(id)->stage() == stage) crash(id);
}

void Faults::freeze(NodeId id) {
  say("freeze", id);
  world_.freeze(id);
  world_.at(world_.now() + seconds(0.1 + random_.exponential(1.5)), [this, id] {
    say("thaw", id);
    world_.thaw(id);
  });
}

void Faults::block_one_way(NodeId from, NodeId to) {
  if (from == to) return;
  say("block", from);
  world_.block(from, to, random_.chance(0.3));
  world_.at(world_.now() + seconds(random_.exponential(2)), [this] { world_.heal_all(); });
}

void Faults::split(const std::vector<NodeId>& ids) {
  std::vector<NodeId> side;
  for (const auto node : ids)
    if (random_.chance(0.4)) side.push_back(node);
  say("partition", ids.front());
  const auto inside = [&](NodeId node) { return std::find(side.begin(), side.end(), node) != side.end(); };
  for (const auto a : ids)
    for (const auto b : ids)
      if (inside(a) != inside(b)) world_.block(a, b, false);
  world_.at(world_.now() + seconds(random_.exponential(2)), [this] { world_.heal_all(); });
}

void Faults::leave(NodeId id) {
  const auto& voters = swarm_.run.voters;
  if (std::find(voters.begin(), voters.end(), id) != voters.end()) return crash(id);
  say("leave", id);
  world_.ask_to_leave(id);
}

// Crashes at the points of the protocol where a death hurts, rather than at any time.
void Faults::sent(NodeId from, const wire::Message& message) {
  if (ambush_ != message.body.index() || world_.now() >= Time(swarm_.horizon)) return;
  ambush_.reset();
  // Before it is on the wire, or after; perhaps in the middle of several.
  world_.at(world_.now() + Duration(random_.between(0, 3'000'000)), [this, from] {
    if (world_.running(from)) crash(from);
  });
}

void Faults::strike(std::uint32_t number) {
  const auto& cut = swarm_.cut;
  if (cut.strikes && !cut.strikes->contains(number)) return;
  if (cut.own_draws) random_ = Random(mix64(mix64(swarm_.seed, 0x737472696b65), number));
  if (options_.log) std::printf("%9.4f s  strike %u\n", to_seconds(world_.now().time_since_epoch()), number);
  strike();
}

void Faults::strike() {
  const auto ids = world_.nodes();
  if (ids.empty()) return;
  const auto id = random_.pick(ids);
  const auto leader =
      std::find_if(ids.begin(), ids.end(), [this](NodeId node) { return world_.node(node)->leading(); });
  const auto draw = random_.below(28);
  if (draw < 9) return crash(id);
  if (draw < 12) {  // two at once, often neighbours in the pipeline
    crash(id);
    const auto rest = world_.nodes();
    if (!rest.empty()) crash(random_.pick(rest));
    return;
  }
  if (draw < 14) return freeze(id);
  if (draw < 16) return block_one_way(id, random_.pick(ids));
  if (draw < 18) return split(ids);
  if (draw < 20) return leave(id);
  if (draw < 21) return crash_stage(id);
  if (draw < 25) {
    static constexpr std::size_t kKinds[] = {kKind<wire::Forward>,  kKind<wire::Backward>,  kKind<wire::Partial>,
                                             kKind<wire::Gathered>, kKind<wire::Gathered>,  kKind<wire::Gathered>,
                                             kKind<wire::Orders>,   kKind<wire::Report>,    kKind<wire::AppendRequest>,
                                             kKind<wire::Want>,     kKind<wire::StateChunk>};
    ambush_ = kKinds[random_.below(std::size(kKinds))];
    return;
  }
  if (leader == ids.end()) return;
  if (draw < 27) return crash(*leader);
  say("halt", *leader);
  world_.ask_to_halt(*leader);
}

void Faults::ended(NodeId id, const swarm::Exit& exit) {
  if (exit.reason == swarm::ExitReason::kFinished) return;
  say("ended", id);
  // Before the horizon, who left stays away, and a halted run is resumed at once or only when all is healed.
  const bool halted = exit.reason == swarm::ExitReason::kHalted;
  const bool calm = world_.now() >= Time(swarm_.horizon);
  if (!calm && !halted) return;
  world_.at(world_.now() + seconds(0.2 + random_.exponential(1)), [this, id] {
    if (!world_.running(id) && world_.exits().contains(id)) start(id);
  });
}

void Faults::heal() {
  world_.heal_all();
  for (const auto& spec : swarm_.nodes) {
    const auto id = spec.options.self;
    if (world_.frozen(id)) {
      say("thaw", id);
      world_.thaw(id);
    }
    const auto exit = world_.exits().find(id);
    const bool over = exit != world_.exits().end() && exit->second == "finished";
    if (!world_.running(id) && !over && !swarm_.cut.without.contains(id)) start(id);
  }
}

}  // namespace tributary::sim
