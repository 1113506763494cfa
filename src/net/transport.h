// Messages between the nodes of a run: TLS 1.3 connections, one a pair, made on demand and made again with growing
// pauses; every one proves the run's secret before anything else is said (docs/security.md).
//
// Threads: every public function may be called from any thread, but stop() and the destructor not from inside the
// executor's own posting. One I/O thread does sockets, TLS and shaping. Callbacks run where Options::executor runs what
// it is given: it must run each closure once, in order, one at a time, and never inside the call that posts it.
//
// Order: messages with payload arrive in the order sent, and so do those without, but the latter may overtake the
// former. A connection that ends loses what was under way and what waited for it; on_peer_down says so.
//
// Bounds: options.queue for each peer's outgoing messages, options.max_inbound_bytes for each peer's received messages
// that the executor has not yet handled (then nothing more is read from it), max_handshakes, max_connections.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "net/frame.h"
#include "net/identity.h"
#include "net/message.h"
#include "net/send_queue.h"
#include "net/shaping.h"

namespace tributary::net {

struct Address {
  std::string host;
  std::uint16_t port = 0;
};
std::string to_string(const Address& address);

struct TransportOptions {
  NodeId node;
  Incarnation incarnation;
  Identity identity = Identity::generate();
  RunSecret secret;
  std::string run;  // the run's name; members of another are turned away
  std::uint64_t capabilities = 0;

  std::string listen_host = "127.0.0.1";  // an address of this machine; 0.0.0.0 or :: for all
  std::uint16_t listen_port = 0;          // 0: the system chooses
  std::string advertised_host;            // what others dial; empty: where they see this node's calls come from

  FrameLimits frames;
  SendQueueLimits queue;
  std::size_t max_inbound_bytes = std::size_t{256} << 20;
  std::size_t max_handshakes = 64;           // accepted connections that have not proved themselves yet
  std::size_t max_connections = 4096;        // accepted ones in all
  Duration handshake_timeout = seconds(10);  // the ceiling; less once a peer's own handshakes were measured
  Duration retry_first = milliseconds(50);   // after a failed dial, doubled each time
  Duration retry_most = seconds(5);
  Duration queue_patience = seconds(3);  // what waits for a peer that cannot be reached is dropped after so long

  double upload_bytes_per_s = 0;    // over all peers; 0: no cap
  double download_bytes_per_s = 0;  // the same; senders are slowed by the connections' own flow control
  LinkTable links;                  // shaped links; the default shapes nothing
  std::string region;               // this node's place in `links`
  std::uint64_t seed = 1;           // of jitter and losses

  // Every fault at once, or nothing.
  Result<void> check() const;
};

struct PeerInfo {
  NodeId node;
  Incarnation incarnation;
  Address address;  // where it listens; port 0 if it does not
  PublicKey key{};
  std::uint64_t capabilities = 0;  // of both
  std::string region;
};

struct DialFailure {
  std::optional<NodeId> node;  // none for a seed
  Address address;
  std::string reason;
  bool rejected = false;  // the other side answered, and does not want this node
};

struct Callbacks {
  std::function<void(std::function<void()>)> executor;
  std::function<void(NodeId, Incarnation, Message)> on_message;
  std::function<void(const PeerInfo&)> on_peer_up;
  std::function<void(NodeId, Incarnation, const std::string& reason)> on_peer_down;
  std::function<void(const DialFailure&)> on_dial_failed;  // may be empty
  // How fast frames leave for the peer, bytes/s, again and again while much is sent to it. May be empty.
  std::function<void(NodeId, double)> on_link_measured;
};

struct PeerCounters {
  std::uint64_t bytes_in = 0;  // frames, without TLS
  std::uint64_t bytes_out = 0;
  std::uint64_t messages_in = 0;
  std::uint64_t messages_refused = 0;  // send() said false
  std::uint64_t messages_lost = 0;     // queued, then the connection ended or patience did
  std::uint64_t bad_frames = 0;
  std::uint64_t connections = 0;
  std::size_t queued_bytes = 0;
  Duration handshake{};  // the last one's
};
struct Counters {
  std::map<NodeId, PeerCounters> peers;
  std::uint64_t rejected = 0;            // strangers and wrong hellos turned away
  std::uint64_t handshakes_failed = 0;   // timed out, broke off, spoke no TLS
  std::uint64_t handshakes_refused = 0;  // too many at once
  std::uint64_t bad_frames = 0;          // all of them, strangers' too
};

class Transport {
 public:
  // Requires options.check() and all callbacks but those that may be empty.
  Transport(TransportOptions options, Callbacks callbacks);
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // Errors: the address is not one of this machine, or the port is taken.
  Result<void> listen();
  // The port that listen() got; 0 before.
  std::uint16_t port() const;

  // Where to dial a node. A peer that connects tells its own.
  void set_address(NodeId node, Address address);
  // Dials an address whose node is not known yet, until it answers; then on_peer_up tells who it is.
  void connect_seed(Address address);
  // False: refused (queue full, larger than the limits, stopped, no such peer), nothing was taken.
  bool send(NodeId node, Message message);
  // Ends the connection, if any, and forgets what waits for the peer. It may connect again.
  void disconnect(NodeId node, std::string reason);
  // While set, nothing passes in either direction and the connection stays up; afterwards it goes on where it was.
  void set_blackhole(NodeId node, bool on);
  // The same for every peer, also for those not known yet: as if this machine's network were gone.
  void set_blackhole(bool on);

  // Waits until everything queued for connected peers was handed to the system, or until the time is over.
  bool flush(Duration at_most);
  Counters counters() const;
  // Ends every connection. Nothing runs and no callback is called once it has returned.
  void stop();

  class Impl;  // internal

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace tributary::net
