// Fixed scenarios: one iteration of the cost model as a JSON file, and its outcome as JSON. The format is that of
// tests/data/sim (described in docs/methods.md). Bounded: file, nodes, microbatches, and hops in all.
#pragma once
#include <string>
#include <string_view>

#include "flow/predict.h"

namespace tributary::flow {

struct ScenarioFile {
  PredictWorld world;
  PredictPlan plan;
  PredictFaults faults;
};
inline constexpr std::size_t kMaxScenarioBytes = std::size_t{64} << 20;
inline constexpr std::size_t kMaxScenarioNodes = 1000;
inline constexpr std::size_t kMaxScenarioMicrobatches = 20000;
inline constexpr std::size_t kMaxScenarioHops = 1'000'000;

// Other keys than those of the format are ignored. Errors name the field.
Result<ScenarioFile> parse_scenario(std::string_view json);
Result<ScenarioFile> load_scenario(const std::string& path);

// Plays it: the object that the files call `expected`, on one line. Errors: a microbatch that never ends.
Result<std::string> play_scenario_json(const ScenarioFile& scenario);

}  // namespace tributary::flow
