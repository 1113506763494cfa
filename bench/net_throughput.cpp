// Two transports on loopback: payload throughput (TLS, framing, checksums included) and the round trip of a small
// message, idle and beside a bulk transfer. Usage: net_throughput [MIB]
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <thread>

#include "net/transport.h"

namespace tributary::net {
namespace {

using Clock = std::chrono::steady_clock;

// Runs closures in order on a thread of its own.
class Executor {
 public:
  ~Executor() {
    post(nullptr);
    thread_.join();
  }
  void post(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
    wake_.notify_one();
  }

 private:
  void loop() {
    for (;;) {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return !work_.empty(); });
      auto work = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      if (!work) return;
      work();
    }
  }
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> work_;
  std::thread thread_{[this] { loop(); }};
};

struct Node {
  Node(std::uint32_t id, const RunSecret& secret, std::function<void(Node&, Message)> handler)
      : handle(std::move(handler)), transport(options(id, secret), callbacks()) {
    if (auto listening = transport.listen(); !listening) std::abort();
  }
  static TransportOptions options(std::uint32_t id, const RunSecret& secret) {
    TransportOptions options;
    options.node = NodeId(id);
    options.secret = secret;
    options.run = "bench";
    return options;
  }
  Callbacks callbacks() {
    Callbacks callbacks;
    callbacks.executor = [this](auto work) { executor.post(std::move(work)); };
    callbacks.on_message = [this](NodeId, Incarnation, Message message) { handle(*this, std::move(message)); };
    callbacks.on_peer_up = [](const PeerInfo&) {};
    callbacks.on_peer_down = [](NodeId, Incarnation, const std::string&) {};
    return callbacks;
  }
  std::function<void(Node&, Message)> handle;
  Executor executor;
  Transport transport;
};

int run(std::size_t mib) {
  const auto secret = RunSecret::generate();
  std::atomic<std::size_t> bulk = 0, echoes = 0;
  Node b(2, secret, [&](Node& self, Message message) {
    if (message.payload) {
      ++bulk;
      bulk.notify_all();
    } else {
      self.transport.send(NodeId(1), std::move(message));
    }
  });
  Node a(1, secret, [&](Node&, Message) {
    ++echoes;
    echoes.notify_all();
  });
  a.transport.set_address(NodeId(2), {"127.0.0.1", b.transport.port()});
  const auto round_trips = [&](int count) {
    std::vector<double> times;
    for (int k = 0; k < count; ++k) {
      const std::size_t before = echoes;
      const auto start = Clock::now();
      a.transport.send(NodeId(2), {std::vector<std::byte>(100), nullptr});
      while (echoes == before) echoes.wait(before);
      times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
    }
    std::sort(times.begin(), times.end());
    std::printf("round trip of 100 bytes: median %.0f us, p95 %.0f us\n", times[times.size() / 2],
                times[times.size() * 95 / 100]);
  };
  round_trips(2000);
  const auto payload = make_buffer(1 << 20);
  const auto start = Clock::now();
  for (std::size_t k = 0; k < mib; ++k)
    while (!a.transport.send(NodeId(2), {{}, payload})) std::this_thread::yield();
  std::printf("beside the transfer, ");
  round_trips(100);
  for (std::size_t seen = bulk; seen < mib; seen = bulk) bulk.wait(seen);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  std::printf("%zu MiB in payloads of 1 MiB: %.0f MiB/s\n", mib, static_cast<double>(mib) / seconds);
  return 0;
}

}  // namespace
}  // namespace tributary::net

int main(int argc, char** argv) { return tributary::net::run(argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1024); }
