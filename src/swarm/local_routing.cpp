#include "swarm/local_routing.h"

#include <algorithm>
#include <bit>

#include "base/random.h"

namespace tributary::swarm {
namespace {

constexpr std::uint64_t kGenerationLasts = 8;  // iterations
constexpr flow::Cost kUnknownCompute = 100'000;
constexpr Duration kUnknownDelay = milliseconds(100);
constexpr double kHoldDown = 0.15, kQuiet = 3;  // of the usual round trip

bool differs(flow::Cost a, flow::Cost b) { return a > b + b / 8 || b > a + a / 8; }

}  // namespace

LocalRouting::LocalRouting(Context& context)
    : context_(context), used_(flow::make_agent(context.options.run.router, {}) != nullptr) {}

void LocalRouting::begin(bool member, StageId stage) {
  if (!used_) return;
  const bool moved = stage_ != stage;
  member_ = member;
  stage_ = stage;
  if (!member) {
    agent_.reset();
    timers_.clear();
    return;
  }
  const auto now = context_.stamp();
  const bool fresh = !agent_ || moved || generation_.epoch != now.epoch;
  const bool back =
      std::any_of(lost_.begin(), lost_.end(), [&](NodeId peer) { return context_.usable(peer, peers_.at(peer)); });
  if (fresh || anew_ || back || now.iteration.value() % kGenerationLasts == 0 || !same_members()) {
    start(!fresh);
  } else {
    if (differs(compute_us(), told_compute_))
      for (const auto& [peer, peers_stage] : peers_)
        if (is_peer(peer, -1)) greet(peer);
    for (const auto& [peer, compute] : greeted_) link(peer);
    agent_->renew();
    flush();
  }
  auto early = std::exchange(early_, {});
  for (const auto& [from, message] : early) receive(from, message);
}

bool LocalRouting::same_members() const {
  std::vector<wire::Member> members;
  for (const auto& member : context_.ledger.plan.members)
    if (!member.listener) members.push_back(member);
  return std::equal(members.begin(), members.end(), members_.begin(), members_.end(), [](const auto& a, const auto& b) {
    return a.node == b.node && a.incarnation == b.incarnation && a.stage == b.stage && a.slots == b.slots;
  });
}

// What all nodes read out of the plan alike: its paths, as long as the relays on them have slots. Those of an epoch's
// first plan were found by nobody.
std::vector<flow::AgentPath> LocalRouting::standing_flows() const {
  const auto& ledger = context_.ledger;
  std::vector<flow::AgentPath> flows;
  if (ledger.iteration == ledger.checkpoint) return flows;
  std::map<NodeId, int> room;
  for (const auto& member : ledger.plan.members) room[member.node] = member.slots;
  for (const auto& path : ledger.plan.paths) {
    const bool fits = std::all_of(path.begin() + 1, path.end() - 1, [&](NodeId relay) { return room[relay] > 0; });
    if (!fits) continue;
    auto& flow = flows.emplace_back();
    for (const auto node : path) flow.push_back(node.value());
    for (std::size_t at = 1; at + 1 < path.size(); ++at) --room[path[at]];
  }
  return flows;
}

void LocalRouting::start(bool settled) {
  const auto& plan = context_.ledger.plan;
  const auto self = context_.options.self;
  generation_ = context_.stamp();
  anew_ = false;
  members_.clear();
  peers_.clear();
  up_.clear();
  lost_.clear();
  greeted_.clear();
  links_.clear();
  timers_.clear();
  const int around = context_.stages() + 1;
  std::vector<std::uint32_t> sizes(static_cast<std::size_t>(around));
  for (const auto& member : plan.members) {
    if (member.listener) continue;
    members_.push_back(member);
    ++sizes[member.stage.value()];
  }
  flow::AgentSetup setup;
  setup.id = self.value();
  setup.data_node = stage_ == StageId(0);
  setup.first_stage = stage_ == StageId(1);
  setup.last_stage = stage_.value() == context_.stages();
  setup.nodes = members_.size();
  setup.seed = mix64(mix64(generation_.epoch, generation_.iteration.value()), self.value());
  setup.settled = settled;
  if (const auto* own = member_of(plan, self)) setup.capacity = own->slots;
  if (setup.data_node)
    setup.capacity = static_cast<std::int32_t>(
        std::count_if(plan.paths.begin(), plan.paths.end(), [&](const auto& path) { return path.front() == self; }));
  agent_ = flow::make_agent(context_.options.run.router, setup);
  agent_->start(standing_flows());
  for (const auto& member : members_) {
    const int away = (member.stage.value() - stage_.value() + around) % around;
    if (member.node == self || (away > 1 && away != around - 1)) continue;
    const auto largest = std::bit_ceil(std::max(sizes[member.stage.value()], sizes[stage_.value()]));
    const auto [low, high] = std::minmax(self, member.node);
    if (largest > kMostPeers && mix64(low.value(), high.value()) % largest >= kMostPeers) continue;
    peers_[member.node] = member.stage;
  }
  for (const auto& [peer, stage] : peers_) {
    if (!context_.reachable(peer)) {
      lost_.insert(peer);
      agent_->peer_lost(peer.value());
      continue;
    }
    if (is_peer(peer, -1)) greet(peer);
    if (!is_peer(peer, 0) || setup.data_node) continue;
    up_.insert(peer);
    agent_->link_up(flow::AgentSide::kBeside, peer.value(), 0);
  }
  flush();
}

bool LocalRouting::is_peer(NodeId node, int away) const {
  const int around = context_.stages() + 1;
  const auto at = peers_.find(node);
  return at != peers_.end() && at->second.value() == (stage_.value() + away + around) % around;
}

flow::Cost LocalRouting::compute_us() const {
  const auto time = context_.forward_time(stage_).count() / 1000;
  return time > 0 ? std::min<flow::Cost>(time, flow::kMostLinkCost) : kUnknownCompute;
}

void LocalRouting::greet(NodeId peer) {
  told_compute_ = compute_us();
  say(peer, Kind::kGreet, {static_cast<std::uint64_t>(told_compute_)});
}

// Once its compute time and the way to it are known, and when they have changed by more than they waver.
void LocalRouting::link(NodeId peer) {
  const auto delay = context_.detector.link_delay(peer);
  const bool new_link = !links_.contains(peer);
  if (delay == Duration::zero()) {
    context_.send(peer, wire::Ping{static_cast<std::uint64_t>(context_.now.time_since_epoch().count())});
    return;
  }
  double cost = static_cast<double>(compute_us() + greeted_.at(peer)) / 2 + to_seconds(delay) * 1e6 / 2;
  if (const auto rate = context_.detector.kilobytes_per_s(peer); rate > 0)
    cost += 1e3 * static_cast<double>(context_.options.run.payload_bytes) / rate;
  const auto rounded = static_cast<flow::Cost>(std::min(cost, static_cast<double>(flow::kMostLinkCost)));
  if (!new_link && !differs(rounded, links_[peer])) return;
  links_[peer] = rounded;
  say(peer, Kind::kLinkCost, {static_cast<std::uint64_t>(rounded)});
  up_.insert(peer);
  agent_->link_up(flow::AgentSide::kNext, peer.value(), rounded);
}

void LocalRouting::say(NodeId to, Kind kind, std::vector<std::uint64_t> words) {
  words.insert(words.begin(), static_cast<std::uint64_t>(kind));
  ++context_.counters.routing_messages;
  context_.send(to, wire::Routing{generation_, std::move(words)});
}

void LocalRouting::receive(NodeId from, const wire::Routing& message) {
  if (!used_ || from == context_.options.self) return;
  const auto now = context_.stamp();
  if (message.stamp > now || (message.stamp == now && !member_)) {
    if (early_.size() >= kMostEarly) early_.pop_front();
    early_.emplace_back(from, message);
    return;
  }
  if (!agent_) return;
  if (message.stamp == now && generation_ < now) start(true);
  if (message.stamp != generation_) {
    // Others are ahead, and when they began this node did not hear of it.
    if (message.stamp > generation_) anew_ = true;
    return;
  }
  take(from, message.words);
  flush();
}

void LocalRouting::take(NodeId from, const std::vector<std::uint64_t>& words) {
  const auto ill_formed = [&] { ++context_.counters.ill_formed; };
  if (words.empty() || words[0] > static_cast<std::uint64_t>(Kind::kBye)) return ill_formed();
  // Another plan's members may see this node as their neighbour.
  if (lost_.contains(from) || !peers_.contains(from)) {
    ++context_.counters.dropped;
    return;
  }
  const auto kind = static_cast<Kind>(words[0]);
  if (kind == Kind::kBye) return peer_lost(from);
  if (kind == Kind::kAgent) {
    if (!up_.contains(from)) {
      ++context_.counters.dropped;
    } else if (!agent_->receive(from.value(), std::span(words).subspan(1))) {
      ill_formed();
    }
    return;
  }
  if (words.size() != 2 || words[1] > static_cast<std::uint64_t>(flow::kMostLinkCost)) return ill_formed();
  const auto cost = static_cast<flow::Cost>(words[1]);
  if (kind == Kind::kGreet && is_peer(from, 1)) {
    greeted_[from] = cost;
    link(from);
  } else if (kind == Kind::kLinkCost && is_peer(from, -1)) {
    up_.insert(from);
    agent_->link_up(flow::AgentSide::kLast, from.value(), cost);
  } else {
    ill_formed();
  }
}

void LocalRouting::peer_lost(NodeId peer) {
  if (!agent_ || !peers_.contains(peer) || !lost_.insert(peer).second) return;
  // If it lives, it must not go on with what this node has given up.
  if (!context_.dead.contains(peer)) say(peer, Kind::kBye, {});
  up_.erase(peer);
  greeted_.erase(peer);
  links_.erase(peer);
  agent_->peer_lost(peer.value());
  flush();
}

void LocalRouting::measured(NodeId peer) {
  if (!agent_ || !greeted_.contains(peer) || links_.contains(peer)) return;
  link(peer);
  flush();
}

Duration LocalRouting::usual_delay() const {
  Duration sum{};
  int count = 0;
  for (const auto& [peer, cost] : links_) {
    sum += context_.detector.link_delay(peer);
    ++count;
  }
  return count == 0 ? kUnknownDelay : std::max(sum / count, milliseconds(2));
}

void LocalRouting::flush() {
  for (auto& message : agent_->take_outbox()) {
    const NodeId to(message.to);
    if (up_.contains(to)) say(to, Kind::kAgent, std::move(message.words));
  }
  for (const auto timer : agent_->take_timers()) {
    const double wait = (timer == flow::AgentTimer::kQuiet ? kQuiet : kHoldDown) * to_seconds(usual_delay());
    timers_[timer] = context_.now + seconds(wait);
  }
}

void LocalRouting::tick() {
  if (!agent_ || context_.now < next_wake()) return;
  std::vector<flow::AgentTimer> due;
  for (const auto& [timer, at] : timers_)
    if (context_.now >= at) due.push_back(timer);
  for (const auto timer : due) timers_.erase(timer);
  for (const auto timer : due) agent_->timer(timer);
  flush();
}

Time LocalRouting::next_wake() const {
  Time wake = kNever;
  for (const auto& [timer, at] : timers_) wake = std::min(wake, at);
  return wake;
}

void LocalRouting::fill(wire::Report& report) const {
  if (!agent_ || generation_.epoch != context_.ledger.epoch) return;
  for (const auto& flow : agent_->flows())
    report.flows.push_back({flow.id, NodeId(flow.next), flow.next_id, flow.units});
}

}  // namespace tributary::swarm
