// UTF-8, as strictly as Unicode defines it (no surrogates, no overlong forms).
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tributary::text {

// Reads the code point at `at` and moves `at` behind it; none where the bytes are not valid UTF-8.
inline std::optional<std::uint32_t> next_code_point(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  if (at >= text.size()) return std::nullopt;
  const std::uint8_t lead = byte(at);
  if (lead < 0x80) {
    ++at;
    return lead;
  }
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() - at < length) return std::nullopt;
  std::uint32_t point = lead & (0x7fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return std::nullopt;
    point = (point << 6) | (byte(at + i) & 0x3fu);
  }
  constexpr std::uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  if (point < least[length] || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff)) return std::nullopt;
  at += length;
  return point;
}

// The offset of the first byte that is not valid UTF-8; none if all is valid.
inline std::optional<std::size_t> find_invalid_utf8(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    if (!next_code_point(text, at)) return at;
  }
  return std::nullopt;
}

inline void append_utf8(std::string& out, std::uint32_t point) {
  if (point < 0x80) {
    out += static_cast<char>(point);
  } else if (point < 0x800) {
    out += static_cast<char>(0xc0 | (point >> 6));
    out += static_cast<char>(0x80 | (point & 0x3f));
  } else if (point < 0x10000) {
    out += static_cast<char>(0xe0 | (point >> 12));
    out += static_cast<char>(0x80 | ((point >> 6) & 0x3f));
    out += static_cast<char>(0x80 | (point & 0x3f));
  } else {
    out += static_cast<char>(0xf0 | (point >> 18));
    out += static_cast<char>(0x80 | ((point >> 12) & 0x3f));
    out += static_cast<char>(0x80 | ((point >> 6) & 0x3f));
    out += static_cast<char>(0x80 | (point & 0x3f));
  }
}

// Makes valid UTF-8 of bytes that arrive in pieces: whole characters go on, what cannot become one is U+FFFD.
class Utf8Stream {
 public:
  std::string push(std::string_view bytes) {
    waiting_ += bytes;
    return take(false);
  }
  std::string finish() { return take(true); }

 private:
  std::string take(bool all) {
    std::string out;
    std::size_t at = 0;
    while (at < waiting_.size()) {
      const std::size_t begin = at;
      if (next_code_point(waiting_, at)) {
        out.append(waiting_, begin, at - begin);
        continue;
      }
      if (!all && could_continue(std::string_view(waiting_).substr(at))) break;
      append_utf8(out, 0xfffd);
      ++at;
    }
    waiting_.erase(0, at);
    return out;
  }
  // Whether more bytes may make a character of these.
  static bool could_continue(std::string_view bytes) {
    const auto lead = static_cast<std::uint8_t>(bytes[0]);
    const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || bytes.size() >= length) return false;
    for (const char c : bytes.substr(1)) {
      if ((static_cast<std::uint8_t>(c) & 0xc0) != 0x80) return false;
    }
    return true;
  }
  std::string waiting_;
};

}  // namespace tributary::text
