// Strangers, liars and damaged bytes: they get nowhere, are counted, and harm nobody else.
#include <gtest/gtest.h>

#include "net/rogue.h"

namespace tributary::net {
namespace {

using namespace test;

TEST(Hostile, AWrongSecretIsRejectedWithItsReason) {
  Node a(options_for(1, RunSecret::generate())), b(options_for(2, RunSecret::generate()));
  a.knows(b);
  ASSERT_TRUE(a->send(b.id, text_message("hello?")));
  ASSERT_TRUE(a.wait_dial_failed());
  EXPECT_TRUE(a.failures[0].rejected);
  EXPECT_NE(a.failures[0].reason.find("wrong secret"), std::string::npos) << a.failures[0].reason;
  ASSERT_TRUE(b.wait([&] { return b->counters().rejected == 1; }));
  EXPECT_TRUE(b.ups.empty());
  EXPECT_EQ(a->counters().peers.at(b.id).messages_lost, 1u);
}

TEST(Hostile, ADifferentRunIsRejectedWithItsReason) {
  const auto secret = RunSecret::generate();
  auto options = options_for(1, secret);
  options.run = "another";
  Node a(options), b(options_for(2, secret));
  a->connect_seed(b.address());
  ASSERT_TRUE(a.wait_dial_failed());
  EXPECT_TRUE(a.failures[0].rejected);
  EXPECT_NE(a.failures[0].reason.find("different run"), std::string::npos) << a.failures[0].reason;
}

TEST(Hostile, AnotherKeyCannotTakeANodesId) {
  const auto secret = RunSecret::generate();
  Node a(options_for(1, secret)), b(options_for(2, secret));
  b.knows(a);
  ASSERT_TRUE(b->send(a.id, text_message("I am 2")));
  ASSERT_TRUE(a.wait_for_messages(1));
  Node thief(options_for(2, secret, 99));
  thief.knows(a);
  ASSERT_TRUE(thief->send(a.id, text_message("no, I")));
  ASSERT_TRUE(thief.wait_dial_failed());
  EXPECT_NE(thief.failures[0].reason.find("another key"), std::string::npos) << thief.failures[0].reason;
  EXPECT_TRUE(b->send(a.id, text_message("still here")));
  EXPECT_TRUE(a.wait_for_messages(2));
}

TEST(Hostile, AManInTheMiddleFailsTheProofAndSeesNoHello) {
  const auto secret = RunSecret::generate();
  Node a(options_for(1, secret));
  auto options = options_for(2, secret);
  options.region = "a-place-that-only-members-learn";
  Node b(options);
  Middle middle(b.address(), true);
  a->set_address(b.id, middle.address());
  ASSERT_TRUE(a->send(b.id, text_message("to the middle")));
  ASSERT_TRUE(a.wait_dial_failed());
  EXPECT_NE(a.failures[0].reason.find("wrong secret"), std::string::npos) << a.failures[0].reason;
  ASSERT_TRUE(b.wait([&] { return b->counters().rejected >= 1; }));
  EXPECT_GT(middle.forwarded(), kFrameHeaderSize);
  EXPECT_EQ(middle.seen().find(options.region), std::string::npos);
  EXPECT_TRUE(b.ups.empty());
  EXPECT_TRUE(a.ups.empty());
}

TEST(Hostile, AnEavesdropperSeesNothingInTheClear) {
  const auto secret = RunSecret::generate();
  auto options = options_for(2, secret);
  options.region = "a-place-that-only-members-learn";
  Node a(options_for(1, secret)), b(options);
  Middle wire(b.address(), false);
  a->set_address(b.id, wire.address());
  ASSERT_TRUE(a->send(b.id, text_message("a-message-that-only-members-read")));
  ASSERT_TRUE(b.wait_for_messages(1));
  b->stop();
  ASSERT_TRUE(a.wait_down());
  EXPECT_GT(wire.forwarded(), 1000u);
  EXPECT_EQ(wire.seen().find("only-members"), std::string::npos);
}

TEST(Hostile, AStrangerLearnsNothingWithoutAProof) {
  auto options = options_for(1, RunSecret::generate());
  options.handshake_timeout = milliseconds(200);
  Node a(options);
  Rogue silent(a.address());
  ASSERT_TRUE(silent.handshake());
  EXPECT_TRUE(silent.read_to_end().empty());  // closed by the time-out
  Rogue wrong(a.address());
  ASSERT_TRUE(wrong.handshake());
  wrong.prove(RunSecret::generate());
  const auto frames = wrong.read_to_end();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].kind, FrameKind::kReject);
  EXPECT_EQ(decode_reject(frames[0].message.control)->code, RejectCode::kWrongSecret);
  Rogue eager(a.address());
  ASSERT_TRUE(eager.handshake());
  eager.frame(FrameKind::kControl, {});
  EXPECT_TRUE(eager.read_to_end().empty());
  EXPECT_EQ(a->counters().bad_frames, 1u);
  EXPECT_GE(a->counters().handshakes_failed, 1u);
}

