#include "sim/conditions.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tributary::sim {

Conditions::Conditions(const Scenario& scenario, std::uint64_t seed)
    : scenario_(scenario), seed_(seed), downlink_free_(scenario.machines.size()) {
  for (const auto& site : scenario.sites) sites_.push_back({site.uplink_Bps, site.downlink_Bps, {}, {}});
  for (std::size_t i = 0; i < scenario.machines.size(); ++i) {
    stalls_.push_back({Random(mix64(mix64(seed, i), 0x7374616c6c)), {}, {}});
    const auto at = std::find_if(scenario.sites.begin(), scenario.sites.end(),
                                 [&](const auto& site) { return site.name == scenario.machines[i].site; });
    site_of_.push_back(at == scenario.sites.end() ? -1 : static_cast<int>(at - scenario.sites.begin()));
  }
}

// The factor that holds now, and when the next one begins.
Time Conditions::next_change(const std::vector<SlownessStep>& trace, Time now, double& factor) const {
  const double at = to_seconds(now.time_since_epoch());
  const auto next = std::upper_bound(trace.begin(), trace.end(), at,
                                     [](double t, const SlownessStep& step) { return t < step.at_s; });
  factor = next == trace.begin() ? 1 : std::prev(next)->factor;
  return next == trace.end() ? kNever : std::max(now + Duration(1), Time(seconds(next->at_s)));
}

Duration Conditions::task_takes(NodeId node, Time begin, Duration work) {
  const auto& machine = scenario_.machines[node.value()];
  if (machine.trace < 0 && machine.stalls_per_hour <= 0) return work;
  auto& stalls = stalls_[node.value()];
  auto now = begin;
  double left = static_cast<double>(work.count());
  while (left > 0) {
    double factor = 1;
    auto until = kNever;
    if (machine.trace >= 0) until = next_change(scenario_.traces[static_cast<std::size_t>(machine.trace)], now, factor);
    if (machine.stalls_per_hour > 0) {
      while (stalls.end <= now) {
        stalls.begin = stalls.end + seconds(std::min(1e9, stalls.random.exponential(3600 / machine.stalls_per_hour)));
        stalls.end =
            stalls.begin + seconds(std::min(1e9, stalls.random.exponential(machine.stall_mean_s))) + Duration(1);
      }
      if (stalls.begin <= now) {
        now = stalls.end;
        continue;
      }
      until = std::min(until, stalls.begin);
    }
    const double needs = left * factor;
    if (until == kNever || needs <= static_cast<double>((until - now).count())) {
      now += Duration(static_cast<std::int64_t>(std::ceil(needs)));
      break;
    }
    left -= static_cast<double>((until - now).count()) / factor;
    now = until;
  }
  return now - begin;
}

Duration Conditions::latency(NodeId from, NodeId to, Time now) const {
  const auto n = scenario_.machines.size();
  double latency = scenario_.latency_s[from.value() * n + to.value()];
  for (const auto node : {from, to})
    if (const auto at = late_until_.find(node); at != late_until_.end() && now < at->second)
      latency += scenario_.churn.delay_s;
  return seconds(latency);
}

double Conditions::bandwidth(NodeId from, NodeId to, Time now) const {
  const auto pair = from.value() * scenario_.machines.size() + to.value();
  const double rate = scenario_.bandwidth_Bps[pair];
  if (scenario_.drift_share == 0) return rate;
  const double phase = static_cast<double>(mix64(seed_, pair) >> 11) * 0x1p-53;
  const double turns = to_seconds(now.time_since_epoch()) / scenario_.drift_period_s + phase;
  return rate * (1 + scenario_.drift_share * std::sin(2 * std::numbers::pi * turns));
}

Time Conditions::beyond_uplink(NodeId from, NodeId to, double bytes, Time begin, Time end) {
  const auto through = [&](double rate, Time& free) {
    if (rate <= 0) return;
    end = std::max(end, std::max(free, begin) + seconds(bytes / rate));
    free = end;
  };
  const int here = site_of_[from.value()], there = site_of_[to.value()];
  const bool leaves = scenario_.machines[from.value()].site != scenario_.machines[to.value()].site;
  if (leaves && here >= 0)
    through(sites_[static_cast<std::size_t>(here)].uplink_Bps, sites_[static_cast<std::size_t>(here)].uplink_free);
  if (leaves && there >= 0)
    through(sites_[static_cast<std::size_t>(there)].downlink_Bps,
            sites_[static_cast<std::size_t>(there)].downlink_free);
  through(scenario_.machines[to.value()].downlink_Bps, downlink_free_[to.value()]);
  return end;
}

}  // namespace tributary::sim
