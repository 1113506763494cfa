#include "app/node_status.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>

#include "node/process.h"
#include "text/files.h"

namespace tributary::app {
namespace {

constexpr std::uint64_t kMostStatusBytes = 1 << 20;

bool runs_here(const nlohmann::json& status) {
  const auto pid = status.value("pid", 0);
  return pid > 0 && (::kill(pid, 0) == 0 || errno == EPERM);
}

}  // namespace

std::optional<nlohmann::json> node_status(const std::filesystem::path& folder) {
  const auto text = text::read_file(node::status_path(folder), kMostStatusBytes);
  if (!text) return std::nullopt;
  auto status = nlohmann::json::parse(*text, nullptr, false);
  if (!status.is_object() || !status.contains("id")) return std::nullopt;
  const auto state = status.value("state", "");
  const bool ended = state == "left" || state == "finished" || state == "stopped";
  if (!ended && !runs_here(status)) status["state"] = "dead";
  if (ended || status["state"] == "dead") status.erase("pid");
  return status;
}

std::vector<nlohmann::json> node_statuses(const std::filesystem::path& run) {
  std::vector<nlohmann::json> all;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(run / "nodes", error))
    if (auto status = node_status(entry.path())) all.push_back(std::move(*status));
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a["id"] < b["id"]; });
  return all;
}

}  // namespace tributary::app
