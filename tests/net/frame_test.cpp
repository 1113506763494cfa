#include "net/frame.h"

#include <gtest/gtest.h>

#include "net/node.h"
#include "net/send_queue.h"

namespace tributary::net {
namespace {

using test::pattern_payload;
using test::same_bytes;
using test::text_message;
using test::text_of;

// Feeds bytes in pieces of at most `piece`; stops at the first error.
Result<std::vector<ReceivedFrame>> decode(FrameDecoder& decoder, std::span<const std::byte> bytes, std::size_t piece) {
  std::vector<ReceivedFrame> frames;
  while (!bytes.empty()) {
    const auto room = decoder.want();
    EXPECT_FALSE(room.empty());
    const std::size_t count = std::min({room.size(), bytes.size(), piece});
    std::memcpy(room.data(), bytes.data(), count);
    bytes = bytes.subspan(count);
    auto frame = decoder.filled(count);
    if (!frame) return frame.error();
    if (*frame) frames.push_back(std::move(**frame));
  }
  return frames;
}

std::vector<std::byte> encode_all(SendQueue& queue, std::size_t limit) {
  std::vector<std::byte> bytes;
  while (!queue.empty()) {
    std::vector<std::byte> out;
    queue.fill(out, limit, false);
    EXPECT_FALSE(out.empty());
    bytes.insert(bytes.end(), out.begin(), out.end());
  }
  return bytes;
}

TEST(Frame, AnyCutOfTheStreamGivesTheSameMessages) {
  for (const std::size_t piece : {1ul, 7ul, 40ul, 1000ul, 1ul << 20}) {
    SendQueue queue({});
    std::vector<Payload> payloads;
    for (const std::size_t size : {0ul, 1ul, 5000ul, 64ul << 10, (64ul << 10) + 1, 200000ul}) {
      payloads.push_back(pattern_payload(size, size));
      ASSERT_TRUE(queue.push({text_message(std::to_string(size)).control, payloads.back()}));
    }
    ASSERT_TRUE(queue.push(text_message("plain")));
    FrameDecoder decoder({});
    decoder.open();
    const auto frames = decode(decoder, encode_all(queue, 9000), piece);
    ASSERT_TRUE(frames.ok()) << frames.error().message;
    ASSERT_EQ(frames->size(), payloads.size() + 1);
    EXPECT_EQ(text_of(frames->front().message), "plain");
    EXPECT_EQ(frames->front().message.payload, nullptr);
    for (std::size_t i = 0; i < payloads.size(); ++i) {
      EXPECT_EQ(text_of((*frames)[i + 1].message), std::to_string(payloads[i]->size()));
      EXPECT_TRUE(same_bytes((*frames)[i + 1].message.payload, payloads[i]));
    }
  }
}

TEST(Frame, AControlFrameOvertakesAPayloadUnderWay) {
  SendQueue queue({});
  ASSERT_TRUE(queue.push({{}, pattern_payload(1 << 20, 1)}));
  std::vector<std::byte> bytes;
  queue.fill(bytes, 100000, false);
  ASSERT_TRUE(queue.push(text_message("heartbeat")));
  const auto rest = encode_all(queue, 100000);
  bytes.insert(bytes.end(), rest.begin(), rest.end());
  FrameDecoder decoder({});
  decoder.open();
  const auto frames = decode(decoder, bytes, 1 << 20);
  ASSERT_TRUE(frames.ok());
  ASSERT_EQ(frames->size(), 2u);
  EXPECT_EQ(text_of(frames->front().message), "heartbeat");
  EXPECT_EQ(payload_size(frames->back().message.payload), 1u << 20);
}

// Every bit of a short exchange: a flip is an error, or at least never another message.
TEST(Frame, AFlippedBitIsNeverTakenForAMessage) {
  SendQueue queue({});
  ASSERT_TRUE(queue.push(text_message("abc")));
  ASSERT_TRUE(queue.push({text_message("xyz").control, pattern_payload(100, 5)}));
  const auto bytes = encode_all(queue, 1 << 20);
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    auto damaged = bytes;
    damaged[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    FrameDecoder decoder({});
    decoder.open();
    EXPECT_FALSE(decode(decoder, damaged, 1 << 20).ok()) << "bit " << bit;
  }
}

FrameHeader sealed(FrameHeader header) {
  header.body_checksum = checksum64(std::span<const std::byte>());
  header.header_checksum =
      checksum64(std::as_bytes(std::span(&header, 1)).first(offsetof(FrameHeader, header_checksum)));
  return header;
}

TEST(Frame, ALengthBeyondTheLimitIsRefusedBeforeMemoryIsTaken) {
  const FrameLimits limits{.max_control = 1000, .max_payload = 100000};
  const auto refused = [&](FrameHeader header, bool open) {
    FrameDecoder decoder(limits);
    if (open) decoder.open();
    header = sealed(header);
    return !decode(decoder, std::as_bytes(std::span(&header, 1)), 40).ok();
  };
  EXPECT_TRUE(refused({.kind = FrameKind::kControl, .body_size = 1001}, true));
  EXPECT_FALSE(refused({.kind = FrameKind::kControl, .body_size = 1000}, true));
  EXPECT_TRUE(refused({.kind = FrameKind::kControl, .body_size = 0xffffffff}, true));
  EXPECT_TRUE(refused({.kind = FrameKind::kPayloadBegin, .value = 100001}, true));
  EXPECT_FALSE(refused({.kind = FrameKind::kPayloadBegin, .value = 100000}, true));
  EXPECT_TRUE(refused({.kind = FrameKind::kPayloadBegin, .value = ~0ull}, true));
  EXPECT_TRUE(refused({.kind = FrameKind::kPayloadSegment, .body_size = 10}, true));
  EXPECT_TRUE(refused({.kind = FrameKind::kControl, .body_size = 10}, false));
  EXPECT_TRUE(refused({.kind = FrameKind::kHello, .body_size = 10}, true));
  EXPECT_FALSE(refused({.kind = FrameKind::kHello, .body_size = 10}, false));
  EXPECT_TRUE(refused({.kind = FrameKind::kHello, .body_size = 5000}, false));
  EXPECT_TRUE(refused({.kind = static_cast<FrameKind>(9), .body_size = 10}, true));
  EXPECT_TRUE(refused({.version = 2, .kind = FrameKind::kControl}, true));
}

TEST(Frame, SegmentsOutOfPlaceAreRefused) {
  const auto run = [](std::uint64_t offset, std::size_t size) {
    std::vector<std::byte> bytes, body(size);
    append_frame(bytes, FrameKind::kPayloadBegin, {}, 1000);
    append_frame(bytes, FrameKind::kPayloadSegment, body, offset);
    FrameDecoder decoder({});
    decoder.open();
    return decode(decoder, bytes, 1 << 20).ok();
  };
  EXPECT_TRUE(run(0, 1000));
  EXPECT_FALSE(run(1, 900));
  EXPECT_FALSE(run(0, 1001));
  EXPECT_FALSE(run(0, 0));
}

TEST(SendQueue, RefusesWhenFullButKeepsAReserveForControl) {
  SendQueue queue(
      {.max_bulk_bytes = 1000, .max_bulk_messages = 3, .max_control_bytes = 100, .max_control_messages = 2});
  EXPECT_TRUE(queue.push({{}, pattern_payload(600, 1)}));
  EXPECT_FALSE(queue.push({{}, pattern_payload(600, 1)}));
  EXPECT_TRUE(queue.push({{}, pattern_payload(400, 1)}));
  EXPECT_FALSE(queue.push({{}, pattern_payload(1, 1)}));
  EXPECT_TRUE(queue.push(text_message("a")));
  EXPECT_TRUE(queue.push(text_message("b")));
  EXPECT_FALSE(queue.push(text_message("c")));
  EXPECT_EQ(queue.bytes(), 1002u);
  EXPECT_EQ(queue.clear(), 4u);
  EXPECT_EQ(queue.bytes(), 0u);
  EXPECT_TRUE(queue.push({{}, pattern_payload(5000, 1)}));  // alone, a large one goes
}

}  // namespace
}  // namespace tributary::net
