// Any bytes, cut in any way, into the frame decoder: no crash, no read out of bounds, no memory beyond the limits.
#include <algorithm>
#include <cstring>

#include "net/frame.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tributary::net;
  if (size < 2) return 0;
  FrameDecoder decoder({.max_control = 1 << 12, .max_payload = 1 << 20});
  if (data[0] & 1) decoder.open();
  const std::size_t piece = data[1] + std::size_t{1};
  auto bytes = std::as_bytes(std::span(data, size)).subspan(2);
  // The fuzzer cannot guess checksums: with bit 1 it gives the fields, and the frame is sealed here.
  std::vector<std::byte> sealed;
  if (data[0] & 2) {
    while (bytes.size() >= 8) {
      const std::size_t body = std::min(static_cast<std::size_t>(bytes[1]) * 4, bytes.size() - 8);
      std::uint32_t value = 0;
      std::memcpy(&value, &bytes[2], 4);
      append_frame(sealed, static_cast<FrameKind>(bytes[0]), bytes.subspan(8, body), value);
      bytes = bytes.subspan(8 + body);
    }
    bytes = sealed;
  }
  while (!bytes.empty()) {
    const auto room = decoder.want();
    if (room.empty()) __builtin_trap();
    const std::size_t count = std::min({room.size(), bytes.size(), piece});
    std::memcpy(room.data(), bytes.data(), count);
    bytes = bytes.subspan(count);
    const auto frame = decoder.filled(count);
    if (!frame.ok()) break;
    if (*frame && ((*frame)->message.control.size() > (1 << 12) || payload_size((*frame)->message.payload) > (1 << 20)))
      __builtin_trap();
  }
  return 0;
}
