// The commands of the program, one file each. Each returns an exit code: 0 done, 1 failed, 2 wrong use; errors go to
// standard error.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "app/run_config.h"

namespace tributary::app {

inline constexpr int kDone = 0, kFailed = 1, kWrongUse = 2;

struct TrainArguments {
  ConfigSources config;
  std::filesystem::path runs = "runs";
  std::string metrics;  // PORT or HOST:PORT for /metrics; empty: none
  bool single = false;  // one process, whatever swarm.relays says
};
int train(const TrainArguments& arguments);

struct NodeArguments {
  ConfigSources config;
  std::filesystem::path runs = "runs";
  std::filesystem::path invitation;  // instead of config, secret and join
  std::filesystem::path secret;      // empty: runs/NAME/secret
  std::optional<std::uint64_t> id;   // given by the configuration's places; a volunteer has none
  bool data_node = false;
  std::uint32_t stage = 0;  // wished for; 0: wherever needed
  bool only_stage = false;  // no other stage
  std::uint32_t slots = 4;
  std::vector<std::string> join;  // HOST:PORT of nodes to ask
  std::string listen = "127.0.0.1:0";
  std::string advertise;  // host that others dial; empty: as they see it
  std::string region;
  double slow = 1;
  double upload_mbps = 0;  // caps; 0: none
  double download_mbps = 0;
  std::uint64_t memory_mib = 0;  // for state, kept payloads and activations, beyond the program itself; 0: no cap
  std::uint32_t threads = 0;
  std::string metrics;       // PORT or HOST:PORT for /metrics; empty: none
  bool shared_disk = false;  // the run folder is the same for all nodes
  bool with_parent = false;  // end when the process that started this one ends
  bool json = false;
};
int node(const NodeArguments& arguments);

struct RunNewArguments {
  ConfigSources config;
  std::filesystem::path runs = "runs";
};
int run_new(const RunNewArguments& arguments);

struct RunInviteArguments {
  std::filesystem::path run;           // runs/NAME
  std::vector<std::string> addresses;  // empty: of the nodes known here
  std::filesystem::path out = "invitation.json";
};
int run_invite(const RunInviteArguments& arguments);

struct DoctorArguments {
  ConfigSources config;  // file empty: a small model
  std::filesystem::path runs = "runs";
  bool json = false;
};
int doctor(const DoctorArguments& arguments);

struct StatusArguments {
  std::filesystem::path run;  // runs/NAME
  bool json = false;
};
int status(const StatusArguments& arguments);

struct PauseArguments {
  std::filesystem::path run;          // runs/NAME
  std::optional<std::uint64_t> node;  // none: all of the run
};
int pause(const PauseArguments& arguments);
int resume(const PauseArguments& arguments);

struct FlowSolveArguments {
  std::filesystem::path file;
  std::string router = "planned";
  std::uint64_t seed = 1;
  bool json = false;
};
int flow_solve(const FlowSolveArguments& arguments);

struct SimChaosArguments {
  std::uint64_t seed = 1;
  std::uint64_t seeds = 1;       // so many, from `seed` on
  std::string strikes;           // of a search's finding: all, none, or a list; empty: as drawn from one generator
  std::string without;           // nodes that do not start
  std::uint64_t iterations = 0;  // at most; 0: as drawn
  bool log = false;
  bool json = false;
};
// Fails if a rule of the protocol is broken.
int sim_chaos(const SimChaosArguments& arguments);

struct SimRunArguments {
  std::filesystem::path scenario;  // TOML, or a world file (.json)
  std::uint64_t seed = 1;
  std::string router;                // empty: the scenario's
  std::uint64_t iterations = 0;      // 0: the scenario's
  std::string place;                 // of sim::dealing_rules(): relays are dealt to the stages anew; empty: as it is
  double churn = -1;                 // probability of a crash for each relay and iteration; below 0: the scenario's
  std::filesystem::path trace;       // empty: none
  bool check = false;                // the protocol's rules too
  std::vector<std::string> without;  // parts of its trouble that are left out
  std::vector<std::string> off;      // of sim::ideas(): what the protocol does without
  bool json = false;
};
// Fails if the swarm does not get to the scenario's end.
int sim_run(const SimRunArguments& arguments);

struct GenerateArguments {
  std::filesystem::path source;  // a run's folder, or a model's
  std::string prompt;
  std::uint32_t max_tokens = 200;
  double temperature = 0.8;
  std::uint32_t top_k = 50;
  std::uint64_t seed = 0;
};
int generate(const GenerateArguments& arguments);

struct InspectArguments {
  std::filesystem::path model, tokens, out;
};
// For developers: logits and gradients of a model folder, for comparison with other implementations.
int inspect(const InspectArguments& arguments);

struct TokensArguments {
  std::string tokenizer;
  std::filesystem::path texts;
};
// For developers: a JSON list of {"ids", "text"}, one for each text.
int inspect_tokens(const TokensArguments& arguments);

int run_command_line(int argc, char** argv);

// Prints "tributary: ..." to standard error and returns `code`.
int fail(const std::string& message, int code = kFailed);

}  // namespace tributary::app
