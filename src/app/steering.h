// What steers a node from outside while it runs: signals and its control file, on a thread of its own. SIGTERM and the
// first SIGINT leave politely, SIGUSR1 halts the run, a second SIGINT or SIGTERM stops at once.
#pragma once
#include <signal.h>

#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <thread>

#include "app/control.h"
#include "node/process.h"

namespace tributary::app {

class Steering {
 public:
  // Blocks the signals. Before any other thread exists, so that all inherit it.
  Steering();
  // `folder`: the node's. Requires no earlier call.
  void start(std::filesystem::path folder);
  // What is asked goes to `process` until release(). One at a time.
  void steer(node::Process& process);
  void release();
  // Whether the last process was asked to leave by a pause. Call it between processes.
  bool paused();
  // Blocks while a pause is asked. False: the node is to end instead of coming back.
  bool wait_for_resume();

 private:
  void serve(std::stop_token stop);
  void heed_signal(int signal);
  void heed_control();

  sigset_t set_;
  std::filesystem::path folder_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  node::Process* process_ = nullptr;  // this and the following: guarded by mutex_
  Control control_;
  bool left_for_pause_ = false;
  bool ending_ = false;
  int asked_ = 0;
  std::jthread thread_;
};

}  // namespace tributary::app
