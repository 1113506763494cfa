// Independent jobs in several threads, watched by the one that called.
#pragma once
#include <cstddef>
#include <functional>

namespace tributary::app {

struct Jobs {
  std::size_t count = 0;
  unsigned threads = 0;                       // 0: one for each core
  std::function<void(std::size_t job)> run;   // on any thread, in no order
  std::function<void(std::size_t job)> done;  // on the caller's thread, soon after each
  std::function<bool()> stop;                 // asked on the caller's thread, some ten times a second
};
// Returns when all are done, or, once `stop` says so, when those that run have ended (they are told to `done`).
// Returns whether all were done.
bool run_jobs(const Jobs& jobs);

}  // namespace tributary::app
