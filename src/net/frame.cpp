#include "net/frame.h"

#include <bit>
#include <cstring>
#include <string>

namespace tributary::net {

static_assert(std::endian::native == std::endian::little, "frames are written as the machine holds them");

namespace {

std::uint64_t header_checksum(const FrameHeader& header) {
  return checksum64(std::as_bytes(std::span(&header, 1)).first(offsetof(FrameHeader, header_checksum)));
}

Error bad(const char* what, std::uint64_t value) {
  return Error{std::string("bad frame: ") + what + " " + std::to_string(value)};
}

}  // namespace

void append_frame(std::vector<std::byte>& out, FrameKind kind, std::span<const std::byte> body, std::uint64_t value) {
  FrameHeader header;
  header.kind = kind;
  header.body_size = static_cast<std::uint32_t>(body.size());
  header.value = value;
  header.body_checksum = checksum64(body);
  header.header_checksum = header_checksum(header);
  const auto bytes = std::as_bytes(std::span(&header, 1));
  out.insert(out.end(), bytes.begin(), bytes.end());
  out.insert(out.end(), body.begin(), body.end());
}

std::span<std::byte> FrameDecoder::want() {
  if (!in_body_) return std::as_writable_bytes(std::span(&header_, 1)).subspan(done_);
  if (header_.kind == FrameKind::kPayloadSegment)
    return payload_->span().subspan(payload_done_ + done_, header_.body_size - done_);
  return std::span(body_).subspan(done_);
}

Result<std::optional<ReceivedFrame>> FrameDecoder::filled(std::size_t count) {
  TRIBUTARY_CHECK(count <= want().size(), "more bytes than the decoder had room for");
  done_ += count;
  if (!in_body_) {
    if (done_ < kFrameHeaderSize) return std::optional<ReceivedFrame>();
    if (auto good = begin_body(); !good) return good.error();
    in_body_ = true;
    done_ = 0;
  }
  if (done_ < header_.body_size) return std::optional<ReceivedFrame>();
  return end_body();
}

// Everything that a header can get wrong is found here, before any memory is taken for its body.
Result<void> FrameDecoder::begin_body() {
  if (header_.magic != kFrameMagic) return bad("magic", header_.magic);
  if (header_.header_checksum != header_checksum(header_)) return bad("header checksum", header_.header_checksum);
  if (header_.version != kFrameVersion) return bad("layout version", header_.version);
  if (header_.flags || header_.zero) return bad("flags", header_.flags);
  const std::size_t size = header_.body_size;
  switch (header_.kind) {
    case FrameKind::kProof:
    case FrameKind::kHello:
    case FrameKind::kAccept:
    case FrameKind::kReject:
      if (open_) return bad("handshake frame on an open connection, kind", static_cast<std::uint64_t>(header_.kind));
      if (size > kMaxHandshakeBody || header_.value) return bad("handshake body size", size);
      break;
    case FrameKind::kControl:
    case FrameKind::kPayloadBegin:
      if (!open_) return bad("message before the handshake, kind", static_cast<std::uint64_t>(header_.kind));
      if (size > limits_.max_control) return bad("control size", size);
      if (header_.kind == FrameKind::kControl) {
        if (header_.value) return bad("value in a control frame", header_.value);
      } else {
        if (payload_) return bad("payload begun inside another, size", header_.value);
        if (header_.value > limits_.max_payload) return bad("payload size", header_.value);
      }
      break;
    case FrameKind::kPayloadSegment:
      if (!payload_) return bad("segment without a payload, size", size);
      if (header_.value != payload_done_) return bad("segment offset", header_.value);
      if (size == 0 || size > kMaxSegment || size > payload_->size() - payload_done_) return bad("segment size", size);
      return {};
    default:
      return bad("kind", static_cast<std::uint64_t>(header_.kind));
  }
  body_.resize(size);
  return {};
}

Result<std::optional<ReceivedFrame>> FrameDecoder::end_body() {
  const bool segment = header_.kind == FrameKind::kPayloadSegment;
  const std::span<const std::byte> body =
      segment ? std::as_const(*payload_).span().subspan(payload_done_, header_.body_size) : std::span(body_);
  if (checksum64(body) != header_.body_checksum) return bad("body checksum", header_.body_checksum);
  in_body_ = false;
  done_ = 0;
  if (segment) {
    payload_done_ += header_.body_size;
  } else if (header_.kind == FrameKind::kPayloadBegin) {
    payload_ = make_buffer(header_.value);
    payload_done_ = 0;
    payload_control_ = std::move(body_);
    body_.clear();
  } else {
    ReceivedFrame frame{header_.kind, {std::move(body_), nullptr}};
    body_.clear();
    return std::optional(std::move(frame));
  }
  if (payload_done_ < payload_->size()) return std::optional<ReceivedFrame>();
  ReceivedFrame frame{FrameKind::kPayloadBegin, {std::move(payload_control_), std::move(payload_)}};
  payload_control_.clear();
  payload_ = nullptr;
  return std::optional(std::move(frame));
}

}  // namespace tributary::net
