// Frames: how messages are cut into pieces on a connection. Pure: no socket, no clock, no thread of its own; one owner.
//
// A frame is a header of 40 bytes, little-endian, and a body:
//   offset 0  magic "TRB1"            16  value: payload_begin the payload's size, payload_segment its offset, else 0
//          4  version of the layout   24  checksum64 of the body
//          5  kind                    32  checksum64 of bytes 0..31
//          6  flags, 0
//          8  body size  12  zero
// A message without payload is one `control` frame. One with payload is `payload_begin` (the control bytes) and then
// `payload_segment`s of at most 64 KiB in order; `control` frames may stand between them, so that a heartbeat does not
// wait for a tensor. One payload at a time is under way in each direction.
//
// Memory of a decoder: at most one control body (limits.max_control) and one payload (limits.max_payload), allocated
// only after the header's checksum and sizes were found good.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "net/message.h"

namespace tributary::net {

enum class FrameKind : std::uint8_t {
  kProof = 1,  // handshake frames: at most kMaxHandshakeBody bytes, refused once the connection is open
  kHello = 2,
  kAccept = 3,
  kReject = 4,
  kControl = 5,  // message frames: refused before
  kPayloadBegin = 6,
  kPayloadSegment = 7,
};

inline constexpr std::uint32_t kFrameMagic = 0x31425254;  // "TRB1"
inline constexpr std::uint8_t kFrameVersion = 1;
inline constexpr std::size_t kMaxSegment = 64 << 10;
inline constexpr std::size_t kMaxHandshakeBody = 2048;

struct FrameHeader {
  std::uint32_t magic = kFrameMagic;
  std::uint8_t version = kFrameVersion;
  FrameKind kind = FrameKind::kControl;
  std::uint16_t flags = 0;
  std::uint32_t body_size = 0;
  std::uint32_t zero = 0;
  std::uint64_t value = 0;
  std::uint64_t body_checksum = 0;
  std::uint64_t header_checksum = 0;
};
static_assert(sizeof(FrameHeader) == 40 && offsetof(FrameHeader, value) == 16 &&
              offsetof(FrameHeader, header_checksum) == 32);
inline constexpr std::size_t kFrameHeaderSize = sizeof(FrameHeader);

// Appends one frame to `out`.
void append_frame(std::vector<std::byte>& out, FrameKind kind, std::span<const std::byte> body,
                  std::uint64_t value = 0);

struct FrameLimits {
  std::size_t max_control = 1 << 20;
  std::size_t max_payload = std::size_t{1} << 30;
};

// A handshake frame (body in message.control) or a whole message (kind kControl or kPayloadBegin).
struct ReceivedFrame {
  FrameKind kind = FrameKind::kControl;
  Message message;
};

class FrameDecoder {
 public:
  explicit FrameDecoder(const FrameLimits& limits) : limits_(limits) {}
  // Ends the handshake: from the next frame on messages are welcome and handshake frames are not.
  void open() { open_ = true; }
  // Where the next bytes of the stream belong; never empty. Payload bytes go straight to their final buffer.
  std::span<std::byte> want();
  // `count` bytes were put there. Gives what they completed. After an error the stream is of no more use.
  Result<std::optional<ReceivedFrame>> filled(std::size_t count);

 private:
  Result<void> begin_body();
  Result<std::optional<ReceivedFrame>> end_body();

  const FrameLimits limits_;
  bool open_ = false;
  bool in_body_ = false;
  std::size_t done_ = 0;  // bytes of the header or of the body so far
  FrameHeader header_;
  std::vector<std::byte> body_;
  std::vector<std::byte> payload_control_;
  std::shared_ptr<Buffer> payload_;  // the one under way
  std::size_t payload_done_ = 0;
};

}  // namespace tributary::net
