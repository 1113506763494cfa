#include "net/shaping.h"

#include <gtest/gtest.h>

#include "net/node.h"

namespace tributary::net {
namespace {

using namespace test;
using Clock = std::chrono::steady_clock;

double ms(Clock::duration d) { return std::chrono::duration<double, std::milli>(d).count(); }

TEST(LinkTable, TenLocationsAreThoseOfThePaper) {
  const auto table = LinkTable::ten_locations();
  ASSERT_EQ(table.regions().size(), 10u);
  EXPECT_EQ(table.between("Oregon", "Tokyo").latency, milliseconds(96));
  EXPECT_DOUBLE_EQ(table.between("Oregon", "Tokyo").bandwidth_bytes_per_s, 0.523e9 / 8);
  EXPECT_EQ(table.between("London", "London").latency, milliseconds(5));
  EXPECT_DOUBLE_EQ(table.between("London", "London").bandwidth_bytes_per_s, 2e9 / 8);
  for (const auto& i : table.regions())
    for (const auto& j : table.regions()) {
      EXPECT_EQ(table.between(i, j).latency, table.between(j, i).latency);
      EXPECT_EQ(table.between(i, j).bandwidth_bytes_per_s, table.between(j, i).bandwidth_bytes_per_s);
    }
  const auto fast = table.scaled(0.1);
  EXPECT_EQ(fast.between("Oregon", "Tokyo").latency, Duration(9600000));
  EXPECT_DOUBLE_EQ(fast.between("Oregon", "Tokyo").bandwidth_bytes_per_s, 5.23e9 / 8);
  EXPECT_FALSE(LinkTable::preset("eleven-locations").ok());
  EXPECT_FALSE(LinkTable::preset("none")->shaped());
}

TransportOptions shaped(std::uint32_t id, const RunSecret& secret, const LinkShape& shape) {
  auto options = options_for(id, secret);
  options.links = LinkTable::uniform(shape);
  return options;
}

// Milliseconds from send() to arrival, on a connection that is up.
double time_one(Node& from, Node& to, Message message) {
  const std::size_t before = [&] {
    const std::lock_guard lock(to.mutex);
    return to.received.size();
  }();
  const auto start = Clock::now();
  EXPECT_TRUE(from->send(to.id, std::move(message)));
  EXPECT_TRUE(to.wait_for_messages(before + 1));
  const std::lock_guard lock(to.mutex);
  return ms(to.received[before].at - start);
}

TEST(Shaping, LatencyIsAddedOnceEachWay) {
  const auto secret = RunSecret::generate();
  const LinkShape shape{.latency = milliseconds(60)};
  Node plain_a(options_for(1, secret)), plain_b(options_for(2, secret));
  Node a(shaped(1, secret, shape)), b(shaped(2, secret, shape));
  plain_a.knows(plain_b);
  a.knows(b);
  time_one(plain_a, plain_b, text_message("connect"));
  time_one(a, b, text_message("connect"));
  const double base = time_one(plain_a, plain_b, text_message("x"));
  const double there = time_one(a, b, text_message("x")), back = time_one(b, a, text_message("x"));
  for (const double time : {there, back}) {
    EXPECT_GE(time, 60);
    EXPECT_LT(time, base + 60 + 100);
  }
  // Connecting took four round trips: TCP, TLS, proof, Hello.
  EXPECT_GE(to_seconds(a->counters().peers.at(b.id).handshake), 0.46);
}

TEST(Shaping, BandwidthIsThatOfTheLink) {
  const auto secret = RunSecret::generate();
  const LinkShape shape{.bandwidth_bytes_per_s = 10e6};
  Node plain_a(options_for(1, secret)), plain_b(options_for(2, secret));
  Node a(shaped(1, secret, shape)), b(shaped(2, secret, shape));
  plain_a.knows(plain_b);
  a.knows(b);
  time_one(plain_a, plain_b, text_message("connect"));
  time_one(a, b, text_message("connect"));
  const auto payload = pattern_payload(4'000'000, 1);
  const double base = time_one(plain_a, plain_b, {{}, payload});
  const double time = time_one(a, b, {{}, payload});
  EXPECT_GE(time, 390);
  EXPECT_LT(time, base + 400 * 1.3 + 100);
}

TEST(Shaping, OneUplinkServesAllDestinationsInTurn) {
  const auto secret = RunSecret::generate();
  const LinkShape shape{.bandwidth_bytes_per_s = 10e6};
  Node a(shaped(1, secret, shape)), b(shaped(2, secret, shape)), c(shaped(3, secret, shape));
  a.knows(b);
  a.knows(c);
  time_one(a, b, text_message("connect"));
  time_one(a, c, text_message("connect"));
  const auto payload = pattern_payload(2'000'000, 1);
  const auto start = Clock::now();
  ASSERT_TRUE(a->send(b.id, {{}, payload}));
  ASSERT_TRUE(a->send(c.id, {{}, payload}));
  // A heartbeat to a third of the way through does not wait for the tensors.
  const double heartbeat = time_one(a, c, text_message("alive"));
  ASSERT_TRUE(b.wait_for_messages(2));
  ASSERT_TRUE(c.wait_for_messages(3));
  const double last = ms(std::max(b.received[1].at, c.received[2].at) - start);
  const double first = ms(std::min(b.received[1].at, c.received[2].at) - start);
  EXPECT_GE(last, 390);
  EXPECT_GE(first, 300);  // in turns, not one after the other
  EXPECT_LT(heartbeat, 150);
}

TEST(Shaping, AnUploadCapHoldsOverAllPeers) {
  const auto secret = RunSecret::generate();
  auto options = options_for(1, secret);
  options.upload_bytes_per_s = 5e6;
  Node a(options), b(options_for(2, secret)), c(options_for(3, secret));
  a.knows(b);
  a.knows(c);
  time_one(a, b, text_message("connect"));
  time_one(a, c, text_message("connect"));
  const auto start = Clock::now();
  ASSERT_TRUE(a->send(b.id, {{}, pattern_payload(1'000'000, 1)}));
  ASSERT_TRUE(a->send(c.id, {{}, pattern_payload(1'000'000, 1)}));
  ASSERT_TRUE(b.wait_for_messages(2));
  ASSERT_TRUE(c.wait_for_messages(2));
  EXPECT_GE(ms(std::max(b.received[1].at, c.received[1].at) - start), 390);
  // The other way is not capped.
  EXPECT_LT(time_one(b, a, {{}, pattern_payload(1'000'000, 1)}), 150);
}

TEST(Shaping, ADownloadCapHoldsOverAllPeersAndLetsSmallMessagesThrough) {
  const auto secret = RunSecret::generate();
  auto options = options_for(1, secret);
  options.download_bytes_per_s = 5e6;
  Node a(options), b(options_for(2, secret)), c(options_for(3, secret)), d(options_for(4, secret));
  for (auto* node : {&b, &c, &d}) {
    node->knows(a);
    time_one(*node, a, text_message("connect"));
  }
  const auto start = Clock::now();
  ASSERT_TRUE(b->send(a.id, {{}, pattern_payload(1'000'000, 1)}));
  ASSERT_TRUE(c->send(a.id, {{}, pattern_payload(1'000'000, 1)}));
  // Another peer's word does not wait until all that has been read.
  EXPECT_LT(time_one(d, a, text_message("a word")), 150);
  ASSERT_TRUE(a.wait_for_messages(6));
  EXPECT_GE(ms(a.received.back().at - start), 290);  // 2 MB at 5 MB/s, less the lateness that may be caught up
  EXPECT_LT(ms(a.received.back().at - start), 1000);
  // The other way is not capped.
  EXPECT_LT(time_one(a, b, {{}, pattern_payload(1'000'000, 1)}), 150);
}

TEST(Shaping, TheEndOfAConnectionIsDelayedLikeItsData) {
  const auto secret = RunSecret::generate();
  const LinkShape shape{.latency = milliseconds(150)};
  Node a(shaped(1, secret, shape));
  auto b = std::make_unique<Node>(shaped(2, secret, shape));
  a.knows(*b);
  time_one(a, *b, text_message("connect"));
  ASSERT_TRUE((*b)->send(a.id, text_message("last words")));
  ASSERT_TRUE((*b)->flush(seconds(10)));
  const auto start = Clock::now();
  b.reset();
  ASSERT_TRUE(a.wait_down());
  EXPECT_GE(ms(a.down_times[0] - start), 145);
  EXPECT_LT(ms(a.down_times[0] - start), 400);
  ASSERT_TRUE(a.wait_for_messages(1));  // and what was on its way came before
  EXPECT_LE(a.received[0].at, a.down_times[0]);
}

TEST(Shaping, JitterKeepsTheOrder) {
  const auto secret = RunSecret::generate();
  const LinkShape shape{.latency = milliseconds(5), .jitter = milliseconds(20)};
  Node a(shaped(1, secret, shape)), b(shaped(2, secret, shape));
  a.knows(b);
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(a->send(b.id, text_message(std::to_string(i))));
  ASSERT_TRUE(b.wait_for_messages(200));
  for (int i = 0; i < 200; ++i) EXPECT_EQ(text_of(b.received[i].message), std::to_string(i));
}

TEST(Shaping, ConnectionsBreakAtTheGivenRateAndComeBack) {
  const auto secret = RunSecret::generate();
  const LinkShape shape{.losses_per_hour = 3600.0 * 50};  // every 20 ms
  Node a(shaped(1, secret, shape)), b(shaped(2, secret, shape));
  a.knows(b);
  ASSERT_TRUE(a->send(b.id, text_message("x")));
  // Each end is answered with a new message, which connects again.
  for (std::size_t losses = 1; losses <= 3; ++losses) {
    ASSERT_TRUE(a.wait_down(losses));
    ASSERT_TRUE(a->send(b.id, text_message("again")));
    ASSERT_TRUE(a.wait_up(losses + 1));
  }
}

TEST(Shaping, NothingPassesABlackHoleAndTheConnectionStaysUp) {
  const auto secret = RunSecret::generate();
  Node a(options_for(1, secret)), b(options_for(2, secret)), c(options_for(3, secret));
  a.knows(b);
  a.knows(c);
  time_one(a, b, text_message("connect"));
  time_one(a, c, text_message("connect"));
  a->set_blackhole(b.id, true);
  ASSERT_TRUE(a->send(b.id, text_message("into the hole")));
  ASSERT_TRUE(b->send(a.id, text_message("from the other side")));
  // Other links go on; after several exchanges there, still nothing passed here.
  for (int i = 0; i < 20; ++i) {
    time_one(a, c, text_message("ping"));
    time_one(c, a, text_message("pong"));
  }
  {
    const std::lock_guard lock(a.mutex);
    EXPECT_EQ(a.received.size(), 20u);
    EXPECT_TRUE(a.downs.empty());
  }
  {
    const std::lock_guard lock(b.mutex);
    EXPECT_EQ(b.received.size(), 1u);
    EXPECT_TRUE(b.downs.empty());
  }
  a->set_blackhole(b.id, false);
  ASSERT_TRUE(b.wait_for_messages(2));
  ASSERT_TRUE(a.wait_for_messages(21));
  EXPECT_EQ(text_of(b.received[1].message), "into the hole");
  EXPECT_EQ(a->counters().peers.at(b.id).connections, 1u);
}

TEST(Shaping, ADialIntoABlackHoleTimesOutOnEitherSide) {
  const auto secret = RunSecret::generate();
  auto patient = options_for(1, secret), hasty = options_for(2, secret);
  patient.handshake_timeout = seconds(60);
  hasty.handshake_timeout = milliseconds(150);
  Node a(patient), b(hasty);
  a.knows(b);
  b.knows(a);
  a->set_blackhole(b.id, true);  // the other side's hole: its dial is never answered
  ASSERT_TRUE(b->send(a.id, text_message("x")));
  ASSERT_TRUE(b.wait_dial_failed());
  EXPECT_EQ(b.failures[0].reason, "timed out");
  EXPECT_TRUE(a.ups.empty());
  a->set_blackhole(b.id, false);
  b->set_blackhole(a.id, true);  // the own side's
  const std::size_t before = b.failures.size();
  ASSERT_TRUE(b->send(a.id, text_message("y")));
  ASSERT_TRUE(b.wait_dial_failed(before + 1));
  EXPECT_EQ(b.failures.back().reason, "timed out");
  EXPECT_TRUE(a.ups.empty());
  b->set_blackhole(a.id, false);
  ASSERT_TRUE(b->send(a.id, text_message("z")));
  EXPECT_TRUE(a.wait_for_messages(1));
}

}  // namespace
}  // namespace tributary::net
