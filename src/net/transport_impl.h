// The transport's inside: peers, dials, and which of two connections of a pair is kept. Internal.
#pragma once
#include <atomic>
#include <condition_variable>
#include <list>
#include <map>
#include <mutex>
#include <thread>

#include "net/connection.h"
#include "net/uplink.h"

namespace tributary::net {

// One remote node.
struct Peer {
  Peer(NodeId id, const SendQueueLimits& limits, asio::io_context& io) : node(id), queue(limits), retry(io) {}
  const NodeId node;

  std::mutex mutex;  // guards the next group
  SendQueue queue;
  PeerCounters counters;
  bool wake_posted = false;
  bool connected = false;
  bool in_flight = false;  // frames taken from the queue are not yet with the system

  // I/O thread only.
  std::optional<Address> address;
  std::shared_ptr<Connection> connection;  // open
  std::shared_ptr<Connection> dialling;
  Incarnation incarnation;  // the highest seen
  std::optional<PublicKey> key;
  bool blackholed = false;
  asio::steady_timer retry;
  bool retry_armed = false;
  Duration backoff{};
  Duration handshake{};  // of the last connection; 0: none yet
  std::optional<SteadyClock::time_point> waiting_since;
};

struct Seed {
  explicit Seed(asio::io_context& io, Address where) : address(std::move(where)), retry(io) {}
  Address address;
  std::shared_ptr<Connection> dialling;
  asio::steady_timer retry;
  Duration backoff{};
};

// Outlives the transport in closures that the executor still holds.
struct Delivery {
  std::recursive_mutex mutex;       // held while a callback runs; recursive, since a callback may call stop()
  Transport::Impl* impl = nullptr;  // null once stopped
  Callbacks callbacks;
};

class Transport::Impl final : public ConnectionHost {
 public:
  Impl(TransportOptions options, Callbacks callbacks);
  ~Impl();

  Result<void> listen();
  std::uint16_t port() const { return port_; }
  void set_address(NodeId node, Address address);
  void connect_seed(Address address);
  bool send(NodeId node, Message message);
  void disconnect(NodeId node, std::string reason);
  void set_blackhole(NodeId node, bool on);
  void set_blackhole(bool on);
  bool flush(Duration at_most);
  Counters counters() const;
  void stop();

  const TransportOptions& options() const override { return options_; }
  Hello own_hello() const override;
  std::optional<Reject> judge(Connection& connection, bool& hold) override;
  void opened(Connection& connection) override;
  void received(Connection& connection, Message message) override;
  void closed(Connection& connection, const std::string& reason) override;
  void bad_frame(Connection& connection) override;
  void turned_away(Connection& connection) override;
  void take_frames(Connection& connection, std::vector<std::byte>& out, std::size_t limit, bool control_only) override;
  void wrote(Connection& connection) override;
  std::size_t read_turn(std::size_t wanted) const override { return downlink_.turn(wanted); }
  SteadyClock::time_point charge_read(std::size_t bytes) override { return downlink_.charge(bytes); }

 private:
  std::shared_ptr<Peer> find(NodeId node) const;
  std::shared_ptr<Peer> find_or_add(NodeId node);
  std::shared_ptr<Connection> make_connection(Role role);
  void forget(Connection& connection);
  void accept_next();
  void meter(Connection& connection);
  void pump(const std::shared_ptr<Peer>& peer, bool backlog = false);
  void dial(const std::shared_ptr<Peer>& peer);
  void dial_failed(const std::shared_ptr<Peer>& peer, const DialFailure& failure, std::optional<RejectCode> code);
  void arm_retry(const std::shared_ptr<Peer>& peer, Duration pause);
  void dial_seed(const std::shared_ptr<Seed>& seed);
  void seed_closed(Connection& connection, const DialFailure& failure);
  void apply_blackhole(const std::shared_ptr<Peer>& peer, bool on);
  void drop_queue(Peer& peer);
  void count_bytes(Peer& peer, Connection& connection);
  void down(const std::shared_ptr<Peer>& peer, const std::string& reason);
  std::optional<Reject> judge_duplicate(const Connection& connection, const Peer& peer) const;
  void consumed(std::uint64_t serial, std::size_t bytes);
  // Has the executor run it, unless the transport was stopped by then.
  template <class Function>
  void emit(Function function);

  const TransportOptions options_;
  const std::shared_ptr<Delivery> delivery_;
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  asio::ssl::context tls_;
  std::atomic<std::uint16_t> port_ = 0;
  std::atomic<bool> stopped_ = false;

  mutable std::mutex peers_mutex_;
  std::map<NodeId, std::shared_ptr<Peer>> peers_;
  bool all_blackholed_ = false;  // guarded by peers_mutex_
  std::atomic<std::uint64_t> rejected_ = 0, handshakes_failed_ = 0, handshakes_refused_ = 0, bad_frames_ = 0;
  std::mutex flush_mutex_;
  std::condition_variable flushed_;
  std::uint64_t writes_ = 0;  // guarded by flush_mutex_

  // I/O thread only.
  asio::ip::tcp::acceptor acceptor_;
  asio::steady_timer accept_pause_;
  Uplink uplink_;
  Downlink downlink_;
  std::map<std::uint64_t, std::shared_ptr<Connection>> connections_;
  std::list<std::shared_ptr<Seed>> seeds_;
  std::uint64_t next_serial_ = 1;
  Random random_;
  std::thread thread_;  // last: everything else is there when it starts
};

template <class Function>
void Transport::Impl::emit(Function function) {
  delivery_->callbacks.executor([delivery = delivery_, function = std::move(function)]() mutable {
    const std::lock_guard lock(delivery->mutex);
    if (delivery->impl) function(*delivery);
  });
}

}  // namespace tributary::net
