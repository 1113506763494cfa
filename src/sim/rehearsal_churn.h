// What a scenario says happens to machines, done to a simulated world: crashes by chance or by a trace, spot markets,
// sites that go down, freezes, partitions, links that are late. Deterministic by its seed.
#pragma once
#include <functional>
#include <vector>

#include "base/random.h"
#include "sim/conditions.h"
#include "sim/scenario.h"
#include "sim/world.h"

namespace tributary::sim {

class RehearsalChurn {
 public:
  // All outlive it; `specs` by node.
  RehearsalChurn(const Scenario& scenario, const std::vector<NodeSpec>& specs, std::uint64_t seed, World& world,
                 Conditions& conditions);
  RehearsalChurn(const RehearsalChurn&) = delete;
  RehearsalChurn& operator=(const RehearsalChurn&) = delete;

  std::function<void()> on_crash = [] {};
  // What has a time of its own since the swarm's beginning: events, partitions.
  void schedule_fixed();
  // What happens by chance; to be called when the first iteration that counts begins.
  void begin();
  // To be called when an iteration begins; `crash_free_s` is how long one takes without trouble.
  void iteration_begins(double crash_free_s);

 private:
  bool may_crash(std::uint32_t node) const;
  void crash(std::uint32_t node);
  void gone(std::uint32_t node);  // vanishes, and comes back
  void give_notice(std::uint32_t node);
  void happen(const ScenarioChurn::Event& event);
  // `action` again and again, at exponential intervals.
  void at_random(double per_hour, std::function<void()> action);
  void site_goes_down(const std::string& site);
  void set_partition(const ScenarioChurn::Partition& partition, bool begins);
  bool cut(std::uint32_t from, std::uint32_t to) const;
  bool by_chance(std::uint32_t node) const { return scenario_.machines[node].stage != 0 || scenario_.churn.data_nodes; }

  const Scenario& scenario_;
  const std::vector<NodeSpec>& specs_;
  Random random_;
  World& world_;
  Conditions& conditions_;
  std::vector<const ScenarioChurn::Partition*> partitions_;  // those that are on
};

}  // namespace tributary::sim
