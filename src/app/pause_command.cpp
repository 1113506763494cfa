#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "app/commands.h"
#include "app/control.h"
#include "app/node_status.h"
#include "app/swarm_setup.h"

namespace tributary::app {
namespace {

// Whether a `tributary train` watches over the run on this machine: it holds the folder's lock.
bool supervised(const std::filesystem::path& run) {
  const int lock = ::open((run / "lock").c_str(), O_RDONLY | O_CLOEXEC);
  if (lock < 0) return false;
  const bool held = ::flock(lock, LOCK_EX | LOCK_NB) != 0;
  ::close(lock);
  return held;
}

std::string name_of(std::uint64_t node) { return "node " + std::to_string(node); }

Result<void> may_pause(const PauseArguments& arguments, const nlohmann::json& status) {
  ConfigSources sources;
  sources.file = arguments.run / "config.toml";
  sources.environment = false;
  const auto config = load_run_config(sources);
  if (!config) return config.error();
  const auto votes = voters(*config);
  if (std::find(votes.begin(), votes.end(), NodeId(static_cast<std::uint32_t>(*arguments.node))) != votes.end())
    return Error{name_of(*arguments.node) +
                 " is a voter, and the run needs its vote: pause the whole run instead, or give the run three voters "
                 "(swarm.voters = 3) and stop this one"};
  if (!status.contains("pid")) return Error{name_of(*arguments.node) + " does not run on this machine; nothing to do"};
  return {};
}

// The run's nodes on this machine, where no supervisor is: the one that leads heeds the signal.
int halt_without_supervisor(const std::filesystem::path& run) {
  int told = 0;
  for (const auto& node : node_statuses(run))
    if (node.contains("pid") && ::kill(node["pid"].get<int>(), SIGUSR1) == 0) ++told;
  if (told == 0) return fail("no node of " + run.string() + " runs on this machine");
  std::printf(
      "%d nodes here were told; the run stops after this iteration with a checkpoint if one of them leads.\n"
      "Start the nodes again to go on.\n",
      told);
  return kDone;
}

int set(const PauseArguments& arguments, bool paused) {
  std::error_code error;
  if (!std::filesystem::is_directory(arguments.run / "nodes", error))
    return fail(arguments.run.string() +
                " is not a run's folder with nodes; a run of one process is paused by Ctrl-C, and resumed by the same "
                "command");
  auto folder = arguments.run;
  if (arguments.node) {
    folder = node_folder(arguments.run, NodeId(static_cast<std::uint32_t>(*arguments.node)));
    if (!std::filesystem::is_directory(folder, error))
      return fail("there is no " + name_of(*arguments.node) + " in " + arguments.run.string() +
                  "; `tributary status` lists them");
    const auto status = node_status(folder);
    if (auto may = may_pause(arguments, status ? *status : nlohmann::json::object()); paused && !may)
      return fail(may.error().message);
  } else if (!supervised(arguments.run)) {
    return paused ? halt_without_supervisor(arguments.run)
                  : fail("no `tributary train` watches over " + arguments.run.string() +
                         "; start it, or the nodes, again to go on");
  }
  auto control = read_control(folder);
  if (!control) control = Control{};
  control->paused = paused;
  if (auto written = write_control(folder, *control); !written) return fail(written.error().message);
  const auto who = arguments.node ? name_of(*arguments.node) : std::string("the run");
  std::printf("%s %s\n", who.c_str(), paused ? "pauses after this iteration" : "goes on");
  return kDone;
}

}  // namespace

int pause(const PauseArguments& arguments) { return set(arguments, true); }
int resume(const PauseArguments& arguments) { return set(arguments, false); }

}  // namespace tributary::app
