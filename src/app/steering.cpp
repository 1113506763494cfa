#include "app/steering.h"

#include <cstdio>

#include "base/log.h"

namespace tributary::app {
namespace {

constexpr timespec kLook{0, 50'000'000};  // between two looks at the control file

}  // namespace

Steering::Steering() {
  sigemptyset(&set_);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaddset(&set_, signal);
  pthread_sigmask(SIG_BLOCK, &set_, nullptr);
}

void Steering::start(std::filesystem::path folder) {
  folder_ = std::move(folder);
  heed_control();
  thread_ = std::jthread([this](std::stop_token stop) { serve(stop); });
}

void Steering::steer(node::Process& process) {
  const std::lock_guard lock(mutex_);
  process_ = &process;
  left_for_pause_ = false;
  if (control_.black_hole) process_->set_black_hole(true);
  if (control_.paused) {
    left_for_pause_ = true;
    process_->ask_to_leave();
  }
  if (ending_) process_->stop_now();
}

void Steering::release() {
  const std::lock_guard lock(mutex_);
  process_ = nullptr;
}

bool Steering::paused() {
  const std::lock_guard lock(mutex_);
  return left_for_pause_ && !ending_;
}

bool Steering::wait_for_resume() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !control_.paused || ending_; });
  return !ending_;
}

void Steering::serve(std::stop_token stop) {
  while (!stop.stop_requested()) {
    if (const int signal = sigtimedwait(&set_, nullptr, &kLook); signal > 0) heed_signal(signal);
    heed_control();
  }
}

void Steering::heed_signal(int signal) {
  const std::lock_guard lock(mutex_);
  if (signal == SIGUSR1) {
    process_ ? process_->ask_to_halt() : void(ending_ = true);
  } else if (!process_) {
    ending_ = true;  // nothing to finish first
  } else if (asked_++ == 0) {
    std::fprintf(stderr, "leaving after this iteration; once more to stop at once\n");
    left_for_pause_ = false;
    process_->ask_to_leave();
  } else {
    process_->stop_now();
  }
  changed_.notify_all();
}

void Steering::heed_control() {
  const auto now = read_control(folder_);
  if (!now) return;  // a file that is being repaired; what was asked before holds
  const std::lock_guard lock(mutex_);
  const auto before = std::exchange(control_, *now);
  if (before == control_) return;
  if (process_ && before.black_hole != control_.black_hole) process_->set_black_hole(control_.black_hole);
  if (process_ && control_.paused && !before.paused && asked_ == 0) {
    log::info("pause");
    left_for_pause_ = true;
    process_->ask_to_leave();
  }
  changed_.notify_all();
}

}  // namespace tributary::app
