// Progress on standard output: one line that is rewritten on a terminal, plain lines elsewhere. One thread.
#pragma once
#include <cstdint>
#include <string>

namespace tributary::app {

struct ProgressLine {
  std::uint64_t iteration = 0;  // done
  std::uint64_t iterations = 0;
  double loss = 0;
  double tokens_per_s = 0;
  double seconds_left = 0;
  std::string extra;  // anything more, put behind
};

class Progress {
 public:
  Progress();
  void update(const ProgressLine& line);
  // A line that stays.
  void say(const std::string& text);

 private:
  bool terminal_;
  bool open_ = false;  // a rewritten line stands unfinished
};

std::string format_duration(double seconds);  // 1h02m, 3m07s, 12s
std::string format_progress(const ProgressLine& line);

}  // namespace tributary::app
