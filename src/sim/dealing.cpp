#include "sim/dealing.h"

#include <algorithm>

namespace tributary::sim {

const std::vector<std::string>& dealing_rules() {
  static const std::vector<std::string> rules = {"dtfm"};
  return rules;
}

flow::PredictWorld predict_world(const Scenario& scenario, std::int32_t launched) {
  flow::PredictWorld world;
  for (const auto& machine : scenario.machines) {
    const bool data = machine.stage == 0;
    world.nodes.push_back({machine.stage, data ? 0 : machine.compute_s, data ? machine.compute_s : 0,
                           data ? launched : static_cast<std::int32_t>(machine.slots)});
  }
  world.latency_s = scenario.latency_s;
  world.bandwidth_Bps = scenario.bandwidth_Bps;
  world.message_bytes = scenario.message_bytes;
  world.backward_ratio = scenario.backward_ratio;
  world.aggregation_bytes = scenario.aggregation_bytes;
  return world;
}

Result<Dealing> deal_relays(const std::string& rule, std::uint64_t seed, Scenario& scenario) {
  const auto& rules = dealing_rules();
  if (std::find(rules.begin(), rules.end(), rule) == rules.end())
    return Error{"no rule is called \"" + rule + "\"; there is dtfm"};
  if (scenario.machines.empty()) return Error{"the scenario has no machines to deal to stages"};
  const std::size_t relays = scenario.machines.size() - scenario.data_nodes();
  if (relays > kMostDealtRelays)
    return Error{std::to_string(relays) + " relays; the search takes at most " + std::to_string(kMostDealtRelays)};
  const auto world = predict_world(scenario, static_cast<std::int32_t>(scenario.microbatches_per_data_node));
  if (const auto good = world.check(); !good) return good.error();
  Dealing dealing;
  dealing.before = flow::dtfm_cost(world);
  const auto placement = flow::dtfm_place(world, seed);
  dealing.after = placement.cost;
  for (std::size_t k = 0; k < scenario.machines.size(); ++k) {
    scenario.machines[k].stage = static_cast<std::uint16_t>(placement.stage[k]);
    dealing.stage.push_back(scenario.machines[k].stage);
  }
  scenario.lower_bound_s = 0;
  return dealing;
}

}  // namespace tributary::sim
