#include "net/transport_impl.h"

#include <openssl/ssl.h>

#include "base/log.h"

namespace tributary::net {
namespace {

constexpr std::size_t kMaxPeers = 20000;
constexpr auto kAcceptPause = std::chrono::milliseconds(100);  // when the system has no more descriptors

asio::ssl::context make_tls(const Identity& identity) {
  asio::ssl::context context(asio::ssl::context::tlsv13);
  SSL_CTX* native = context.native_handle();
  bool good = SSL_CTX_set_min_proto_version(native, TLS1_3_VERSION) == 1;
  good = good && SSL_CTX_use_certificate(native, identity.certificate()) == 1;
  good = good && SSL_CTX_use_PrivateKey(native, identity.private_key()) == 1;
  good = good && SSL_CTX_set1_sigalgs_list(native, "ed25519") == 1;
  good = good && SSL_CTX_set_ciphersuites(native, "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256") == 1;
  // Neither tickets nor sessions: a resumed session would be bound to another channel's handshake.
  SSL_CTX_set_options(native, SSL_OP_NO_TICKET);
  SSL_CTX_set_session_cache_mode(native, SSL_SESS_CACHE_OFF);
  good = good && SSL_CTX_set_num_tickets(native, 0) == 1;
  SSL_CTX_set_mode(native, SSL_MODE_RELEASE_BUFFERS);
  TRIBUTARY_CHECK(good, "OpenSSL lacks TLS 1.3 with Ed25519");
  context.set_verify_mode(asio::ssl::verify_peer | asio::ssl::verify_fail_if_no_peer_cert);
  // No authority signs these certificates: the key is the identity, and the proof of the secret that follows counts.
  context.set_verify_callback([](bool, asio::ssl::verify_context&) { return true; });
  return context;
}

}  // namespace

Transport::Impl::Impl(TransportOptions options, Callbacks callbacks)
    : options_(std::move(options)),
      delivery_(std::make_shared<Delivery>()),
      work_(io_.get_executor()),
      tls_(make_tls(options_.identity)),
      acceptor_(io_),
      accept_pause_(io_),
      uplink_(io_, options_.upload_bytes_per_s),
      downlink_(options_.download_bytes_per_s),
      random_(mix64(options_.seed, options_.incarnation.value())) {
  const auto good = options_.check();
  TRIBUTARY_CHECK(good.ok(), good.error().message);
  TRIBUTARY_CHECK(callbacks.executor && callbacks.on_message && callbacks.on_peer_up && callbacks.on_peer_down,
                  "a transport without callbacks");
  delivery_->impl = this;
  delivery_->callbacks = std::move(callbacks);
  thread_ = std::thread([this] { io_.run(); });
}

Transport::Impl::~Impl() { stop(); }

Result<void> Transport::Impl::listen() {
  asio::error_code error;
  const Address wanted{options_.listen_host, options_.listen_port};
  const auto host = asio::ip::make_address(options_.listen_host, error);
  if (error)
    return Error{"cannot listen on " + to_string(wanted) + ": the host must be a numeric address, such as 0.0.0.0"};
  asio::ip::tcp::acceptor acceptor(io_);
  const asio::ip::tcp::endpoint endpoint(host, options_.listen_port);
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(asio::ip::tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error == asio::error::address_in_use)
    return Error{"cannot listen on " + to_string(wanted) +
                 ": the port is taken; end the program that holds it, choose another, or 0 for any free one"};
  if (error) return Error{"cannot listen on " + to_string(wanted) + ": " + error.message()};
  port_ = acceptor.local_endpoint().port();
  asio::post(io_, [this, acceptor = std::make_shared<asio::ip::tcp::acceptor>(std::move(acceptor))] {
    if (stopped_) return;
    acceptor_ = std::move(*acceptor);
    accept_next();
  });
  return {};
}

std::shared_ptr<Peer> Transport::Impl::find(NodeId node) const {
  const std::lock_guard lock(peers_mutex_);
  const auto found = peers_.find(node);
  return found == peers_.end() ? nullptr : found->second;
}

std::shared_ptr<Peer> Transport::Impl::find_or_add(NodeId node) {
  const std::lock_guard lock(peers_mutex_);
  auto& peer = peers_[node];
  if (!peer) {
    if (peers_.size() > kMaxPeers) {
      peers_.erase(node);
      return nullptr;
    }
    peer = std::make_shared<Peer>(node, options_.queue, io_);
    peer->blackholed = all_blackholed_;  // nobody else knows it yet
  }
  return peer;
}

void Transport::Impl::set_address(NodeId node, Address address) {
  if (node == options_.node) return;
  const auto peer = find_or_add(node);
  if (!peer) return;
  asio::post(io_, [this, peer, address = std::move(address)]() mutable {
    peer->address = std::move(address);
    peer->retry.cancel();
    peer->retry_armed = false;
    pump(peer);
  });
}

bool Transport::Impl::send(NodeId node, Message message) {
  const auto peer = find(node);
  if (!peer || stopped_) return false;
  const std::lock_guard lock(peer->mutex);
  if (message.control.size() > options_.frames.max_control ||
      payload_size(message.payload) > options_.frames.max_payload || !peer->queue.push(std::move(message))) {
    ++peer->counters.messages_refused;
    return false;
  }
  if (!std::exchange(peer->wake_posted, true)) asio::post(io_, [this, peer] { pump(peer); });
  return true;
}

void Transport::Impl::disconnect(NodeId node, std::string reason) {
  const auto peer = find(node);
  if (!peer) return;
  asio::post(io_, [this, peer, reason = std::move(reason)] {
    if (const auto dialling = std::exchange(peer->dialling, nullptr)) {
      dialling->close(reason, false);
      forget(*dialling);
    }
    if (peer->connection) down(peer, reason);
    drop_queue(*peer);
  });
}

void Transport::Impl::set_blackhole(NodeId node, bool on) {
  const auto peer = find_or_add(node);
  if (!peer) return;
  asio::post(io_, [this, peer, on] { apply_blackhole(peer, on); });
}

void Transport::Impl::set_blackhole(bool on) {
  const std::lock_guard lock(peers_mutex_);
  all_blackholed_ = on;
  for (const auto& [node, peer] : peers_) asio::post(io_, [this, peer = peer, on] { apply_blackhole(peer, on); });
}

void Transport::Impl::apply_blackhole(const std::shared_ptr<Peer>& peer, bool on) {
  if (peer->blackholed == on) return;
  peer->blackholed = on;
  if (peer->connection) peer->connection->set_blackhole(on);
  if (const auto dialling = on ? std::exchange(peer->dialling, nullptr) : nullptr) {
    dialling->close("black hole", false);
    forget(*dialling);
  }
  pump(peer);
}

bool Transport::Impl::flush(Duration at_most) {
  const auto deadline = SteadyClock::now() + at_most;
  std::unique_lock lock(flush_mutex_);
  for (;;) {
    const std::uint64_t seen = writes_;
    lock.unlock();
    std::vector<std::shared_ptr<Peer>> peers;
    {
      const std::lock_guard peers_lock(peers_mutex_);
      for (const auto& [node, peer] : peers_) peers.push_back(peer);
    }
    bool done = true;
    for (const auto& peer : peers) {
      const std::lock_guard peer_lock(peer->mutex);
      done = done && (!peer->connected || (peer->queue.empty() && !peer->in_flight));
    }
    if (done || stopped_) return done;
    lock.lock();
    if (!flushed_.wait_until(lock, deadline, [&] { return writes_ != seen; })) return false;
  }
}

Counters Transport::Impl::counters() const {
  Counters counters;
  counters.rejected = rejected_;
  counters.handshakes_failed = handshakes_failed_;
  counters.handshakes_refused = handshakes_refused_;
  counters.bad_frames = bad_frames_;
  const std::lock_guard lock(peers_mutex_);
  for (const auto& [node, peer] : peers_) {
    const std::lock_guard peer_lock(peer->mutex);
    auto& entry = counters.peers[node] = peer->counters;
    entry.queued_bytes = peer->queue.bytes();
  }
  return counters;
}

void Transport::Impl::stop() {
  {
    const std::lock_guard lock(delivery_->mutex);
    delivery_->impl = nullptr;
  }
  if (!stopped_.exchange(true)) {
    asio::post(io_, [this] {
      asio::error_code ignored;
      acceptor_.close(ignored);
      accept_pause_.cancel();
      uplink_.stop();
      for (const auto& [serial, connection] : std::exchange(connections_, {})) connection->close("stopped", false);
      for (const auto& seed : std::exchange(seeds_, {})) {
        seed->retry.cancel();
        seed->dialling = nullptr;
      }
      const std::lock_guard lock(peers_mutex_);
      for (const auto& [node, peer] : peers_) {
        peer->retry.cancel();
        peer->connection = peer->dialling = nullptr;
      }
      work_.reset();
    });
  }
  if (thread_.joinable()) thread_.join();
}

Hello Transport::Impl::own_hello() const {
  Hello hello;
  hello.capabilities = options_.capabilities;
  hello.node = options_.node;
  hello.incarnation = options_.incarnation;
  hello.run_hash = checksum64(options_.run);
  hello.region = options_.region;
  hello.host = options_.advertised_host;
  if (hello.host.empty() && options_.listen_host != "0.0.0.0" && options_.listen_host != "::")
    hello.host = options_.listen_host;
  hello.port = port_;
  return hello;
}

std::shared_ptr<Connection> Transport::Impl::make_connection(Role role) {
  auto connection = std::make_shared<Connection>(*this, io_, tls_, role, next_serial_++);
  connections_[connection->serial()] = connection;
  return connection;
}

void Transport::Impl::forget(Connection& connection) { connections_.erase(connection.serial()); }

void Transport::Impl::accept_next() {
  const auto connection = std::make_shared<Connection>(*this, io_, tls_, Role::kListener, next_serial_++);
  acceptor_.async_accept(connection->socket(), [this, connection](const asio::error_code& error) {
    if (stopped_) return;
    if (error) {
      accept_pause_.expires_after(kAcceptPause);
      accept_pause_.async_wait([this](const asio::error_code& cancelled) {
        if (!cancelled) accept_next();
      });
      return;
    }
    std::size_t handshaking = 0, accepted = 0;
    for (const auto& [serial, other] : connections_) {
      if (other->role() != Role::kListener) continue;
      ++accepted;
      handshaking += !other->is_open();
    }
    if (handshaking >= options_.max_handshakes || accepted >= options_.max_connections) {
      ++handshakes_refused_;
      connection->close("too many connections", false);
    } else {
      connections_[connection->serial()] = connection;
      connection->accept(options_.handshake_timeout);
    }
    accept_next();
  });
}

void Transport::Impl::pump(const std::shared_ptr<Peer>& peer, bool backlog) {
  if (stopped_) return;
  bool empty, control;
  {
    const std::lock_guard lock(peer->mutex);
    peer->wake_posted = false;
    empty = peer->queue.empty();
    control = peer->queue.has_control();
  }
  if (empty) return;
  const auto& connection = peer->connection;
  if (!connection) return dial(peer);
  if (!connection->idle()) return;
  if (uplink_.governs(*connection)) return uplink_.request(connection, control, backlog);
  connection->turn_begin = SteadyClock::now();
  connection->turn_bytes = connection->take(kMaxSegment + kFrameHeaderSize, false);
  if (connection->turn_bytes > 0) connection->write_taken();
}

// Short turns say more of latency and system calls than of the link.
void Transport::Impl::meter(Connection& connection) {
  constexpr std::size_t kShortTurn = 2 << 10, kEnough = 128 << 10;
  const auto turn = std::exchange(connection.turn_bytes, 0);
  if (turn < kShortTurn || !delivery_->callbacks.on_link_measured) return;
  const auto end = std::max(SteadyClock::now(), connection.turn_begin + std::chrono::microseconds(1));
  connection.metered_bytes += turn;
  connection.metered_time += end - connection.turn_begin;
  if (connection.metered_bytes < kEnough) return;
  const double rate = static_cast<double>(std::exchange(connection.metered_bytes, 0)) /
                      std::chrono::duration<double>(std::exchange(connection.metered_time, {})).count();
  emit([node = connection.hello().node, rate](Delivery& delivery) { delivery.callbacks.on_link_measured(node, rate); });
}

void Transport::Impl::count_bytes(Peer& peer, Connection& connection) {
  // Requires peer.mutex.
  peer.counters.bytes_in += std::exchange(connection.bytes_in, 0);
  peer.counters.bytes_out += std::exchange(connection.bytes_out, 0);
}

void Transport::Impl::take_frames(Connection& connection, std::vector<std::byte>& out, std::size_t limit,
                                  bool control_only) {
  const auto peer = find(connection.hello().node);
  if (!peer || peer->connection.get() != &connection) return;
  const std::lock_guard lock(peer->mutex);
  peer->queue.fill(out, limit, control_only);
  peer->in_flight = !out.empty();
}

void Transport::Impl::wrote(Connection& connection) {
  const auto peer = find(connection.hello().node);
  if (!peer || peer->connection.get() != &connection) return;
  meter(connection);
  {
    const std::lock_guard lock(peer->mutex);
    peer->in_flight = false;
    count_bytes(*peer, connection);
  }
  {
    const std::lock_guard lock(flush_mutex_);
    ++writes_;
  }
  flushed_.notify_all();
  pump(peer, true);
}

void Transport::Impl::received(Connection& connection, Message message) {
  const NodeId node = connection.hello().node;
  if (const auto peer = find(node)) {
    const std::lock_guard lock(peer->mutex);
    ++peer->counters.messages_in;
    count_bytes(*peer, connection);
  }
  emit([node, incarnation = connection.hello().incarnation, serial = connection.serial(),
        message = std::move(message)](Delivery& delivery) mutable {
    const std::size_t size = message.size();
    delivery.callbacks.on_message(node, incarnation, std::move(message));
    if (delivery.impl) delivery.impl->consumed(serial, size);  // the callback may have stopped it
  });
}

void Transport::Impl::consumed(std::uint64_t serial, std::size_t bytes) {
  asio::post(io_, [this, serial, bytes] {
    const auto found = connections_.find(serial);
    if (found != connections_.end()) found->second->consumed(bytes);
  });
}

void Transport::Impl::bad_frame(Connection& connection) {
  ++bad_frames_;
  log::warning("net.bad_frame", {{"from", connection.remote_host()}, {"node", connection.hello().node}});
  if (!connection.is_open()) return;
  if (const auto peer = find(connection.hello().node)) {
    const std::lock_guard lock(peer->mutex);
    ++peer->counters.bad_frames;
  }
}

}  // namespace tributary::net
