#include <CLI/CLI.hpp>
#include <memory>
#include <set>

#include "app/lab_commands.h"
#include "flow/joining.h"
#include "flow/router.h"
#include "sim/ablation.h"
#include "sim/compare.h"
#include "sim/dealing.h"
#include "sim/scenario.h"

namespace tributary::app {
namespace {

std::string routers() {
  std::string list;
  for (const auto& name : flow::router_names()) list += (list.empty() ? "" : " | ") + name;
  return list;
}

void add_solve(CLI::App& flow, int& code) {
  auto arguments = std::make_shared<FlowSolveArguments>();
  auto* command = flow.add_subcommand("solve", "Route a network with one router");
  command->add_option("file", arguments->file, "network (JSON)")->required();
  command->add_option("--router", arguments->router, routers())->capture_default_str();
  command->add_option("--seed", arguments->seed, "of the router's random choices")->capture_default_str();
  command->add_flag("--json", arguments->json, "print flows, count, cost, messages and rounds as JSON");
  command->footer("Example: tributary flow solve tests/data/flow/thesis-6x6-one-source.json --router planned");
  command->callback([arguments, &code] { code = flow_solve(*arguments); });
}

void add_compare(CLI::App& flow, int& code) {
  auto arguments = std::make_shared<FlowCompareArguments>();
  auto* command = flow.add_subcommand("compare", "Route networks with several routers: a table");
  command->add_option("files", arguments->files, "networks (JSON)")->required();
  command->add_option("--routers", arguments->routers, "of " + routers() + "; default: all")->delimiter(',');
  command->add_option("--seeds", arguments->seeds, "how many seeds each")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "print the rows as a JSON list");
  command->footer(
      "Example: tributary flow compare tests/data/flow/thesis-6x6-one-source.json --routers planned,gwtf --seeds 3");
  command->callback([arguments, &code] { code = flow_compare(*arguments); });
}

void add_generate(CLI::App& flow, int& code) {
  auto arguments = std::make_shared<FlowGenerateArguments>();
  auto* command = flow.add_subcommand("generate", "Draw a random network, the same for the same seed");
  command->add_option("--data-nodes", arguments->data_nodes)->check(CLI::Range(1, 1000))->capture_default_str();
  command->add_option("--stages", arguments->stages)->check(CLI::Range(1, 1000))->capture_default_str();
  command->add_option("--relays", arguments->relays, "of each stage")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  command->add_option("--least-capacity", arguments->least_capacity, "of a relay: flows at a time")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  command->add_option("--most-capacity", arguments->most_capacity)->check(CLI::Range(1, 1000))->capture_default_str();
  command->add_flag("--ten-locations", arguments->ten_locations,
                    "costs in ms between ten places of the world; otherwise 1 to 100 at random");
  command->add_option("--seed", arguments->seed)->capture_default_str();
  command->add_option("--out", arguments->out, "file to write; default: standard output");
  command->footer("Example: tributary flow generate --data-nodes 3 --ten-locations --seed 7 --out network.json");
  command->callback([arguments, &code] { code = flow_generate(*arguments); });
}

void add_join(CLI::App& flow, int& code) {
  auto arguments = std::make_shared<FlowJoinArguments>();
  std::set<int> numbers;
  for (const auto& test : flow::join_tests()) numbers.insert(test.number);
  auto* command = flow.add_subcommand("join", "On which stage newcomers serve: by the published rule, or planned");
  command->add_option("file", arguments->file, "joining problem (JSON): nodes on stages, and candidates");
  command->add_option("--rule", arguments->rule, "planned | gwtf")
      ->check(CLI::IsMember({"planned", "gwtf"}))
      ->capture_default_str();
  command
      ->add_option("--rebalance", arguments->rebalance,
                   "first, tries at exchanging two relays' stages, as published (e.g. 2000)")
      ->check(CLI::Range(0, 1'000'000));
  command
      ->add_option("--tests", arguments->tests,
                   "instead of a file: the GWTF thesis's tests, as a table with both rules")
      ->delimiter(',')
      ->check(CLI::IsMember(numbers));
  command->add_option("--networks", arguments->networks, "drawn for each test")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  command->add_option("--seed", arguments->seed)->capture_default_str();
  command->add_option("--write", arguments->write, "write a test's problem to this file instead");
  command->add_flag("--json", arguments->json, "print placements and costs, or the rows, as JSON");
  command->footer(
      "Example: tributary flow join examples/join-8x4.json --rule gwtf\n"
      "         tributary flow join --tests 1,2,3,4,5,7,9,10 --networks 10");
  command->callback([arguments, &code] { code = flow_join(*arguments); });
}

void add_place(CLI::App& flow, int& code) {
  auto arguments = std::make_shared<FlowPlaceArguments>();
  auto* command = flow.add_subcommand("place", "On which stages all relays of a scenario serve, by a published rule");
  command->add_option("file", arguments->file, "scenario (TOML) or world file (.json)")->required();
  command->add_option("--router", arguments->rule, "whose rule: dtfm")
      ->check(CLI::IsMember(sim::dealing_rules()))
      ->capture_default_str();
  command->add_option("--seed", arguments->seed, "of the search")->capture_default_str();
  command->add_flag("--json", arguments->json, "print stages and costs as JSON");
  command->footer(
      "Example: tributary flow place examples/ten-locations.toml\n"
      "What it is worth: tributary sim run examples/ten-locations.toml --place dtfm");
  command->callback([arguments, &code] { code = flow_place(*arguments); });
}

// `--place`, of the commands that play scenarios.
void add_place_option(CLI::App& command, std::string& place) {
  command.add_option("--place", place, "deal the relays to the stages anew first, by a published rule: dtfm")
      ->check(CLI::IsMember(sim::dealing_rules()));
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
  command->add_option("--strikes", arguments->strikes, "only these of each seed's: all, none, or 2,5 (as search says)");
  command->add_option("--without", arguments->without, "nodes that do not start, as in 3,4; needs --strikes");
  command->add_option("--iterations", arguments->iterations, "at most; needs --strikes");
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
  add_place_option(*command, arguments->place);
  command->add_option("--churn", arguments->churn, "each relay crashes in an iteration with this probability")
      ->check(CLI::Range(0.0, 1.0));
  command->add_option("--trace", arguments->trace, "write what every machine did, for Perfetto");
  command->add_flag("--check", arguments->check, "watch the protocol's rules, and fail if one is broken");
  std::string parts;
  for (const auto& part : sim::trouble_parts()) parts += (parts.empty() ? "" : " | ") + part;
  command->add_option("--without", arguments->without, "parts of its trouble to leave out: " + parts)->delimiter(',');
  std::string ideas;
  for (const auto& idea : sim::ideas()) ideas += (ideas.empty() ? "" : " | ") + idea.name;
  command->add_option("--off", arguments->off, "ideas that the protocol does without: " + ideas)->delimiter(',');
  command->add_flag("--json", arguments->json, "print everything as JSON");
  command->footer("Example: tributary sim run examples/ten-locations.toml --churn 0.1 --trace trace.json");
  command->callback([arguments, &code] { code = sim_run(*arguments); });
}

void add_sim_compare(CLI::App& sim, int& code) {
  auto arguments = std::make_shared<SimCompareArguments>();
  std::string policies;
  for (const auto& name : sim::compare_policies()) policies += (policies.empty() ? "" : " | ") + name;
  auto* command = sim.add_subcommand("compare", "Published methods, ours, and the protocol itself: a table and a page");
  command->add_option("files", arguments->files, "scenarios (TOML) or world files (.json)")->required();
  command
      ->add_option("--routers,--policies", arguments->policies,
                   "of " + policies + " | protocol/ROUTER | without/IDEA; default: the first six")
      ->delimiter(',');
  std::string ideas;
  for (const auto& idea : sim::ideas()) ideas += (ideas.empty() ? "" : ", ") + idea.name;
  command
      ->add_flag("--ablate", arguments->ablate,
                 "instead of routers: the protocol with each of its ideas off (" + ideas +
                     "), and what that changes, pair by pair")
      ->excludes("--routers");
  add_place_option(*command, arguments->place);
  command->add_option("--churn", arguments->churn, "probabilities that a relay crashes in an iteration")
      ->delimiter(',')
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command->add_option("--seeds", arguments->seeds, "runs of each file")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  command->add_option("--iterations", arguments->iterations, "of each run")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command->add_option("--jobs", arguments->jobs, "threads; 0: one for each core")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  command->add_option("--resume", arguments->resume, "folder of finished cells: go on with them, and add to them");
  command->add_option("--html", arguments->html, "write a page with plots, in one file");
  command->add_flag("--json", arguments->json,
                    "print the rows as a JSON list; with --ablate, an object of rows and ideas");
  command->footer(
      "Example: tributary sim compare examples/ten-locations.toml --churn 0,0.1 --seeds 3 --html comparison.html\n"
      "         tributary sim compare examples/ten-locations.toml --ablate --churn 0.1 --seeds 4 --resume ablation");
  command->callback([arguments, &code] { code = sim_compare(*arguments); });
}

void add_search(CLI::App& sim, int& code) {
  auto arguments = std::make_shared<SimSearchArguments>();
  auto* command = sim.add_subcommand("search", "Look for a seed that breaks a rule, and for the least of it that does");
  command->add_option("--scenario", arguments->scenario, "rehearse this scenario; default: swarms drawn from the seed");
  command->add_option("--seed", arguments->seed, "the first")->capture_default_str();
  command->add_option("--seeds", arguments->seeds, "how many at most; default: as many as fit in the time");
  command->add_option("--minutes", arguments->minutes, "how long at most; default: 1, or no limit with --seeds")
      ->check(CLI::Range(0.0, 1e5));
  command->add_flag("--json", arguments->json, "print what was found as JSON");
  command->footer("Example: tributary sim search --minutes 5");
  command->callback([arguments, &code] { code = sim_search(*arguments); });
}

}  // namespace

void add_flow_commands(CLI::App& flow, int& code) {
  add_solve(flow, code);
  add_compare(flow, code);
  add_generate(flow, code);
  add_join(flow, code);
  add_place(flow, code);
}
void add_sim_commands(CLI::App& sim, int& code) {
  add_run(sim, code);
  add_sim_compare(sim, code);
  add_play(sim, code);
  add_chaos(sim, code);
  add_search(sim, code);
}

}  // namespace tributary::app
