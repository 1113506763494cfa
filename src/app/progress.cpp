#include "app/progress.h"

#include <unistd.h>

#include <cmath>
#include <cstdio>

namespace tributary::app {

std::string format_duration(double seconds) {
  const auto total = static_cast<long long>(std::llround(std::fmax(0, std::fmin(seconds, 1e9))));
  char text[48];
  if (total >= 3600) {
    std::snprintf(text, sizeof text, "%lldh%02lldm", total / 3600, total / 60 % 60);
  } else if (total >= 60) {
    std::snprintf(text, sizeof text, "%lldm%02llds", total / 60, total % 60);
  } else {
    std::snprintf(text, sizeof text, "%llds", total);
  }
  return text;
}

std::string format_progress(const ProgressLine& line) {
  char text[160];
  std::snprintf(text, sizeof text, "iteration %llu/%llu  loss %.4f  %.0f tokens/s  %s left",
                static_cast<unsigned long long>(line.iteration), static_cast<unsigned long long>(line.iterations),
                line.loss, line.tokens_per_s, format_duration(line.seconds_left).c_str());
  return line.extra.empty() ? text : text + ("  " + line.extra);
}

Progress::Progress() : terminal_(::isatty(STDOUT_FILENO) == 1) {}

void Progress::update(const ProgressLine& line) {
  if (terminal_) {
    std::printf("\r%s\033[K", format_progress(line).c_str());
    open_ = true;
  } else {
    std::printf("%s\n", format_progress(line).c_str());
  }
  std::fflush(stdout);
}

void Progress::say(const std::string& text) {
  if (open_) std::printf("\n");
  open_ = false;
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

}  // namespace tributary::app
