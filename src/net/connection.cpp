#include "net/connection.h"

#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <algorithm>
#include <utility>

namespace tributary::net {
namespace {

constexpr auto kFarewell = std::chrono::seconds(2);  // for a rejection to be read by the other side
constexpr char kExporterLabel[] = "EXPORTER-tributary-run-proof";
// What a message costs beside its bytes, so that many empty ones are bounded too.
constexpr std::size_t kMessageOverhead = 128;

std::string describe(const asio::error_code& error) {
  if (error == asio::error::eof || error == asio::ssl::error::stream_truncated) return "closed by the other side";
  if (error == asio::error::connection_refused) return "connection refused: nothing listens there";
  return error.message();
}

}  // namespace

Connection::Connection(ConnectionHost& host, asio::io_context& io, asio::ssl::context& tls, Role role,
                       std::uint64_t serial)
    : host_(host),
      role_(role),
      serial_(serial),
      stream_(io, tls),
      resolver_(io),
      deadline_(io),
      delay_(io),
      loss_(io),
      rest_(io),
      decoder_(host.options().frames),
      random_(mix64(host.options().seed, serial)) {}

void Connection::start_clock(Duration time_limit) {
  started_ = SteadyClock::now();
  deadline_.expires_after(time_limit);
  deadline_.async_wait([self = shared_from_this()](const asio::error_code& error) {
    if (!error && !self->open_ && !self->closed_)
      self->fail(self->step_ == Step::kTurnedAway ? "turned away" : "timed out");
  });
}

void Connection::dial(const Address& address, Duration time_limit) {
  dialled = address;
  remote_host_ = address.host;
  start_clock(time_limit);
  asio::error_code error;
  const auto numeric = asio::ip::make_address(address.host, error);
  if (!error) {
    const asio::ip::tcp::endpoint endpoint(numeric, address.port);
    return connect_to(asio::ip::tcp::resolver::results_type::create(endpoint, address.host, ""));
  }
  resolver_.async_resolve(address.host, std::to_string(address.port),
                          [self = shared_from_this()](const asio::error_code& failed, auto endpoints) {
                            if (self->closed_) return;
                            if (failed) return self->fail("cannot find the host: " + failed.message());
                            self->connect_to(endpoints);
                          });
}

void Connection::connect_to(const asio::ip::tcp::resolver::results_type& endpoints) {
  asio::async_connect(socket(), endpoints,
                      [self = shared_from_this()](const asio::error_code& error, const asio::ip::tcp::endpoint&) {
                        if (self->closed_) return;
                        if (error) return self->fail(describe(error));
                        self->start_tls();
                      });
}

void Connection::accept(Duration time_limit) {
  start_clock(time_limit);
  asio::error_code error;
  const auto endpoint = socket().remote_endpoint(error);
  if (error) return fail(describe(error));
  remote_host_ = endpoint.address().to_string();
  start_tls();
}

void Connection::start_tls() {
  asio::error_code ignored;
  socket().set_option(asio::ip::tcp::no_delay(true), ignored);
  stream_.async_handshake(role_ == Role::kDialler ? asio::ssl::stream_base::client : asio::ssl::stream_base::server,
                          [self = shared_from_this()](const asio::error_code& error) {
                            if (self->closed_) return;
                            if (error) return self->fail("TLS handshake failed: " + describe(error));
                            self->tls_done();
                          });
}

void Connection::tls_done() {
  SSL* ssl = stream_.native_handle();
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(SSL_get1_peer_certificate(ssl), X509_free);
  EVP_PKEY* key = certificate ? X509_get0_pubkey(certificate.get()) : nullptr;
  std::size_t size = peer_key_.size();
  if (!key || EVP_PKEY_get_base_id(key) != EVP_PKEY_ED25519 ||
      EVP_PKEY_get_raw_public_key(key, reinterpret_cast<unsigned char*>(peer_key_.data()), &size) != 1)
    return fail("the other side shows no Ed25519 certificate: not a node of a run");
  if (SSL_export_keying_material(ssl, reinterpret_cast<unsigned char*>(exporter_.data()), exporter_.size(),
                                 kExporterLabel, sizeof kExporterLabel - 1, nullptr, 0, 0) != 1)
    return fail("TLS gives no channel binding");
  step_ = Step::kAwaitProof;
  if (role_ == Role::kDialler) {
    std::vector<std::byte> frames;
    append_frame(frames, FrameKind::kProof, proof(Role::kDialler));
    send_now(std::move(frames));
  }
  read();
}

Proof Connection::proof(Role role) const {
  const PublicKey& own = host_.options().identity.public_key();
  const bool dialling = role_ == Role::kDialler;
  return make_proof(host_.options().secret, role, exporter_, dialling ? own : peer_key_, dialling ? peer_key_ : own);
}

// The dialler proves first; whoever cannot prove the secret hears nothing but "wrong secret".
void Connection::handshake_frame(ReceivedFrame frame) {
  const std::span<const std::byte> body = frame.message.control;
  if (frame.kind == FrameKind::kReject) return on_reject(body);
  if (step_ == Step::kTurnedAway) return read();
  if (frame.kind == FrameKind::kProof && step_ == Step::kAwaitProof) return on_proof(body);
  if (frame.kind == FrameKind::kHello && step_ == Step::kAwaitHello) return on_hello(body);
  if (frame.kind == FrameKind::kAccept && step_ == Step::kAwaitAccept && body.empty())
    return after(incoming_.latency, &Connection::enter_open);
  host_.bad_frame(*this);
  fail("handshake out of order");
}

void Connection::on_proof(std::span<const std::byte> body) {
  const Role theirs = role_ == Role::kDialler ? Role::kListener : Role::kDialler;
  if (!proof_matches(proof(theirs), body)) {
    if (role_ == Role::kDialler)
      return fail("the other side does not prove the run's secret: another run, or someone in between");
    return turn_away({RejectCode::kWrongSecret, "wrong secret: get a new invite of this run"});
  }
  step_ = Step::kAwaitHello;
  if (role_ == Role::kListener) {
    std::vector<std::byte> frames;
    append_frame(frames, FrameKind::kProof, proof(Role::kListener));
    append_frame(frames, FrameKind::kHello, encode(host_.own_hello()));
    send_now(std::move(frames));
  }
  read();
}

void Connection::on_hello(std::span<const std::byte> body) {
  auto hello = decode_hello(body);
  if (!hello) {
    host_.bad_frame(*this);
    return turn_away({RejectCode::kMalformed, hello.error().message});
  }
  hello_ = std::move(*hello);
  const auto& options = host_.options();
  incoming_ = options.links.between(hello_.region, options.region);
  outgoing_ = options.links.between(options.region, hello_.region);
  step_ = Step::kJudging;
  // On a real link the dialler would be here three round trips after it began (TCP, TLS, proof); the listener gets this
  // frame one way after it was sent.
  const Duration delay = role_ == Role::kDialler ? 3 * (incoming_.latency + outgoing_.latency) : incoming_.latency;
  after(delay, &Connection::introduced);
}

void Connection::introduced() {
  bool hold = false;
  const auto rejection = host_.judge(*this, hold);
  if (closed_ || hold) return;
  if (rejection) return turn_away(*rejection);
  std::vector<std::byte> frames;
  if (role_ == Role::kDialler) {
    append_frame(frames, FrameKind::kHello, encode(host_.own_hello()));
    step_ = Step::kAwaitAccept;
    send_now(std::move(frames));
    return read();
  }
  append_frame(frames, FrameKind::kAccept, {});
  send_now(std::move(frames));
  enter_open();
}

void Connection::on_reject(std::span<const std::byte> body) {
  auto reject = decode_reject(body);
  if (!reject) {
    host_.bad_frame(*this);
    return fail(reject.error().message);
  }
  rejected_ = true;
  reject_code_ = reject->code;
  fail("rejected: " + reject->text);
}

void Connection::turn_away(Reject reject) {
  step_ = Step::kTurnedAway;
  rejected_ = role_ == Role::kDialler;
  reject_code_ = reject.code;
  host_.turned_away(*this);
  std::vector<std::byte> frames;
  append_frame(frames, FrameKind::kReject, encode(reject));
  if (role_ == Role::kDialler) {
    // Nobody waits for more on this side; the other side only needs the reason if it arrives.
    send_now(std::move(frames));
    return fail(reject.text);
  }
  send_now(std::move(frames));
  deadline_.expires_after(kFarewell);
  deadline_.async_wait([self = shared_from_this()](const asio::error_code& error) {
    if (!error && !self->closed_) self->fail("turned away");
  });
  read();
}

void Connection::enter_open() {
  open_ = true;
  step_ = Step::kOpen;
  opened_at_ = SteadyClock::now();
  handshake_time_ = opened_at_ - started_;
  last_release_ = opened_at_;
  deadline_.cancel();
  decoder_.open();
  arm_loss();
  host_.opened(*this);
  read();
}

void Connection::after(Duration delay, Next next) {
  if (delay <= Duration::zero()) return (this->*next)();
  delay_.expires_after(delay);
  delay_.async_wait([self = shared_from_this(), next](const asio::error_code& error) {
    if (!error && !self->closed_) ((*self).*next)();
  });
}

void Connection::arm_loss() {
  const double losses_per_hour = std::max(incoming_.losses_per_hour, outgoing_.losses_per_hour);
  // Either side breaks the connection; each does so at half the rate.
  if (losses_per_hour <= 0) return;
  loss_.expires_after(seconds(random_.exponential(2 * 3600 / losses_per_hour)));
  loss_.async_wait([self = shared_from_this()](const asio::error_code& error) {
    if (!error && !self->closed_) self->fail("connection lost (shaped link)");
  });
}

void Connection::close(const std::string& reason, bool tell_host) {
  if (closed_) return;
  const auto self = shared_from_this();
  closed_ = true;
  delayed_.clear();
  asio::error_code ignored;
  resolver_.cancel();
  deadline_.cancel();
  delay_.cancel();
  loss_.cancel();
  rest_.cancel();
  socket().shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  socket().close(ignored);
  if (tell_host) host_.closed(*this, reason);
}

std::size_t Connection::take(std::size_t limit, bool control_only) {
  TRIBUTARY_CHECK(idle(), "frames taken for a connection that is not idle");
  out_.clear();
  host_.take_frames(*this, out_, limit, control_only);
  writing_ = !out_.empty();
  return out_.size();
}

void Connection::write_taken() {
  if (!closed_ && writing_) write_out();
}

void Connection::send_now(std::vector<std::byte> frames) {
  pending_.insert(pending_.end(), frames.begin(), frames.end());
  if (writing_) return;
  writing_ = true;
  out_ = std::exchange(pending_, {});
  write_out();
}

void Connection::write_out() {
  asio::async_write(stream_, asio::buffer(out_),
                    [self = shared_from_this()](const asio::error_code& error, std::size_t count) {
                      if (self->closed_) return;
                      self->bytes_out += count;
                      if (error) {
                        // What arrived before the end is still to be read; the reader reports the end. No more writes.
                        asio::error_code ignored;
                        self->socket().shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
                        return;
                      }
                      self->writing_ = false;
                      if (!self->pending_.empty()) {
                        self->send_now({});
                      } else if (self->open_) {
                        self->host_.wrote(*self);
                      }
                    });
}

void Connection::read() {
  if (reading_ || resting_ || closed_ || ended_ || blackholed_) return;
  if (inbound_bytes_ > host_.options().max_inbound_bytes) return;
  reading_ = true;
  const auto room = decoder_.want();
  stream_.async_read_some(asio::buffer(room.data(), host_.read_turn(room.size())),
                          [self = shared_from_this()](const asio::error_code& error, std::size_t count) {
                            self->reading_ = false;
                            if (self->closed_) return;
                            if (error) return self->ended(describe(error));
                            self->on_read(count);
                          });
}

void Connection::rest_until(SteadyClock::time_point when) {
  if (when <= SteadyClock::now()) return;
  resting_ = true;
  rest_.expires_at(when);
  rest_.async_wait([self = shared_from_this()](const asio::error_code&) {
    self->resting_ = false;
    self->read();
  });
}

void Connection::on_read(std::size_t count) {
  bytes_in += count;
  rest_until(host_.charge_read(count));
  auto frame = decoder_.filled(count);
  if (!frame) {
    host_.bad_frame(*this);
    return ended(frame.error().message);
  }
  if (!*frame) return read();
  if (!open_) return handshake_frame(std::move(**frame));
  inbound_bytes_ += (*frame)->message.size() + kMessageOverhead;
  const Duration jitter = seconds(random_.uniform() * to_seconds(incoming_.jitter));
  deliver({SteadyClock::now() + incoming_.latency + jitter, std::move((*frame)->message)});
  read();
}

// The end of an open connection travels as long as its data does.
void Connection::ended(const std::string& reason) {
  if (!open_) return fail(step_ == Step::kTurnedAway ? "turned away" : reason);
  ended_ = true;
  asio::error_code ignored;
  socket().shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  deliver({SteadyClock::now() + incoming_.latency, reason});
}

void Connection::deliver(Delayed delayed) {
  last_release_ = delayed.release = std::max(delayed.release, last_release_);
  delayed_.push_back(std::move(delayed));
  if (delayed_.size() == 1) release_delayed();
}

void Connection::release_delayed() {
  while (!delayed_.empty() && !closed_ && !blackholed_) {
    const auto now = SteadyClock::now();
    if (delayed_.front().release > now) {
      delay_.expires_at(delayed_.front().release);
      delay_.async_wait([self = shared_from_this()](const asio::error_code& error) {
        if (!error) self->release_delayed();
      });
      return;
    }
    auto what = std::move(delayed_.front().what);
    delayed_.pop_front();
    if (auto* reason = std::get_if<std::string>(&what)) return fail(*reason);
    host_.received(*this, std::move(std::get<Message>(what)));
  }
}

void Connection::set_blackhole(bool on) {
  if (blackholed_ == on || closed_) return;
  blackholed_ = on;
  if (on) return;
  release_delayed();
  read();
  if (open_ && !writing_) host_.wrote(*this);
}

void Connection::consumed(std::size_t bytes) {
  inbound_bytes_ -= std::min(inbound_bytes_, bytes + kMessageOverhead);
  read();
}

}  // namespace tributary::net
