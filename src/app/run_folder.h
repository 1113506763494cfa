// runs/NAME/: the resolved configuration, metrics.jsonl, checkpoints/, model/. One process at a time writes to it: a
// lock file says so. One thread.
#pragma once
#include <filesystem>
#include <string>

#include "app/run_config.h"

namespace tributary::app {

class RunFolder {
 public:
  // Makes the folder, or opens it to resume. Errors: in use by another process; made with a configuration that would
  // lead to other weights (the keys are named).
  static Result<RunFolder> open(const std::filesystem::path& runs, const RunConfig& config);
  RunFolder(RunFolder&& other) noexcept;
  RunFolder& operator=(RunFolder&&) = delete;
  ~RunFolder();

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  std::filesystem::path model() const { return path_ / "model"; }

  // Drops the lines of `from` and later iterations, which a resumed run writes again.
  Result<void> rewind_metrics(std::uint64_t from);
  // Appends one object as a line.
  Result<void> write_metrics(const std::string& json);

 private:
  RunFolder(std::filesystem::path path, int lock) : path_(std::move(path)), lock_(lock) {}
  std::filesystem::path path_;
  int lock_;
};

}  // namespace tributary::app
