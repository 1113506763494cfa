#include "net/transport.h"

#include <gtest/gtest.h>

#include "net/node.h"

namespace tributary::net {
namespace {

using namespace test;

TEST(Transport, PayloadsOfAllSizesArriveWholeAndInOrder) {
  const auto secret = RunSecret::generate();
  Node a(options_for(1, secret)), b(options_for(2, secret));
  a.knows(b);
  const std::size_t sizes[] = {0, 1, 4096, 65535, 65536, 65537, 1000003, 10 << 20};
  std::vector<Payload> payloads;
  for (const std::size_t size : sizes) {
    payloads.push_back(pattern_payload(size, size + 1));
    ASSERT_TRUE(a->send(b.id, {text_message(std::to_string(size)).control, payloads.back()}));
  }
  ASSERT_TRUE(b.wait_for_messages(payloads.size()));
  for (std::size_t i = 0; i < payloads.size(); ++i) {
    EXPECT_EQ(b.received[i].from, a.id);
    EXPECT_EQ(text_of(b.received[i].message), std::to_string(sizes[i]));
    EXPECT_TRUE(same_bytes(b.received[i].message.payload, payloads[i])) << sizes[i];
  }
  // The answer takes the same connection.
  ASSERT_TRUE(b->send(a.id, text_message("thanks")));
  ASSERT_TRUE(a.wait_for_messages(1));
  EXPECT_EQ(a.received[0].message.payload, nullptr);
  EXPECT_EQ(a->counters().peers.at(b.id).connections, 1u);
  EXPECT_GE(a->counters().peers.at(b.id).bytes_out, std::size_t{10} << 20);
}

TEST(Transport, KeepsTheOrderOfManyMessagesBothWays) {
  const auto secret = RunSecret::generate();
  Node a(options_for(1, secret)), b(options_for(2, secret));
  a.knows(b);
  b.knows(a);
  constexpr int kCount = 2000;
  for (int i = 0; i < kCount; ++i) {
    ASSERT_TRUE(a->send(b.id, text_message(std::to_string(i))));
    ASSERT_TRUE(b->send(a.id, text_message(std::to_string(i))));
  }
  ASSERT_TRUE(a.wait_for_messages(kCount));
  ASSERT_TRUE(b.wait_for_messages(kCount));
  for (int i = 0; i < kCount; ++i) {
    EXPECT_EQ(text_of(a.received[i].message), std::to_string(i));
    EXPECT_EQ(text_of(b.received[i].message), std::to_string(i));
  }
}

TEST(Transport, PeersAreToldWhoConnectedAndWhereItListens) {
  const auto secret = RunSecret::generate();
  auto options = options_for(1, secret, 42);
  options.capabilities = 0b110;
  Node a(options);
  auto other = options_for(2, secret, 43);
  other.capabilities = 0b011;
  Node b(other);
  a->connect_seed(b.address());
  ASSERT_TRUE(a.wait_up());
  ASSERT_TRUE(b.wait_up());
  EXPECT_EQ(a.ups[0].node, b.id);
  EXPECT_EQ(a.ups[0].incarnation, Incarnation(43));
  EXPECT_EQ(a.ups[0].address.port, b->port());
  EXPECT_EQ(b.ups[0].node, a.id);
  EXPECT_EQ(b.ups[0].incarnation, Incarnation(42));
  EXPECT_EQ(b.ups[0].address.port, a->port());
  EXPECT_EQ(b.ups[0].key, options.identity.public_key());
  EXPECT_EQ(b.ups[0].capabilities, 0b010u);
}

TEST(Transport, ASeedIsDialledUntilItIsThere) {
  const auto secret = RunSecret::generate();
  Node a(options_for(1, secret));
  auto options = options_for(2, secret);
  Address where;
  {
    Node early(options);
    where = early.address();
  }
  a->connect_seed(where);
  ASSERT_TRUE(a.wait_dial_failed(2));
  EXPECT_NE(a.failures[0].reason.find("refused"), std::string::npos) << a.failures[0].reason;
  options.listen_port = where.port;
  Node b(options);
  ASSERT_TRUE(a.wait_up());
  EXPECT_EQ(a.ups[0].node, b.id);
}

TEST(Transport, SimultaneousDialsEndInOneConnection) {
  const auto secret = RunSecret::generate();
  for (int round = 0; round < 20; ++round) {
    Node a(options_for(1, secret)), b(options_for(2, secret));
    a.knows(b);
    b.knows(a);
    std::thread other([&] { EXPECT_TRUE(b->send(a.id, text_message("from b"))); });
    EXPECT_TRUE(a->send(b.id, text_message("from a")));
    other.join();
    ASSERT_TRUE(a.wait_for_messages(1));
    ASSERT_TRUE(b.wait_for_messages(1));
    EXPECT_TRUE(a->send(b.id, text_message("more")));
    ASSERT_TRUE(b.wait_for_messages(2));
    EXPECT_EQ(a->counters().peers.at(b.id).connections, 1u);
    EXPECT_EQ(b->counters().peers.at(a.id).connections, 1u);
    const std::lock_guard lock(a.mutex);
    EXPECT_TRUE(a.downs.empty());
    EXPECT_TRUE(a.failures.empty());
  }
}

TEST(Transport, ANewIncarnationIsSeenAndTheOldOneIsDown) {
  const auto secret = RunSecret::generate();
  Node a(options_for(1, secret));
  auto options = options_for(2, secret, 1);
  std::uint16_t port = 0;
  {
    Node b(options);
    port = b->port();
    a.knows(b);
    ASSERT_TRUE(a->send(b.id, text_message("one")));
    ASSERT_TRUE(b.wait_for_messages(1));
  }
  ASSERT_TRUE(a.wait_down());
  options.listen_port = port;
  options.incarnation = Incarnation(2);
  Node b(options);
  ASSERT_TRUE(a->send(b.id, text_message("two")));
  ASSERT_TRUE(b.wait_for_messages(1));
  EXPECT_EQ(text_of(b.received[0].message), "two");
  ASSERT_TRUE(a.wait_up(2));
  EXPECT_EQ(a.ups[1].incarnation, Incarnation(2));
}

TEST(Transport, ANewIncarnationReplacesAConnectionThatNobodyClosed) {
  const auto secret = RunSecret::generate();
  Node a(options_for(1, secret));
  auto options = options_for(2, secret, 1);
  Node old(options);
  old.knows(a);
  ASSERT_TRUE(old->send(a.id, text_message("old")));
  ASSERT_TRUE(a.wait_for_messages(1));
  options.incarnation = Incarnation(2);
  Node restarted(options);
  restarted.knows(a);
  ASSERT_TRUE(restarted->send(a.id, text_message("new")));
  ASSERT_TRUE(a.wait_for_messages(2));
  ASSERT_TRUE(a.wait_down());
  EXPECT_EQ(a.downs[0], "the node was started anew");
  ASSERT_TRUE(old.wait_down());
  // The old one is not let in again.
  ASSERT_TRUE(old->send(a.id, text_message("again")));
  ASSERT_TRUE(old.wait_dial_failed());
  EXPECT_TRUE(old.failures[0].rejected);
  EXPECT_NE(old.failures[0].reason.find("newer start"), std::string::npos);
}

TEST(Transport, BackPressureIsBoundedAndRefusesByReturningFalse) {
  const auto secret = RunSecret::generate();
  auto receiver = options_for(2, secret);
  receiver.max_inbound_bytes = 1 << 20;
  Node b(receiver);
  std::mutex gate;
  std::unique_lock closed(gate);
  b.on_message = [&](const Received&) { const std::lock_guard wait(gate); };
  auto sender = options_for(1, secret);
  sender.queue.max_bulk_bytes = 4 << 20;
  Node a(sender);
  a.knows(b);
  // What fits: the queue, the receiver's bound, and what the system's socket buffers take.
  const auto payload = pattern_payload(1 << 20, 1);
  std::size_t taken = 0;
  bool refused = false;
  for (int i = 0; i < 4000 && !refused; ++i) {
    refused = !a->send(b.id, {{}, payload});
    taken += !refused;
    // Give the sockets a chance to take more before it is called full.
    if (refused && a->counters().peers.at(b.id).queued_bytes < (3u << 20)) refused = false;
  }
  EXPECT_TRUE(refused);
  EXPECT_LE(a->counters().peers.at(b.id).queued_bytes, std::size_t{4} << 20);
  EXPECT_GE(a->counters().peers.at(b.id).messages_refused, 1u);
  // A heartbeat still finds room.
  EXPECT_TRUE(a->send(b.id, text_message("alive")));
  closed.unlock();
  ASSERT_TRUE(b.wait_for_messages(taken + 1));
  EXPECT_TRUE(a->flush(seconds(20)));
}

TEST(Transport, AMessageBeyondTheLimitsIsRefusedWithoutHarm) {
  const auto secret = RunSecret::generate();
  auto options = options_for(1, secret);
  options.frames = {.max_control = 2000, .max_payload = 5000};
  Node a(options), b(options_for(2, secret));
  a.knows(b);
  EXPECT_FALSE(a->send(b.id, {std::vector<std::byte>(2001), nullptr}));
  EXPECT_FALSE(a->send(b.id, {{}, pattern_payload(5001, 1)}));
  EXPECT_FALSE(a->send(NodeId(77), text_message("whom?")));
  EXPECT_TRUE(a->send(b.id, {std::vector<std::byte>(2000), pattern_payload(5000, 1)}));
  EXPECT_TRUE(b.wait_for_messages(1));
}

TEST(Transport, AnOccupiedPortIsAClearError) {
  const auto secret = RunSecret::generate();
  Node a(options_for(1, secret));
  auto options = options_for(2, secret);
  options.listen_port = a->port();
  SerialExecutor executor;
  Callbacks callbacks;
  callbacks.executor = [&](auto work) { executor.post(std::move(work)); };
  callbacks.on_message = [](NodeId, Incarnation, Message) {};
  callbacks.on_peer_up = [](const PeerInfo&) {};
  callbacks.on_peer_down = [](NodeId, Incarnation, const std::string&) {};
  Transport second(options, callbacks);
  const auto result = second.listen();
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().message.find("127.0.0.1:" + std::to_string(a->port()) + ": the port is taken"),
            std::string::npos)
      << result.error().message;
}

TEST(Transport, OptionsReportEveryFaultAtOnce) {
  TransportOptions options;
  options.retry_first = seconds(9);
  options.links = LinkTable::ten_locations();
  options.region = "Atlantis";
  const auto result = options.check();
  ASSERT_FALSE(result.ok());
  for (const char* part : {"no name", "retry_first", "Atlantis", "Tokyo"})
    EXPECT_NE(result.error().message.find(part), std::string::npos) << result.error().message;
}

TEST(Transport, WhatWaitsForADeadPeerIsDroppedAndCounted) {
  const auto secret = RunSecret::generate();
  auto options = options_for(1, secret);
  options.queue_patience = milliseconds(100);
  Node a(options);
  Address nobody;
  {
    Node b(options_for(2, secret));
    nobody = b.address();
  }
  a->set_address(NodeId(2), nobody);
  ASSERT_TRUE(a->send(NodeId(2), {{}, pattern_payload(1000, 1)}));
  ASSERT_TRUE(a.wait([&] { return a->counters().peers.at(NodeId(2)).messages_lost == 1; }));
  EXPECT_EQ(a->counters().peers.at(NodeId(2)).queued_bytes, 0u);
}

TEST(Transport, StopUnderLoadReturnsAndNothingIsCalledAfterwards) {
  const auto secret = RunSecret::generate();
  for (int round = 0; round < 5; ++round) {
    auto a = std::make_unique<Node>(options_for(1, secret));
    auto b = std::make_unique<Node>(options_for(2, secret));
    a->knows(*b);
    b->knows(*a);
    std::atomic<bool> ended = false;
    const auto payload = pattern_payload(300000, 1);
    std::thread load([&] {
      while (!ended) {
        (*a)->send(b->id, {{}, payload});
        (*b)->send(a->id, {{}, payload});
        std::this_thread::yield();
      }
    });
    ASSERT_TRUE(b->wait_for_messages(10 + round));
    (*b)->stop();
    std::size_t seen = 0;
    {
      const std::lock_guard lock(b->mutex);
      seen = b->received.size();
    }
    ASSERT_TRUE(a->wait_down());
    (*a)->stop();
    ended = true;
    load.join();
    EXPECT_FALSE((*a)->send(b->id, text_message("late")));
    const std::lock_guard lock(b->mutex);
    EXPECT_EQ(b->received.size(), seen);
  }
}

TEST(Transport, ACallbackMayStopTheTransport) {
  const auto secret = RunSecret::generate();
  Node a(options_for(1, secret)), b(options_for(2, secret));
  std::atomic<bool> stopped = false;
  b.on_message = [&](const Received&) {
    b->stop();
    stopped = true;
  };
  a.knows(b);
  ASSERT_TRUE(a->send(b.id, text_message("stop")));
  ASSERT_TRUE(a.wait_down());
  EXPECT_TRUE(b.wait_for_messages(1));
  EXPECT_TRUE(stopped);
}

}  // namespace
}  // namespace tributary::net
