#include "app/jobs.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace tributary::app {

bool run_jobs(const Jobs& jobs) {
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t next = 0, finished = 0;
  std::vector<std::size_t> untold;
  bool stopping = false;
  const auto work = [&] {
    for (;;) {
      std::size_t job;
      {
        const std::lock_guard lock(mutex);
        if (stopping || next == jobs.count) return;
        job = next++;
      }
      jobs.run(job);
      const std::lock_guard lock(mutex);
      untold.push_back(job);
      changed.notify_one();
    }
  };
  const unsigned wanted = jobs.threads > 0 ? jobs.threads : std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> threads;
  for (std::size_t k = 0; k < std::min<std::size_t>(wanted, jobs.count); ++k) threads.emplace_back(work);
  std::unique_lock lock(mutex);
  while (finished < (stopping ? next : jobs.count)) {
    changed.wait_for(lock, std::chrono::milliseconds(100), [&] { return !untold.empty(); });
    const auto told = std::exchange(untold, {});
    finished += told.size();
    lock.unlock();
    for (const std::size_t job : told) jobs.done(job);
    const bool stop = jobs.stop();
    lock.lock();
    stopping |= stop;
  }
  lock.unlock();
  for (auto& thread : threads) thread.join();
  return finished == jobs.count;
}

}  // namespace tributary::app
