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

}  // namespace

void add_flow_commands(CLI::App& flow, int& code) { add_solve(flow, code); }
void add_sim_commands(CLI::App& sim, int& code) { add_play(sim, code); }

}  // namespace tributary::app