TEST(Hostile, OnlyTls13IsSpoken) {
  Node a(options_for(1, RunSecret::generate()));
  Rogue old(a.address(), TLS1_2_VERSION);
  EXPECT_FALSE(old.handshake());
  Rogue plain(a.address());
  plain.write_raw(text_message("GET / HTTP/1.0\r\n\r\n").control);
  ASSERT_TRUE(a.wait([&] { return a->counters().handshakes_failed == 2; }));
}

TEST(Hostile, HalfOpenConnectionsAreLimited) {
  auto options = options_for(1, RunSecret::generate());
  options.max_handshakes = 3;
  Node a(options);
  std::vector<std::unique_ptr<Rogue>> rogues;
  for (int i = 0; i < 5; ++i) rogues.push_back(std::make_unique<Rogue>(a.address()));
  ASSERT_TRUE(a.wait([&] { return a->counters().handshakes_refused == 2; }));
  for (auto& rogue : rogues) rogue->close();
  ASSERT_TRUE(a.wait([&] { return a->counters().handshakes_failed == 3; }));
  Rogue later(a.address());
  EXPECT_TRUE(later.handshake());
}

// A member that sends damaged frames loses its connection and is counted; another peer's traffic goes on.
TEST(Hostile, BadFramesCostTheirSenderTheConnectionAndNobodyElse) {
  const auto secret = RunSecret::generate();
  Node a(options_for(1, secret)), good(options_for(2, secret));
  good.knows(a);
  ASSERT_TRUE(good->send(a.id, text_message("before")));
  ASSERT_TRUE(a.wait_for_messages(1));

  std::vector<std::byte> valid;
  append_frame(valid, FrameKind::kControl, text_message("some body").control);
  std::vector<std::vector<std::byte>> bad;
  for (const std::size_t bit : {3ul, 40ul, 70ul, 200ul, 290ul, 350ul}) {
    bad.push_back(valid);
    bad.back()[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
  }
  bad.emplace_back();
  append_frame(bad.back(), FrameKind::kPayloadBegin, {}, std::uint64_t{1} << 50);  // oversized
  bad.emplace_back();
  append_frame(bad.back(), FrameKind::kPayloadSegment, valid, 0);  // out of place
  std::uint32_t id = 100;
  for (const auto& bytes : bad) {
    Rogue rogue(a.address());
    rogue.enter(secret, id++);
    rogue.write(bytes);
    const auto frames = rogue.read_to_end();
    ASSERT_FALSE(frames.empty());
    EXPECT_EQ(frames.back().kind, FrameKind::kAccept);
  }
  ASSERT_TRUE(a.wait_down(bad.size()));
  for (const auto& reason : a.downs) EXPECT_NE(reason.find("bad frame"), std::string::npos) << reason;
  EXPECT_EQ(a->counters().bad_frames, bad.size());
  EXPECT_EQ(a->counters().peers.at(NodeId(100)).bad_frames, 1u);

  // Cut in the middle: no bad frame, but nothing of it is delivered either.
  Rogue cut(a.address());
  cut.enter(secret, id);
  cut.write(std::span(valid).first(valid.size() - 1));
  ASSERT_TRUE(a.wait_up(bad.size() + 2));
  cut.close();
  ASSERT_TRUE(a.wait_down(bad.size() + 1));

  ASSERT_TRUE(good->send(a.id, text_message("after")));
  ASSERT_TRUE(a.wait_for_messages(2));
  EXPECT_EQ(a.received.size(), 2u);
  EXPECT_EQ(good->counters().peers.at(a.id).connections, 1u);
}

}  // namespace
}  // namespace tributary::net
