// Any bytes as a message, a ledger or a voter's log: refused, or a value that survives its own round trip.
#include "wire/codec.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tributary::wire;
  const auto bytes = std::as_bytes(std::span(data, size));
  if (const auto body = decode(bytes, {.bytes = 1 << 16, .items = 1 << 12, .text = 1 << 10}); body.ok()) {
    const auto again = encode(*body);
    const auto back = decode(again);
    if (!back.ok() || back->index() != body->index() || encode(*back) != again) __builtin_trap();
    if (name_of(*body) == nullptr) __builtin_trap();
  }
  if (const auto log = decode_log(bytes); log.ok()) {
    const auto again = encode_log(*log);
    const auto back = decode_log(again);
    if (!back.ok() || encode_log(*back) != again) __builtin_trap();
  }
  (void)decode_ledger(bytes);
  return 0;
}
