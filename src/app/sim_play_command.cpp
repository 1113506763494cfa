#include <cstdio>
#include <nlohmann/json.hpp>

#include "app/lab_commands.h"
#include "flow/scenario_file.h"

namespace tributary::app {

int sim_play(const SimPlayArguments& arguments) {
  const auto scenario = flow::load_scenario(arguments.file.string());
  if (!scenario) return fail(scenario.error().message);
  const auto played = flow::play_scenario_json(*scenario);
  if (!played) return fail(arguments.file.string() + ": " + played.error().message);
  if (arguments.json) {
    std::printf("%s\n", played->c_str());
    return kDone;
  }
  const auto answer = nlohmann::json::parse(*played);
  for (std::size_t k = 0; k < scenario->plan.microbatches.size(); ++k)
    std::printf("microbatch %u done at %s s\n", scenario->plan.microbatches[k].id,
                answer["microbatch_done_s"][k].dump().c_str());
  for (const auto& detection : answer["detections"])
    std::printf("node %s notices at %s s that %s is dead\n", detection["node"].dump().c_str(),
                detection["t"].dump().c_str(), detection["dead"].dump().c_str());
  std::printf("%zu tasks and %zu messages completed; the pipeline ends at %s s, the iteration at %s s\n",
              answer["completed_tasks"].size(), answer["completed_sends"].size(),
              answer["pipeline_end_s"].dump().c_str(), answer["iteration_end_s"].dump().c_str());
  return kDone;
}

}  // namespace tributary::app
