// Logging as events with keys. The header names no logging library, since Debian's and LibTorch's copies of fmt do not
// share a translation unit. Thread-safe. The sink is process-wide; without one, warnings and errors go to stderr.
#pragma once
#include <functional>
#include <initializer_list>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

namespace tributary::log {

enum class Level { kDebug, kInfo, kWarning, kError };

struct Field {
  template <class T>
  Field(std::string_view k, const T& v) : key(k) {
    if constexpr (std::is_convertible_v<T, std::string_view>) {
      value = std::string_view(v);
    } else if constexpr (requires { v.value(); }) {
      value = std::to_string(v.value());
    } else {
      std::ostringstream out;
      out << v;
      value = out.str();
    }
  }
  std::string key;
  std::string value;
};

using Sink = std::function<void(Level, std::string_view line)>;
void set_sink(Sink sink, Level least);
bool enabled(Level level);
// Writes `event key=value key="value with blanks"`.
void event(Level level, std::string_view name, std::initializer_list<Field> fields = {});

inline void debug(std::string_view name, std::initializer_list<Field> fields = {}) {
  event(Level::kDebug, name, fields);
}
inline void info(std::string_view name, std::initializer_list<Field> fields = {}) { event(Level::kInfo, name, fields); }
inline void warning(std::string_view name, std::initializer_list<Field> fields = {}) {
  event(Level::kWarning, name, fields);
}
inline void error(std::string_view name, std::initializer_list<Field> fields = {}) {
  event(Level::kError, name, fields);
}

}  // namespace tributary::log
