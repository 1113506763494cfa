#include <CLI/CLI.hpp>
#include <memory>

#include "app/lab_commands.h"

namespace tributary::app {
namespace {

void add_solve(CLI::App& flow, int& code) {
  auto arguments = std::make_shared<FlowSolveArguments>();
  auto* command = flow.add_subcommand("solve", "Route a network with one router");
  command->add_option("file", arguments->file, "network (JSON)")->required();
  command->add_option("--router", arguments->router, "gwtf | swarm | optimal")->capture_default_str();
  command->add_option("--seed", arguments->seed, "of the router's random choices")->capture_default_str();
  command->add_flag("--json", arguments->json, "print flows, count, cost, messages and rounds as JSON");
  command->footer("Example: tributary flow solve tests/data/flow/thesis-6x6-one-source.json --router gwtf");
  command->callback([arguments, &code] { code = flow_solve(*arguments); });
}

void add_play(CLI::App& sim, int& code) {
  auto arguments = std::make_shared<SimPlayArguments>();
  auto* command = sim.add_subcommand("play", "Play a fixed scenario: one iteration, every task and message");
  command->add_option("file", arguments->file, "scenario (JSON)")->required();
  command->add_flag("--json", arguments->json, "print the object that such files call `expected`");
  command->footer("Example: tributary sim play tests/data/sim/crash-backward-repair.json --json");
  command->callback([arguments, &code] { code = sim_play(*arguments); });
}

void add_chaos(CLI::App& sim, int& code) {
  auto arguments = std::make_shared<SimChaosArguments>();
  auto* command = sim.add_subcommand("chaos", "A swarm under churn, drawn from a seed and checked");
  command->add_option("--seed", arguments->seed, "the first seed; the same seed gives the same events")
      ->capture_default_str();
  command->add_option("--seeds", arguments->seeds, "how many seeds")->capture_default_str();
  command->add_flag("--log", arguments->log, "print what happens to machines, and every commit");
  command->add_flag("--json", arguments->json, "print the findings and counters as JSON");
  command->footer("Example: tributary sim chaos --seed 1 --seeds 200");
  command->callback([arguments, &code] { code = sim_chaos(*arguments); });
}

void add_run(CLI::App& sim, int& code) {
  auto arguments = std::make_shared<SimRunArguments>();
  auto* command = sim.add_subcommand("run", "Rehearse a swarm: how long its iterations take, and why");
  command->add_option("scenario", arguments->scenario, "scenario (TOML) or world file (.json)")->required();
  command->add_option("--seed", arguments->seed, "the same seed gives the same events")->capture_default_str();
  command->add_option("--router", arguments->router, "instead of the scenario's");
  command->add_option("--iterations", arguments->iterations, "instead of the scenario's");
  command->add_option("--churn", arguments->churn, "each relay crashes in an iteration with this probability")
      ->check(CLI::Range(0.0, 1.0));
  command->add_option("--trace", arguments->trace, "write what every machine did, for Perfetto");
  command->add_flag("--json", arguments->json, "print everything as JSON");
  command->footer("Example: tributary sim run examples/ten-locations.toml --churn 0.1 --trace trace.json");
  command->callback([arguments, &code] { code = sim_run(*arguments); });
}

}  // namespace

void add_flow_commands(CLI::App& flow, int& code) { add_solve(flow, code); }
void add_sim_commands(CLI::App& sim, int& code) {
  add_run(sim, code);
  add_play(sim, code);
  add_chaos(sim, code);
}

}  // namespace tributary::app
