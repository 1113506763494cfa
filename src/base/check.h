// Assertions, on in release too: for what only this program can have caused.
#pragma once
#include <string>

namespace tributary {

// Prints the place and the message, then aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& message);

}  // namespace tributary

#define TRIBUTARY_CHECK(condition, message)                               \
  do {                                                                    \
    if (!(condition)) [[unlikely]]                                        \
      ::tributary::check_failed(__FILE__, __LINE__, #condition, message); \
  } while (false)
