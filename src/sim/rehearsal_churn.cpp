#include "sim/rehearsal_churn.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace tributary::sim {

RehearsalChurn::RehearsalChurn(const Scenario& scenario, const std::vector<NodeSpec>& specs, std::uint64_t seed,
                               World& world, Conditions& conditions)
    : scenario_(scenario), specs_(specs), random_(mix64(seed, 0x72656865)), world_(world), conditions_(conditions) {}

bool RehearsalChurn::may_crash(std::uint32_t node) const {
  if (!world_.running(NodeId(node)) || !by_chance(node)) return false;
  if (!scenario_.churn.spare_last) return true;
  for (std::uint32_t i = 0; i < scenario_.machines.size(); ++i) {
    const auto* other = world_.node(NodeId(i));
    if (i == node || !other || other->stage() != world_.node(NodeId(node))->stage()) continue;
    if (other->phase() == swarm::Node::Phase::kWorking) return true;
  }
  return false;
}

void RehearsalChurn::gone(std::uint32_t node) {
  on_crash();
  world_.vanish(NodeId(node));
  const double away = random_.exponential(scenario_.churn.away_mean_s);
  world_.at(world_.now() + seconds(away), [this, node] {
    if (!world_.running(NodeId(node))) world_.start(specs_[node]);
  });
}

void RehearsalChurn::crash(std::uint32_t node) {
  if (may_crash(node)) gone(node);
}

// The market takes the machine back at its word's end, even if it has not finished leaving by then.
void RehearsalChurn::give_notice(std::uint32_t node) {
  if (!may_crash(node)) return;
  world_.ask_to_leave(NodeId(node));
  world_.at(world_.now() + seconds(scenario_.churn.notice_s), [this, node, starts = world_.starts(NodeId(node))] {
    if (world_.starts(NodeId(node)) != starts) return;
    if (world_.running(NodeId(node))) return gone(node);
    const double away = random_.exponential(scenario_.churn.away_mean_s);
    world_.at(world_.now() + seconds(away), [this, node] {
      if (!world_.running(NodeId(node))) world_.start(specs_[node]);
    });
  });
}

void RehearsalChurn::iteration_begins(double crash_free_s) {
  const auto& churn = scenario_.churn;
  if (churn.kind != ChurnKind::kPerIteration) return;
  for (std::uint32_t i = 0; i < scenario_.machines.size(); ++i) {
    if (!by_chance(i)) continue;
    const bool hit = random_.chance(churn.probability);
    const double at = random_.uniform() * crash_free_s;
    if (hit) world_.at(world_.now() + seconds(at), [this, i] { crash(i); });
  }
}

void RehearsalChurn::begin() {
  const auto& churn = scenario_.churn;
  std::set<std::string> sites;
  for (std::uint32_t i = 0; i < scenario_.machines.size(); ++i) {
    sites.insert(scenario_.machines[i].site);
    if (by_chance(i)) {
      if (churn.kind == ChurnKind::kPoisson) at_random(churn.per_node_hour, [this, i] { crash(i); });
      if (churn.kind == ChurnKind::kSpot) at_random(churn.per_node_hour, [this, i] { give_notice(i); });
      if (churn.kind == ChurnKind::kDiurnal) {
        // Thinning: drawn at the day's greatest rate, and passed over where the hour's is less.
        const double most = *std::max_element(churn.by_hour.begin(), churn.by_hour.end());
        at_random(churn.per_node_hour * most, [this, i, most] {
          const auto hour = static_cast<std::size_t>(to_seconds(world_.now().time_since_epoch()) / 3600) % 24;
          if (random_.chance(scenario_.churn.by_hour[hour] / most)) crash(i);
        });
      }
    }
    at_random(churn.freeze_per_node_hour, [this, i] {
      if (!world_.running(NodeId(i))) return;
      world_.freeze(NodeId(i));
      world_.at(world_.now() + seconds(random_.exponential(scenario_.churn.freeze_mean_s)),
                [this, i] { world_.thaw(NodeId(i)); });
    });
    at_random(churn.delay_per_node_hour, [this, i] {
      conditions_.delay_until(NodeId(i), world_.now() + seconds(random_.exponential(scenario_.churn.delay_mean_s)));
    });
  }
  for (const auto& site : sites) at_random(churn.site_per_hour, [this, site] { site_goes_down(site); });
  at_random(churn.leader_per_hour, [this] {
    for (const auto id : world_.nodes())
      if (world_.node(id)->leading()) return gone(id.value());
  });
}

void RehearsalChurn::at_random(double per_hour, std::function<void()> action) {
  if (per_hour <= 0) return;
  world_.at(world_.now() + seconds(std::min(1e9, random_.exponential(3600 / per_hour))), [this, per_hour, action] {
    action();
    at_random(per_hour, action);
  });
}

void RehearsalChurn::site_goes_down(const std::string& site) {
  const double down = random_.exponential(scenario_.churn.site_down_mean_s);
  for (std::uint32_t i = 0; i < scenario_.machines.size(); ++i) {
    if (scenario_.machines[i].site != site || !world_.running(NodeId(i))) continue;
    on_crash();
    world_.vanish(NodeId(i));
    world_.at(world_.now() + seconds(down), [this, i] {
      if (!world_.running(NodeId(i))) world_.start(specs_[i]);
    });
  }
}

void RehearsalChurn::schedule_fixed() {
  for (const auto& event : scenario_.churn.trace)
    world_.at(Time(seconds(event.at_s)), [this, &event] { happen(event); });
  for (const auto& partition : scenario_.churn.partitions) {
    world_.at(Time(seconds(partition.from_s)), [this, &partition] { set_partition(partition, true); });
    world_.at(Time(seconds(partition.to_s)), [this, &partition] { set_partition(partition, false); });
  }
}

void RehearsalChurn::happen(const ScenarioChurn::Event& event) {
  const NodeId id(event.node);
  if (event.what == "start") {
    if (!world_.running(id)) world_.start(specs_[event.node]);
  } else if (!world_.running(id)) {
    return;
  } else if (event.what == "crash") {
    on_crash();
    world_.vanish(id);
  } else if (event.what == "leave") {
    world_.ask_to_leave(id);
  } else if (event.what == "freeze") {
    world_.freeze(id);
  } else {
    world_.thaw(id);
  }
}

bool RehearsalChurn::cut(std::uint32_t from, std::uint32_t to) const {
  return std::any_of(partitions_.begin(), partitions_.end(), [&](const auto* partition) {
    const auto inside = [&](std::uint32_t node) {
      return std::find(partition->sites.begin(), partition->sites.end(), scenario_.machines[node].site) !=
             partition->sites.end();
    };
    return inside(from) != inside(to);
  });
}

void RehearsalChurn::set_partition(const ScenarioChurn::Partition& partition, bool begins) {
  if (begins) {
    partitions_.push_back(&partition);
  } else {
    std::erase(partitions_, &partition);
  }
  for (std::uint32_t from = 0; from < scenario_.machines.size(); ++from)
    for (std::uint32_t to = 0; to < scenario_.machines.size(); ++to) {
      if (from == to) continue;
      if (cut(from, to)) {
        world_.block(NodeId(from), NodeId(to), partition.lossy);
      } else {
        world_.heal(NodeId(from), NodeId(to));
      }
    }
}

}  // namespace tributary::sim
