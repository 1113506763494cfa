// Guards the TOML reader: toml++ 3.3 runs into undefined behaviour on some letters beyond ASCII where no key may have
// them (outside texts and comments). TOML allows none there anyway, so such files are refused before it sees them.
#pragma once
#include <cstddef>
#include <optional>
#include <string_view>

namespace tributary {

// The line (from 1) of the first byte beyond ASCII that is neither in a text nor in a comment; a byte order mark at the
// start is none. Nothing: there is no such byte.
std::optional<std::size_t> line_of_stray_letter(std::string_view toml);

}  // namespace tributary
