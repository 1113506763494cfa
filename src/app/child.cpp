#include "app/child.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

extern char** environ;

namespace tributary::app {

Result<Child> Child::start(const std::vector<std::string>& arguments, const std::filesystem::path& errors) {
  int pipe_ends[2];
  if (::pipe2(pipe_ends, O_CLOEXEC) != 0) return Error{std::string("cannot make a pipe: ") + std::strerror(errno)};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, errors.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  // Ctrl-C in the terminal is for the supervisor alone: it decides what its nodes do.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  std::vector<std::string> words = {"tributary"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t pid = -1;
  const int failed = ::posix_spawn(&pid, "/proc/self/exe", &actions, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  ::close(pipe_ends[1]);
  if (failed != 0) {
    ::close(pipe_ends[0]);
    return Error{std::string("cannot start a node's process: ") + std::strerror(failed)};
  }
  ::fcntl(pipe_ends[0], F_SETFL, O_NONBLOCK);
  return Child(pid, pipe_ends[0]);
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      output_(std::exchange(other.output_, -1)),
      partial_(std::move(other.partial_)) {}

Child& Child::operator=(Child&& other) noexcept {
  if (this == &other) return *this;
  release();
  pid_ = std::exchange(other.pid_, -1);
  output_ = std::exchange(other.output_, -1);
  partial_ = std::move(other.partial_);
  return *this;
}

Child::~Child() { release(); }

void Child::release() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  if (output_ >= 0) ::close(output_);
  pid_ = output_ = -1;
}

std::vector<std::string> Child::read_lines() {
  char buffer[4096];
  ssize_t count;
  while (output_ >= 0 && (count = ::read(output_, buffer, sizeof buffer)) > 0)
    partial_.append(buffer, static_cast<std::size_t>(count));
  std::vector<std::string> lines;
  std::size_t end;
  while ((end = partial_.find('\n')) != std::string::npos) {
    lines.push_back(partial_.substr(0, end));
    partial_.erase(0, end + 1);
  }
  return lines;
}

void Child::signal(int number) const {
  if (pid_ > 0) ::kill(pid_, number);
}

std::optional<int> Child::ended() {
  if (pid_ <= 0) return 0;
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace tributary::app
