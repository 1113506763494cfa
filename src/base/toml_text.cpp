#include "base/toml_text.h"

#include <algorithm>
#include <string>

namespace tributary {
namespace {

// Behind the text that begins at `at` with its quotes; the end if it is never closed.
std::size_t end_of_text(std::string_view toml, std::size_t at) {
  const char quote = toml[at];
  const bool basic = quote == '"';
  const bool several_lines = toml.substr(at, 3) == std::string_view(basic ? "\"\"\"" : "'''");
  const std::size_t quotes = several_lines ? 3 : 1;
  for (at += quotes; at < toml.size(); ++at) {
    if (basic && toml[at] == '\\') {
      ++at;
    } else if (!several_lines && toml[at] == '\n') {
      return at;  // an error, and the reader's to name
    } else if (toml.substr(at, quotes) == std::string(quotes, quote)) {
      return at + quotes;
    }
  }
  return toml.size();
}

}  // namespace

std::optional<std::size_t> line_of_stray_letter(std::string_view toml) {
  std::size_t at = toml.substr(0, 3) == "\xEF\xBB\xBF" ? 3 : 0;
  while (at < toml.size()) {
    const char c = toml[at];
    if (c == '"' || c == '\'') {
      at = end_of_text(toml, at);
    } else if (c == '#') {
      at = std::min(toml.size(), toml.find('\n', at));
    } else if (static_cast<unsigned char>(c) >= 0x80) {
      return 1 +
             static_cast<std::size_t>(std::count(toml.begin(), toml.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
    } else {
      ++at;
    }
  }
  return std::nullopt;
}

}  // namespace tributary
