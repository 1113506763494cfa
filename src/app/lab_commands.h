// The commands of the flow laboratory: `flow ...` and the parts of `sim ...` that need no protocol. Each returns an
// exit code, as in commands.h.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "app/commands.h"

namespace CLI {
class App;
}

namespace tributary::app {

struct FlowCompareArguments {
  std::vector<std::filesystem::path> files;
  std::vector<std::string> routers;  // empty: all
  std::uint64_t seeds = 5;
  bool json = false;
};
// A table of flows, cost, gap, messages and rounds.
int flow_compare(const FlowCompareArguments& arguments);

struct FlowGenerateArguments {
  std::size_t data_nodes = 1, stages = 8, relays = 8;
  std::int32_t least_capacity = 1, most_capacity = 5;
  bool ten_locations = false;
  std::uint64_t seed = 1;
  std::filesystem::path out;  // empty: standard output
};
int flow_generate(const FlowGenerateArguments& arguments);

struct FlowJoinArguments {
  std::filesystem::path file;    // a joining problem; or
  std::vector<int> tests;        // joining tests of the GWTF thesis, by number
  std::string rule = "planned";  // or "gwtf"
  std::size_t rebalance = 0;     // tries of GWTF's exchanges of stages before anybody joins
  std::uint64_t networks = 10;   // drawn for each test
  std::uint64_t seed = 1;
  std::filesystem::path write;  // the problem of a test, instead of solving it
  bool json = false;
};
// On which stage newcomers serve, and what that is worth; or the table of the tests.
int flow_join(const FlowJoinArguments& arguments);

struct FlowPlaceArguments {
  std::filesystem::path file;  // a scenario or a world file
  std::string rule = "dtfm";   // of sim::dealing_rules()
  std::uint64_t seed = 1;
  bool json = false;
};
// On which stages all relays serve by a published rule, and what that is worth by its own measure.
int flow_place(const FlowPlaceArguments& arguments);

struct SimPlayArguments {
  std::filesystem::path file;
  bool json = false;
};
// A fixed scenario through the cost model.
int sim_play(const SimPlayArguments& arguments);

struct SimCompareArguments {
  std::vector<std::filesystem::path> files;  // scenarios or world files
  std::vector<std::string> policies;         // empty: all
  bool ablate = false;                       // instead: the protocol, and the protocol without each of its ideas
  std::string place;  // of sim::dealing_rules(): relays are dealt to the stages anew; empty: as the files say
  std::vector<double> churn = {0, 0.1, 0.2};
  std::uint64_t seeds = 1;
  std::uint64_t iterations = 11;
  unsigned jobs = 0;             // threads; 0: one for each core
  std::filesystem::path resume;  // folder of finished cells; empty: a new one, removed at the end
  std::filesystem::path html;    // page to write; empty: none
  bool json = false;
};
// Published baselines, our policy in the same event model, and the protocol itself: a table, and a page with plots.
// Ctrl-C ends it with kFailed and says how to go on.
int sim_compare(const SimCompareArguments& arguments);

struct SimSearchArguments {
  std::filesystem::path scenario;  // empty: swarms drawn as in `sim chaos`
  std::uint64_t seed = 1;
  std::uint64_t seeds = 0;  // 0: until the time is over
  double minutes = 0;       // 0: no limit; with both 0, one minute
  bool json = false;
};
// Seeds until a rule is broken or the budget ends; a failing one is shrunk. Fails if one was found.
int sim_search(const SimSearchArguments& arguments);

// Add the laboratory's subcommands; their exit codes go to `code`, which must outlive the parsing.
void add_flow_commands(CLI::App& flow, int& code);
void add_sim_commands(CLI::App& sim, int& code);

}  // namespace tributary::app
