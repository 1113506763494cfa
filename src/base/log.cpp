#include "base/log.h"

#include <atomic>
#include <cstdio>
#include <mutex>

namespace tributary::log {
namespace {

std::mutex sink_mutex;
Sink current_sink;  // guarded by sink_mutex
std::atomic<Level> least_level = Level::kWarning;

void append_value(std::string& line, const std::string& value) {
  if (!value.empty() && value.find_first_of(" \"\n=") == std::string::npos) {
    line += value;
    return;
  }
  line += '"';
  for (const char c : value) {
    if (c == '"' || c == '\\') line += '\\';
    if (c == '\n') {
      line += "\\n";
      continue;
    }
    line += c;
  }
  line += '"';
}

}  // namespace

void set_sink(Sink sink, Level least) {
  const std::lock_guard lock(sink_mutex);
  current_sink = std::move(sink);
  least_level = least;
}

bool enabled(Level level) { return level >= least_level.load(std::memory_order_relaxed); }

void event(Level level, std::string_view name, std::initializer_list<Field> fields) {
  if (!enabled(level)) return;
  std::string line(name);
  for (const auto& field : fields) {
    line += ' ';
    line += field.key;
    line += '=';
    append_value(line, field.value);
  }
  const std::lock_guard lock(sink_mutex);
  if (current_sink) {
    current_sink(level, line);
  } else {
    std::fprintf(stderr, "%s\n", line.c_str());
  }
}

}  // namespace tributary::log
