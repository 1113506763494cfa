// A node's process, started by this one: its lines, its end, signals to it. One thread.
#pragma once
#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace tributary::app {

class Child {
 public:
  // `arguments` without the program's own name; the program is this one. `errors`: a file for its standard error.
  static Result<Child> start(const std::vector<std::string>& arguments, const std::filesystem::path& errors);
  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;
  // Kills it if it still runs.
  ~Child();

  pid_t pid() const { return pid_; }
  int output() const { return output_; }  // to poll
  // Whole lines that have come; never blocks.
  std::vector<std::string> read_lines();
  void signal(int number) const;
  // How it ended, once it has: an exit code, or 128 + signal. Never blocks.
  std::optional<int> ended();

 private:
  Child(pid_t pid, int output) : pid_(pid), output_(output) {}
  void release();
  pid_t pid_ = -1;
  int output_ = -1;
  std::string partial_;
};

}  // namespace tributary::app
