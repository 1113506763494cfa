// A node for tests: a transport on loopback, its protocol thread, and a record of what it was told. Waits are for
// conditions, with a generous limit.
#pragma once
#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "net/transport.h"

namespace tributary::net::test {

// One thread that runs what it is given, in order.
class SerialExecutor {
 public:
  SerialExecutor() : thread_([this] { loop(); }) {}
  ~SerialExecutor() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }
  void post(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      work_.push_back(std::move(work));
    }
    wake_.notify_all();
  }

 private:
  void loop() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return ended_ || !work_.empty(); });
      if (ended_) return;
      auto work = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      work();
      lock.lock();
    }
  }
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> work_;
  bool ended_ = false;
  std::thread thread_;
};

struct Received {
  NodeId from;
  Incarnation incarnation;
  Message message;
  std::chrono::steady_clock::time_point at;
};

inline TransportOptions options_for(std::uint32_t id, const RunSecret& secret, std::uint64_t incarnation = 1) {
  TransportOptions options;
  options.node = NodeId(id);
  options.incarnation = Incarnation(incarnation);
  options.secret = secret;
  options.run = "test";
  options.retry_first = milliseconds(5);
  options.retry_most = milliseconds(100);
  return options;
}

class Node {
 public:
  explicit Node(TransportOptions options) : id(options.node), transport_(std::move(options), callbacks()) {
    const auto listening = transport_.listen();
    EXPECT_TRUE(listening.ok()) << listening.error().message;
  }
  ~Node() { transport_.stop(); }

  Transport* operator->() { return &transport_; }
  Address address() const { return {"127.0.0.1", transport_.port()}; }
  void knows(Node& other) { transport_.set_address(other.id, other.address()); }

  // False: not within the limit.
  bool wait(const std::function<bool()>& condition, Duration limit = seconds(20)) {
    // What is not announced (counters) is looked at every few milliseconds.
    const auto deadline = std::chrono::steady_clock::now() + limit;
    std::unique_lock lock(mutex);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      changed_.wait_for(lock, milliseconds(5));
    }
    return true;
  }
  bool wait_for_messages(std::size_t count) {
    return wait([&] { return received.size() >= count; });
  }
  bool wait_up(std::size_t count = 1) {
    return wait([&] { return ups.size() >= count; });
  }
  bool wait_down(std::size_t count = 1) {
    return wait([&] { return downs.size() >= count; });
  }
  bool wait_dial_failed(std::size_t count = 1) {
    return wait([&] { return failures.size() >= count; });
  }

  const NodeId id;
  std::mutex mutex;  // guards what follows
  std::vector<Received> received;
  std::vector<PeerInfo> ups;
  std::vector<std::string> downs;
  std::vector<std::chrono::steady_clock::time_point> down_times;
  std::vector<DialFailure> failures;
  std::function<void(const Received&)> on_message;  // set before traffic; runs on the protocol thread

 private:
  Callbacks callbacks() {
    Callbacks callbacks;
    callbacks.executor = [this](std::function<void()> work) { executor_.post(std::move(work)); };
    callbacks.on_message = [this](NodeId from, Incarnation incarnation, Message message) {
      Received entry{from, incarnation, std::move(message), std::chrono::steady_clock::now()};
      if (on_message) on_message(entry);
      note([&] { received.push_back(std::move(entry)); });
    };
    callbacks.on_peer_up = [this](const PeerInfo& info) { note([&] { ups.push_back(info); }); };
    callbacks.on_peer_down = [this](NodeId, Incarnation, const std::string& reason) {
      note([&] {
        downs.push_back(reason);
        down_times.push_back(std::chrono::steady_clock::now());
      });
    };
    callbacks.on_dial_failed = [this](const DialFailure& failure) { note([&] { failures.push_back(failure); }); };
    return callbacks;
  }
  void note(const std::function<void()>& change) {
    {
      const std::lock_guard lock(mutex);
      change();
    }
    changed_.notify_all();
  }

  std::condition_variable changed_;
  SerialExecutor executor_;
  Transport transport_;  // last: it uses the others until it is gone
};

inline Message text_message(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {{bytes.begin(), bytes.end()}, nullptr};
}
inline std::string text_of(const Message& message) {
  return {reinterpret_cast<const char*>(message.control.data()), message.control.size()};
}
// Bytes that differ from place to place and from seed to seed.
inline Payload pattern_payload(std::size_t size, std::uint64_t seed) {
  auto buffer = make_buffer(size);
  Random random(seed);
  std::size_t i = 0;
  for (; i + 8 <= size; i += 8) {
    const std::uint64_t word = random.next();
    std::memcpy(buffer->data() + i, &word, 8);
  }
  for (; i < size; ++i) buffer->data()[i] = static_cast<std::byte>(random.next());
  return buffer;
}
inline bool same_bytes(const Payload& a, const Payload& b) {
  return payload_size(a) == payload_size(b) && (a == nullptr) == (b == nullptr) &&
         (!a || std::memcmp(a->data(), b->data(), a->size()) == 0);
}

}  // namespace tributary::net::test
