// Relays of a scenario dealt to its stages anew before it is played, by a published rule. Pure and deterministic.
#pragma once
#include <string>
#include <vector>

#include "flow/dtfm_placement.h"
#include "sim/scenario.h"

namespace tributary::sim {

// "dtfm".
const std::vector<std::string>& dealing_rules();

// What the cost model sees of a scenario; a data node launches at most `launched` microbatches at a time.
flow::PredictWorld predict_world(const Scenario& scenario, std::int32_t launched);

struct Dealing {
  flow::DtfmCost before, after;
  std::vector<std::uint16_t> stage;  // by machine, as they are now
};
// Each stage keeps its number of machines, in any order of these numbers; data nodes stay. The scenario's lower bound,
// which held for its former placement, is forgotten. Errors: the rule's name; no machines; too many relays.
Result<Dealing> deal_relays(const std::string& rule, std::uint64_t seed, Scenario& scenario);
inline constexpr std::size_t kMostDealtRelays = 500;

}  // namespace tributary::sim
