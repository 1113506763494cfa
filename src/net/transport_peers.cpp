// Dialling, judging, and the life of a peer's connection.
#include <algorithm>

#include "base/log.h"
#include "net/transport_impl.h"

namespace tributary::net {
namespace {

// A peer whose handshakes took so long gets so many times that, but not less than the floor.
constexpr int kPatienceFactor = 8;
constexpr Duration kLeastHandshakeTime = seconds(1);
// Two dials that crossed are told apart from a redial by their age.
constexpr auto kCrossing = std::chrono::seconds(1);

bool hopeless(RejectCode code) { return code != RejectCode::kDuplicate && code != RejectCode::kMalformed; }

}  // namespace

void Transport::Impl::dial(const std::shared_ptr<Peer>& peer) {
  if (stopped_ || peer->connection || peer->dialling || peer->retry_armed) return;
  if (!peer->waiting_since) peer->waiting_since = SteadyClock::now();
  Duration limit = options_.handshake_timeout;
  if (peer->handshake > Duration::zero())
    limit = std::min(limit, std::max(kLeastHandshakeTime, peer->handshake * kPatienceFactor));
  if (!peer->address) {
    DialFailure failure;
    failure.node = peer->node;
    failure.reason = "no address is known for node " + to_string(peer->node);
    return dial_failed(peer, failure, std::nullopt);
  }
  if (peer->blackholed) {
    // As a dial into a black hole would: nothing, and then a time-out.
    peer->retry_armed = true;
    peer->retry.expires_after(limit);
    peer->retry.async_wait([this, peer](const asio::error_code& error) {
      if (error || stopped_) return;
      peer->retry_armed = false;
      DialFailure failure;
      failure.node = peer->node;
      failure.reason = "timed out";
      if (peer->address) failure.address = *peer->address;
      if (!peer->connection) dial_failed(peer, failure, std::nullopt);
    });
    return;
  }
  peer->dialling = make_connection(Role::kDialler);
  peer->dialling->expected = peer->node;
  // A copy: a dial that fails at once resets the member.
  const auto connection = peer->dialling;
  connection->dial(*peer->address, limit);
}

void Transport::Impl::dial_failed(const std::shared_ptr<Peer>& peer, const DialFailure& failure,
                                  std::optional<RejectCode> code) {
  peer->backoff = std::min(options_.retry_most, std::max(options_.retry_first, peer->backoff * 2));
  if (code && hopeless(*code)) peer->backoff = options_.retry_most;
  const bool impatient = peer->waiting_since && SteadyClock::now() - *peer->waiting_since >= options_.queue_patience;
  if (impatient || (code && hopeless(*code)) || !peer->address) {
    drop_queue(*peer);
    peer->waiting_since.reset();
  }
  if (code != RejectCode::kDuplicate)
    emit([failure](Delivery& delivery) {
      if (delivery.callbacks.on_dial_failed) delivery.callbacks.on_dial_failed(failure);
    });
  if (peer->address) arm_retry(peer, seconds(to_seconds(peer->backoff) * (0.75 + 0.5 * random_.uniform())));
}

void Transport::Impl::arm_retry(const std::shared_ptr<Peer>& peer, Duration pause) {
  peer->retry_armed = true;
  peer->retry.expires_after(pause);
  peer->retry.async_wait([this, peer](const asio::error_code& error) {
    if (error || stopped_) return;
    peer->retry_armed = false;
    pump(peer);  // dials again only if something waits
  });
}

void Transport::Impl::connect_seed(Address address) {
  asio::post(io_, [this, address = std::move(address)] {
    if (stopped_) return;
    seeds_.push_back(std::make_shared<Seed>(io_, address));
    dial_seed(seeds_.back());
  });
}

void Transport::Impl::dial_seed(const std::shared_ptr<Seed>& seed) {
  if (stopped_) return;
  seed->dialling = make_connection(Role::kDialler);
  const auto connection = seed->dialling;
  connection->dial(seed->address, options_.handshake_timeout);
}

void Transport::Impl::seed_closed(Connection& connection, const DialFailure& failure) {
  const auto found =
      std::find_if(seeds_.begin(), seeds_.end(), [&](const auto& seed) { return seed->dialling.get() == &connection; });
  if (found == seeds_.end()) return;
  const auto seed = *found;
  seed->dialling = nullptr;
  if (failure.rejected && connection.reject_code() == RejectCode::kDuplicate) {
    seeds_.erase(found);  // connected to it already
    return;
  }
  emit([failure](Delivery& delivery) {
    if (delivery.callbacks.on_dial_failed) delivery.callbacks.on_dial_failed(failure);
  });
  if (failure.rejected && connection.reject_code() == RejectCode::kSelf) {
    seeds_.erase(found);
    return;
  }
  seed->backoff = std::min(options_.retry_most, std::max(options_.retry_first, seed->backoff * 2));
  if (failure.rejected) seed->backoff = options_.retry_most;
  seed->retry.expires_after(seconds(to_seconds(seed->backoff) * (0.75 + 0.5 * random_.uniform())));
  seed->retry.async_wait([this, seed](const asio::error_code& error) {
    if (!error) dial_seed(seed);
  });
}

std::optional<Reject> Transport::Impl::judge(Connection& connection, bool& hold) {
  const Hello& hello = connection.hello();
  const auto reject = [](RejectCode code, std::string text) { return Reject{code, std::move(text)}; };
  if (hello.run_hash != checksum64(options_.run))
    return reject(RejectCode::kDifferentRun, "different run: this node belongs to \"" + options_.run + "\"");
  if (hello.version_max < kVersionMin || hello.version_min > kVersionMax)
    return reject(RejectCode::kVersion, "version: " + std::to_string(hello.version_min) + ".." +
                                            std::to_string(hello.version_max) + " and " + std::to_string(kVersionMin) +
                                            ".." + std::to_string(kVersionMax) + " have nothing in common; update");
  if (hello.node == options_.node)
    return reject(RejectCode::kSelf, "node id " + to_string(hello.node) + " is taken, or this is the node itself");
  if (connection.expected && *connection.expected != hello.node)
    return reject(RejectCode::kIdentity, to_string(connection.dialled) + " is node " + to_string(hello.node) +
                                             ", not node " + to_string(*connection.expected));
  const auto peer = find_or_add(hello.node);
  if (!peer) return reject(RejectCode::kMalformed, "this node knows too many nodes already");
  if (peer->key && *peer->key != connection.peer_key())
    return reject(RejectCode::kIdentity,
                  "node id " + to_string(hello.node) + " belongs to another key; a new key is a new node");
  if (peer->blackholed) {
    hold = true;
    return {};
  }
  if (hello.incarnation < peer->incarnation)
    return reject(RejectCode::kStaleIncarnation, "a newer start of node " + to_string(hello.node) + " is known");
  if (const auto duplicate = judge_duplicate(connection, *peer)) return duplicate;
  if (connection.role() == Role::kDialler && !peer->dialling) {
    // A seed turned out to be this peer: from here on it is a dial like any other.
    peer->dialling = connections_.at(connection.serial());
  }
  return {};
}

void Transport::Impl::turned_away(Connection& connection) {
  if (connection.role() == Role::kListener && connection.reject_code() != RejectCode::kDuplicate) ++rejected_;
}

// One connection a pair. When two dials cross, that of the lower id is kept; otherwise the newer one, since the other
// side only dials when it has none.
std::optional<Reject> Transport::Impl::judge_duplicate(const Connection& connection, const Peer& peer) const {
  const Reject duplicate{RejectCode::kDuplicate, "connected already"};
  const bool same = peer.connection && peer.incarnation == connection.hello().incarnation;
  if (connection.role() == Role::kDialler) {
    const bool other_dial = peer.dialling && peer.dialling.get() != &connection;
    if (same || other_dial) return duplicate;
    return {};
  }
  if (options_.node > peer.node) return {};
  if (peer.dialling) return duplicate;
  if (same && peer.connection->role() == Role::kDialler &&
      SteadyClock::now() - peer.connection->opened_at() < kCrossing)
    return duplicate;
  return {};
}

void Transport::Impl::opened(Connection& connection) {
  const Hello& hello = connection.hello();
  const auto peer = find(hello.node);
  const auto self = connections_.at(connection.serial());
  if (const auto dialling = std::exchange(peer->dialling, nullptr); dialling && dialling != self) {
    dialling->close("the other side's connection is kept", false);
    forget(*dialling);
  }
  seeds_.remove_if([&](const auto& seed) { return seed->dialling == self; });
  if (peer->connection)
    down(peer, hello.incarnation > peer->incarnation ? "the node was started anew" : "replaced by a new connection");
  peer->connection = self;
  peer->incarnation = hello.incarnation;
  peer->key = connection.peer_key();
  peer->handshake = connection.handshake_time();
  peer->backoff = Duration::zero();
  peer->waiting_since.reset();
  peer->retry.cancel();
  peer->retry_armed = false;
  PeerInfo info{hello.node, hello.incarnation, {hello.host, hello.port}, *peer->key, hello.capabilities, hello.region};
  info.capabilities &= options_.capabilities;
  if (info.address.host.empty()) info.address.host = connection.remote_host();
  if (hello.port != 0) peer->address = info.address;
  {
    const std::lock_guard lock(peer->mutex);
    peer->connected = true;
    peer->in_flight = false;
    ++peer->counters.connections;
    peer->counters.handshake = connection.handshake_time();
  }
  log::debug("net.peer_up", {{"node", hello.node}, {"address", to_string(info.address)}});
  emit([info](Delivery& delivery) { delivery.callbacks.on_peer_up(info); });
  pump(peer);
}

void Transport::Impl::drop_queue(Peer& peer) {
  {
    const std::lock_guard lock(peer.mutex);
    peer.counters.messages_lost += peer.queue.clear();
    peer.in_flight = false;
  }
  {
    const std::lock_guard lock(flush_mutex_);
    ++writes_;
  }
  flushed_.notify_all();
}

void Transport::Impl::down(const std::shared_ptr<Peer>& peer, const std::string& reason) {
  const auto connection = std::exchange(peer->connection, nullptr);
  {
    const std::lock_guard lock(peer->mutex);
    peer->connected = false;
    count_bytes(*peer, *connection);
  }
  drop_queue(*peer);
  log::debug("net.peer_down", {{"node", peer->node}, {"reason", reason}});
  emit([node = peer->node, incarnation = connection->hello().incarnation, reason](Delivery& delivery) {
    delivery.callbacks.on_peer_down(node, incarnation, reason);
  });
  connection->close(reason, false);
  forget(*connection);
}

void Transport::Impl::closed(Connection& connection, const std::string& reason) {
  const auto self = connections_.at(connection.serial());
  forget(connection);
  if (stopped_) return;
  if (connection.is_open()) {
    const auto peer = find(connection.hello().node);
    if (peer && peer->connection == self) down(peer, reason);
    return;
  }
  if (connection.role() == Role::kListener) {
    if (!connection.was_turned_away()) ++handshakes_failed_;
    return;
  }
  DialFailure failure{connection.expected, connection.dialled, reason, connection.rejected()};
  const std::optional<RejectCode> code = connection.rejected() ? std::optional(connection.reject_code()) : std::nullopt;
  const auto peer = connection.expected ? find(*connection.expected) : nullptr;
  if (!connection.expected) {
    seed_closed(connection, failure);
    if (const auto found = find(connection.hello().node); found && found->dialling == self) {
      found->dialling = nullptr;
      pump(found);
    }
    return;
  }
  if (!peer || peer->dialling != self) return;
  peer->dialling = nullptr;
  if (!peer->connection) dial_failed(peer, failure, code);
}

}  // namespace tributary::net
