#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "text/files.h"

namespace tributary::app {
namespace {

constexpr std::uint64_t kMostStatusBytes = 1 << 20;

bool runs_here(const nlohmann::json& status) {
  const auto pid = status.value("pid", 0);
  return pid > 0 && (::kill(pid, 0) == 0 || errno == EPERM);
}

}  // namespace

int status(const StatusArguments& arguments) {
  const auto nodes = arguments.run / "nodes";
  std::error_code error;
  if (!std::filesystem::is_directory(nodes, error))
    return fail(arguments.run.string() + " is not a run's folder with nodes; give runs/NAME of a run with relays");
  nlohmann::json all = nlohmann::json::array();
  for (const auto& entry : std::filesystem::directory_iterator(nodes, error)) {
    const auto text = text::read_file(entry.path() / "status.json", kMostStatusBytes);
    if (!text) continue;
    auto status = nlohmann::json::parse(*text, nullptr, false);
    if (!status.is_object() || !status.contains("id")) continue;
    const auto state = status.value("state", "");
    const bool ended = state == "left" || state == "finished" || state == "stopped";
    if (!ended && !runs_here(status)) status["state"] = "dead";
    if (ended || status["state"] == "dead") status.erase("pid");
    all.push_back(std::move(status));
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a["id"] < b["id"]; });
  if (arguments.json) {
    std::printf("%s\n", nlohmann::json{{"run", arguments.run.string()}, {"nodes", all}}.dump(1).c_str());
    return kDone;
  }
  std::printf("%-10s %-9s %5s  %-19s %9s %7s  %-21s %s\n", "node", "role", "stage", "state", "iteration", "repairs",
              "address", "pid");
  std::string why;
  for (const auto& node : all) {
    const bool dead = !node.contains("pid");
    std::printf("%-10s %-9s %5s  %-19s %9s %7s  %-21s %s\n", node["id"].dump().c_str(), node.value("role", "").c_str(),
                node["stage"].dump().c_str(), node.value("state", "").c_str(), node["iteration"].dump().c_str(),
                node["repairs"].dump().c_str(), node.value("address", "").c_str(),
                dead ? "-" : node["pid"].dump().c_str());
    if (!dead && node.value("leading", false) && !node.value("why", "").empty()) why = node.value("why", "");
  }
  if (!why.empty()) std::printf("waiting for %s\n", why.c_str());
  return kDone;
}

}  // namespace tributary::app
