#include "app/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "text/files.h"

namespace tributary::app {
namespace {

constexpr std::uint64_t kMaxMetricsBytes = 1ull << 30;

// The lines of `after` that are not in `before`.
std::string differences(const std::string& before, const std::string& after) {
  std::istringstream lines(after);
  std::string line, found;
  while (std::getline(lines, line)) {
    if (("\n" + before).find("\n" + line + "\n") != std::string::npos) continue;
    if (!found.empty()) found += "; ";
    found += line;
  }
  return found;
}

}  // namespace

Result<RunFolder> RunFolder::open(const std::filesystem::path& runs, const RunConfig& config) {
  const auto path = runs / config.name;
  if (auto made = text::make_folder(path); !made) return made.error();
  const int lock = ::open((path / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock < 0) return Error{"cannot write in " + path.string() + ": " + std::strerror(errno)};
  RunFolder folder(path, lock);
  if (::flock(lock, LOCK_EX | LOCK_NB) != 0) {
    return Error{"the run \"" + config.name +
                 "\" is being trained by another process; wait for it, or give another name"};
  }
  const auto file = path / "config.toml";
  std::error_code error;
  if (std::filesystem::exists(file, error)) {
    ConfigSources sources;
    sources.file = file;
    sources.environment = false;
    auto before = load_run_config(sources);
    if (!before) return Error{"the run's own configuration cannot be read: " + before.error().message};
    const auto old_keys = resume_fingerprint(*before), new_keys = resume_fingerprint(config);
    if (old_keys != new_keys) {
      return Error{"the run \"" + config.name +
                   "\" exists with another configuration; it differs in: " + differences(old_keys, new_keys) +
                   ". Give another name (--set name=...), or remove " + path.string()};
    }
  }
  if (auto written = text::write_file(file, write_run_config(config)); !written) return written.error();
  return folder;
}

RunFolder::RunFolder(RunFolder&& other) noexcept : path_(std::move(other.path_)), lock_(other.lock_) {
  other.lock_ = -1;
}

RunFolder::~RunFolder() {
  if (lock_ >= 0) ::close(lock_);
}

Result<void> RunFolder::rewind_metrics(std::uint64_t from) {
  const auto file = path_ / "metrics.jsonl";
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return {};
  auto text = text::read_file(file, kMaxMetricsBytes);
  if (!text) return text.error();
  std::istringstream lines(*text);
  std::string line, kept;
  while (std::getline(lines, line)) {
    const auto object = nlohmann::json::parse(line, nullptr, false);
    if (!object.is_object() || !object.contains("iteration") || !object["iteration"].is_number_unsigned()) continue;
    // Deaths and the like have happened, whatever becomes of the iteration in which they did.
    if (object.contains("event") || object["iteration"].get<std::uint64_t>() < from) kept += line + "\n";
  }
  return text::write_file(file, kept);
}

Result<void> RunFolder::write_metrics(const std::string& json) {
  std::ofstream out(path_ / "metrics.jsonl", std::ios::app);
  out << json << '\n';
  out.flush();
  if (!out) return Error{"cannot write " + (path_ / "metrics.jsonl").string() + ": " + std::strerror(errno)};
  return {};
}

}  // namespace tributary::app
