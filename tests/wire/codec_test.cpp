#include "wire/codec.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "wire/random_message.h"

namespace tributary::wire {
namespace {

constexpr std::size_t kKinds = std::variant_size_v<Body>;

class EveryMessage : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Kinds, EveryMessage, testing::Range(std::size_t{0}, kKinds), [](const auto& info) {
  Body body;
  std::size_t i = 0;
  [&]<class... Ts>(std::type_identity<std::variant<Ts...>>) {
    ((i++ == info.param ? void(body = Ts{}) : void()), ...);
  }(std::type_identity<Body>{});
  return name_of(body);
});

TEST_P(EveryMessage, ComesBackAsItWasInEveryField) {
  const auto kind = GetParam();
  EXPECT_TRUE(rc::check([kind] {
    const auto body = any_body(kind);
    const auto back = decode(encode(body));
    RC_ASSERT(back.ok());
    RC_ASSERT(back->index() == kind);
    RC_ASSERT(same(*back, body));
  }));
}

TEST_P(EveryMessage, CutShortIsAnError) {
  const auto kind = GetParam();
  EXPECT_TRUE(rc::check([kind] {
    const auto bytes = encode(any_body(kind));
    const auto length = *rc::gen::inRange<std::size_t>(0, bytes.size());
    RC_ASSERT(!decode(std::span(bytes).first(length)).ok());
  }));
}

TEST_P(EveryMessage, WithBytesAfterItsEndIsAnError) {
  const auto kind = GetParam();
  EXPECT_TRUE(rc::check([kind] {
    auto bytes = encode(any_body(kind));
    bytes.push_back(static_cast<std::byte>(any<std::uint16_t>()));
    RC_ASSERT(!decode(bytes).ok());
  }));
}

// Flipped bits give an error, or another valid message, which then survives its own round trip; never harm.
TEST_P(EveryMessage, WithFlippedBitsIsAnErrorOrAnotherMessage) {
  const auto kind = GetParam();
  EXPECT_TRUE(rc::check([kind] {
    auto bytes = encode(any_body(kind));
    const auto flips = *rc::gen::inRange(1, 4);
    for (int i = 0; i < flips; ++i) {
      const auto bit = *rc::gen::inRange<std::size_t>(0, 8 * bytes.size());
      bytes[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    }
    const auto other = decode(bytes);
    if (!other.ok()) {
      RC_ASSERT(!other.error().message.empty());
      return;
    }
    const auto again = decode(encode(*other));
    RC_ASSERT(again.ok());
    RC_ASSERT(same(*again, *other));
  }));
}

TEST(Log, OnDiskComesBackAsItWas) {
  EXPECT_TRUE(rc::check([] {
    const auto log = any<DurableLog>();
    const auto back = decode_log(encode_log(log));
    RC_ASSERT(back.ok());
    RC_ASSERT(same(*back, log));
    const auto ledger = decode_ledger(encode_ledger(log.snapshot));
    RC_ASSERT(ledger.ok());
    RC_ASSERT(same(*ledger, log.snapshot));
  }));
}

TEST(Limits, MessageOverTheLimitIsNotEvenRead) {
  const auto bytes = encode(Ping{5});
  EXPECT_TRUE(decode(bytes).ok());
  const auto refused = decode(bytes, {.bytes = bytes.size() - 1});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("over the limit"), std::string::npos);
}

// [4 (Ping), array of 2^32 - 1 items]: a claim of 4 billion items in eight bytes.
TEST(Limits, ClaimedLengthTakesNoMemory) {
  for (const std::uint8_t type : {0xdd, 0xdf, 0xdb, 0xc6}) {  // array, map, string, bytes; 32-bit lengths
    const std::uint8_t raw[] = {0x92, 0x04, type, 0xff, 0xff, 0xff, 0xff, 0x01};
    EXPECT_FALSE(decode(std::as_bytes(std::span(raw))).ok());
  }
}

TEST(Limits, DeepNestingIsRefused) {
  std::vector<std::byte> bytes(1000, std::byte{0x91});
  bytes.push_back(std::byte{0x01});
  EXPECT_FALSE(decode(bytes).ok());
}

TEST(Limits, ListsOverTheLimitAreRefused) {
  Report report;
  report.folded.resize(100);
  const auto bytes = encode(report);
  EXPECT_TRUE(decode(bytes).ok());
  EXPECT_FALSE(decode(bytes, {.items = 99}).ok());
}

TEST(Limits, NumbersOutOfRangeAreRefused) {
  // WantResult {stamp, stage, committed, have: []}, with a stage above 16 bits for one.
  const auto index = Body(WantResult{}).index();
  const auto message = [&](std::initializer_list<std::uint8_t> stage, std::uint8_t boolean) {
    std::vector<std::uint8_t> raw = {0x92, static_cast<std::uint8_t>(index), 0x94, 0x92, 0x01, 0x02};
    raw.insert(raw.end(), stage);
    raw.push_back(boolean);
    raw.push_back(0x90);
    return decode(std::as_bytes(std::span(raw)));
  };
  EXPECT_TRUE(message({0x07}, 0xc3).ok());
  EXPECT_FALSE(message({0xce, 0x00, 0x01, 0x00, 0x00}, 0xc3).ok()) << "65536";
  EXPECT_FALSE(message({0xff}, 0xc3).ok()) << "-1";
  EXPECT_FALSE(message({0x07}, 0x01).ok()) << "1 is no boolean";
  EXPECT_FALSE(message({0xca, 0x3f, 0x80, 0x00, 0x00}, 0xc3).ok()) << "a float is no integer";
}

TEST(Limits, UnknownKindIsRefused) {
  const std::uint8_t raw[] = {0x92, static_cast<std::uint8_t>(kKinds), 0x90};
  EXPECT_FALSE(decode(std::as_bytes(std::span(raw))).ok());
  EXPECT_FALSE(decode({}).ok());
}

// A newer peer's additional fields are passed over.
TEST(Versions, FieldsOfALaterVersionAreIgnored) {
  const std::uint8_t raw[] = {0x92, static_cast<std::uint8_t>(Body(Ping{}).index()), 0x93, 0x05, 0xa1, 0x78, 0x01};
  const auto body = decode(std::as_bytes(std::span(raw)));
  ASSERT_TRUE(body.ok());
  EXPECT_EQ(std::get<Ping>(*body).nonce, 5u);
}

}  // namespace
}  // namespace tributary::wire
