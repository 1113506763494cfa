// Any bytes as a Hello or a rejection: refused, or encoded again to the same bytes.
#include <algorithm>

#include "net/hello.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tributary::net;
  const auto bytes = std::as_bytes(std::span(data, size));
  if (const auto hello = decode_hello(bytes); hello.ok())
    if (!std::ranges::equal(encode(*hello), bytes)) __builtin_trap();
  if (const auto reject = decode_reject(bytes); reject.ok())
    if (!std::ranges::equal(encode(*reject), bytes)) __builtin_trap();
  return 0;
}
