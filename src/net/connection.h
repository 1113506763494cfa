// One TLS connection: handshake, frames in, frames out, and the delay of a shaped link. I/O thread only. Internal.
#pragma once
#include <deque>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "net/asio.h"
#include "net/frame.h"
#include "net/hello.h"
#include "net/transport.h"

namespace tributary::net {

using SteadyClock = std::chrono::steady_clock;
class Connection;

// What a connection asks of the transport.
class ConnectionHost {
 public:
  virtual const TransportOptions& options() const = 0;
  virtual Hello own_hello() const = 0;
  // A proven peer introduced itself. Nothing: welcome. Otherwise the rejection that it is sent. `hold` set: no answer
  // at all (a black hole).
  virtual std::optional<Reject> judge(Connection& connection, bool& hold) = 0;
  virtual void opened(Connection& connection) = 0;
  virtual void received(Connection& connection, Message message) = 0;
  // Called once, as the last thing.
  virtual void closed(Connection& connection, const std::string& reason) = 0;
  virtual void bad_frame(Connection& connection) = 0;
  // The other side is being sent a rejection.
  virtual void turned_away(Connection& connection) = 0;
  // Fills `out` with frames for this connection's peer.
  virtual void take_frames(Connection& connection, std::vector<std::byte>& out, std::size_t limit,
                           bool control_only) = 0;
  // Something was written; more may wait.
  virtual void wrote(Connection& connection) = 0;
  // The cap on downloads: the most to read now, and when to read again after so many bytes.
  virtual std::size_t read_turn(std::size_t wanted) const = 0;
  virtual SteadyClock::time_point charge_read(std::size_t bytes) = 0;

 protected:
  ~ConnectionHost() = default;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(ConnectionHost& host, asio::io_context& io, asio::ssl::context& tls, Role role, std::uint64_t serial);

  // The dialling side: resolves, connects, handshakes. The listening side: the socket is connected already.
  void dial(const Address& address, Duration time_limit);
  void accept(Duration time_limit);
  // Ends it now; what was received but is still delayed is dropped. closed() is called unless the host began it.
  void close(const std::string& reason, bool tell_host);

  // Messages, once open. write_frames() takes at most `limit` bytes from the host; false if there was nothing.
  bool idle() const { return open_ && !writing_ && !blackholed_ && !closed_; }
  std::size_t take(std::size_t limit, bool control_only);
  void write_taken();
  void set_blackhole(bool on);
  // The executor handled a message of so many bytes.
  void consumed(std::size_t bytes);

  Role role() const { return role_; }
  std::uint64_t serial() const { return serial_; }
  bool is_open() const { return open_; }
  bool is_closed() const { return closed_; }
  const Hello& hello() const { return hello_; }  // the peer's, once judged
  const PublicKey& peer_key() const { return peer_key_; }
  const std::string& remote_host() const { return remote_host_; }
  Duration handshake_time() const { return handshake_time_; }
  SteadyClock::time_point opened_at() const { return opened_at_; }
  const LinkShape& outgoing() const { return outgoing_; }
  bool rejected() const { return rejected_; }
  bool was_turned_away() const { return step_ == Step::kTurnedAway; }
  RejectCode reject_code() const { return reject_code_; }
  asio::ip::tcp::socket& socket() { return stream_.next_layer(); }

  // Kept here for the transport.
  std::optional<NodeId> expected;  // whom the dialler wants to reach
  Address dialled;
  int slot = 0;                                // place in the uplink's lists: 0 none, 1 bulk, 2 control
  SteadyClock::time_point ready_at, turn_end;  // of the frames that wait there; of the last turn
  SteadyClock::time_point turn_begin;          // of the frames being written, when nothing was in their way any more
  std::size_t turn_bytes = 0;
  std::size_t metered_bytes = 0;  // of long turns since the link's speed was last told
  SteadyClock::duration metered_time{};
  std::uint64_t bytes_in = 0;  // since the host last looked
  std::uint64_t bytes_out = 0;

 private:
  struct Delayed {
    SteadyClock::time_point release;
    std::variant<Message, std::string> what;  // a message, or the reason of the end
  };
  using Next = void (Connection::*)();

  void start_clock(Duration time_limit);
  void connect_to(const asio::ip::tcp::resolver::results_type& endpoints);
  void start_tls();
  void tls_done();
  Proof proof(Role role) const;
  void handshake_frame(ReceivedFrame frame);
  void on_proof(std::span<const std::byte> body);
  void on_hello(std::span<const std::byte> body);
  void introduced();
  void on_reject(std::span<const std::byte> body);
  void turn_away(Reject reject);
  void enter_open();
  void after(Duration delay, Next next);
  void send_now(std::vector<std::byte> frames);
  void write_out();
  void read();
  void on_read(std::size_t count);
  void rest_until(SteadyClock::time_point when);
  void ended(const std::string& reason);
  void deliver(Delayed delayed);
  void release_delayed();
  void fail(const std::string& reason) { close(reason, true); }
  void arm_loss();

  ConnectionHost& host_;
  const Role role_;
  const std::uint64_t serial_;
  asio::ssl::stream<asio::ip::tcp::socket> stream_;
  asio::ip::tcp::resolver resolver_;
  asio::steady_timer deadline_;  // of the handshake
  asio::steady_timer delay_;     // of the handshake's and the messages' shaped latency
  asio::steady_timer loss_;
  asio::steady_timer rest_;  // between reads under a download cap
  FrameDecoder decoder_;
  Random random_;

  Hello hello_;
  PublicKey peer_key_{};
  std::array<std::byte, 32> exporter_{};
  std::string remote_host_;
  LinkShape incoming_, outgoing_;
  SteadyClock::time_point started_, opened_at_;
  Duration handshake_time_{};

  enum class Step { kConnecting, kAwaitProof, kAwaitHello, kJudging, kAwaitAccept, kTurnedAway, kOpen };
  Step step_ = Step::kConnecting;
  bool open_ = false, closed_ = false, rejected_ = false;
  bool reading_ = false, resting_ = false, writing_ = false, ended_ = false, blackholed_ = false;
  RejectCode reject_code_ = RejectCode::kMalformed;
  std::vector<std::byte> out_;      // being written, or taken for it
  std::vector<std::byte> pending_;  // handshake frames behind it
  std::deque<Delayed> delayed_;
  SteadyClock::time_point last_release_;
  std::size_t inbound_bytes_ = 0;  // delayed or with the executor
};

}  // namespace tributary::net
