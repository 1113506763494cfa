// The commands of the flow laboratory: `flow ...` and the parts of `sim ...` that need no protocol. Each returns an
// exit code, as in commands.h.
#pragma once
#include <cstdint>
#include <filesystem>

#include "app/commands.h"

namespace CLI {
class App;
}

namespace tributary::app {

struct SimPlayArguments {
  std::filesystem::path file;
  bool json = false;
};
// A fixed scenario through the cost model.
int sim_play(const SimPlayArguments& arguments);

// Add the laboratory's subcommands; their exit codes go to `code`, which must outlive the parsing.
void add_flow_commands(CLI::App& flow, int& code);
void add_sim_commands(CLI::App& sim, int& code);

}  // namespace tributary::app
