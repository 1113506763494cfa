#include "app/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

namespace tributary::app {
namespace {

std::atomic<int> signals_seen = 0;
std::atomic<const char*> message = nullptr;
static_assert(std::atomic<int>::is_always_lock_free, "used in a signal handler");

void handle(int signal) {
  if (signals_seen.fetch_add(1) > 0) _exit(128 + signal);
  if (const char* text = message) {
    const auto written = ::write(STDERR_FILENO, text, std::strlen(text));
    (void)written;
  }
}

}  // namespace

void catch_interrupts(const char* first_message) {
  message = first_message;
  struct sigaction action {};
  action.sa_handler = handle;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool interrupted() { return signals_seen > 0; }

}  // namespace tributary::app
