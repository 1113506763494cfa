#include <cstdio>
#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "app/control.h"
#include "app/node_status.h"

namespace tributary::app {

int status(const StatusArguments& arguments) {
  const auto nodes = arguments.run / "nodes";
  std::error_code error;
  if (!std::filesystem::is_directory(nodes, error))
    return fail(arguments.run.string() + " is not a run's folder with nodes; give runs/NAME of a run with relays");
  const auto all = node_statuses(arguments.run);
  const auto control = read_control(arguments.run);
  const bool paused = control && control->paused;
  if (arguments.json) {
    std::printf("%s\n",
                nlohmann::json{{"run", arguments.run.string()}, {"paused", paused}, {"nodes", all}}.dump(1).c_str());
    return kDone;
  }
  std::printf("%-10s %-9s %5s  %-19s %9s %7s  %12s  %-21s %s\n", "node", "role", "stage", "state", "iteration",
              "repairs", "MiB (cap)", "address", "pid");
  std::string why;
  for (const auto& node : all) {
    const bool dead = !node.contains("pid");
    const auto cap = node.value("memory_mib", std::uint64_t{0});
    const auto memory = std::to_string(node.value("resident_mib", std::uint64_t{0})) +
                        (cap > 0 ? " (" + std::to_string(cap) + ")" : "");
    std::printf("%-10s %-9s %5s  %-19s %9s %7s  %12s  %-21s %s\n", node["id"].dump().c_str(),
                node.value("role", "").c_str(), node["stage"].dump().c_str(), node.value("state", "").c_str(),
                node["iteration"].dump().c_str(), node["repairs"].dump().c_str(), dead ? "-" : memory.c_str(),
                node.value("address", "").c_str(), dead ? "-" : node["pid"].dump().c_str());
    if (!dead && !node.value("fault", "").empty())
      std::printf("  node %s: %s\n", node["id"].dump().c_str(), node.value("fault", "").c_str());
    if (!dead && node.value("leading", false) && !node.value("why", "").empty()) why = node.value("why", "");
  }
  if (paused) {
    std::printf("the run is paused; `tributary resume %s` goes on\n", arguments.run.c_str());
    return kDone;
  }
  if (!why.empty()) std::printf("waiting for %s\n", why.c_str());
  return kDone;
}

}  // namespace tributary::app
