// `flow place`: on which stages all relays of a scenario serve, by a published rule.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "app/lab_commands.h"
#include "app/scenario_file.h"
#include "sim/dealing.h"

namespace tributary::app {
namespace {

using Json = nlohmann::ordered_json;

Json cost_json(const flow::DtfmCost& cost) {
  return {{"data_parallel_s", cost.data_parallel_s}, {"pipeline_s", cost.pipeline_s}, {"total_s", cost.total_s()}};
}

}  // namespace

int flow_place(const FlowPlaceArguments& arguments) {
  auto loaded = load_scenario(arguments.file);
  if (!loaded) return fail(loaded.error().message);
  auto& scenario = loaded->scenario;
  const auto former = scenario.machines;
  const auto dealing = sim::deal_relays(arguments.rule, arguments.seed, scenario);
  if (!dealing) return fail(arguments.file.string() + ": " + dealing.error().message);
  if (arguments.json) {
    Json out = {{"scenario", scenario.name},
                {"rule", arguments.rule},
                {"before", cost_json(dealing->before)},
                {"after", cost_json(dealing->after)}};
    for (std::size_t k = 0; k < former.size(); ++k)
      out["machines"].push_back(
          {{"node", k}, {"site", former[k].site}, {"stage", dealing->stage[k]}, {"former_stage", former[k].stage}});
    std::printf("%s\n", out.dump().c_str());
    return kDone;
  }
  for (std::uint16_t stage = 0; stage <= scenario.stages(); ++stage) {
    std::printf(stage == 0 ? "data nodes:" : "stage %u:", static_cast<unsigned>(stage));
    for (std::size_t k = 0; k < former.size(); ++k)
      if (dealing->stage[k] == stage)
        std::printf(" %zu%s", k, former[k].site.empty() ? "" : (" (" + former[k].site + ")").c_str());
    std::printf("\n");
  }
  const auto say = [](const char* when, const flow::DtfmCost& cost) {
    std::printf("%s: %.2f s = %.2f s for sums within a stage + %.2f s over the dearest links between stages\n", when,
                cost.total_s(), cost.data_parallel_s, cost.pipeline_s);
  };
  say("before", dealing->before);
  say("after", dealing->after);
  return kDone;
}

}  // namespace tributary::app
