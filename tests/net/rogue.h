// Blocking pieces of the protocol, for tests that play a stranger, a liar or a man in the middle.
#pragma once
#include <openssl/ssl.h>

#include <atomic>
#include <thread>

#include "net/asio.h"
#include "net/frame.h"
#include "net/hello.h"
#include "net/node.h"

namespace tributary::net::test {

inline asio::ssl::context tls_context(const Identity& identity, int max_version = TLS1_3_VERSION) {
  asio::ssl::context context(asio::ssl::context::tls);
  SSL_CTX_set_max_proto_version(context.native_handle(), max_version);
  SSL_CTX_use_certificate(context.native_handle(), identity.certificate());
  SSL_CTX_use_PrivateKey(context.native_handle(), identity.private_key());
  context.set_verify_mode(asio::ssl::verify_peer | asio::ssl::verify_fail_if_no_peer_cert);
  context.set_verify_callback([](bool, asio::ssl::verify_context&) { return true; });
  return context;
}

// A dialler that does each step when told, and may then write any bytes.
class Rogue {
 public:
  explicit Rogue(const Address& to, int max_version = TLS1_3_VERSION)
      : tls_(tls_context(identity_, max_version)), stream_(io_, tls_) {
    stream_.next_layer().connect({asio::ip::make_address(to.host), to.port});
  }
  bool handshake() {
    asio::error_code error;
    stream_.handshake(asio::ssl::stream_base::client, error);
    return !error;
  }
  void prove(const RunSecret& secret) {
    SSL* ssl = stream_.native_handle();
    std::array<std::byte, 32> exporter{};
    static constexpr char kLabel[] = "EXPORTER-tributary-run-proof";
    SSL_export_keying_material(ssl, reinterpret_cast<unsigned char*>(exporter.data()), 32, kLabel, sizeof kLabel - 1,
                               nullptr, 0, 0);
    PublicKey listener{};
    std::size_t size = listener.size();
    X509* certificate = SSL_get1_peer_certificate(ssl);
    EVP_PKEY_get_raw_public_key(X509_get0_pubkey(certificate), reinterpret_cast<unsigned char*>(listener.data()),
                                &size);
    X509_free(certificate);
    frame(FrameKind::kProof, make_proof(secret, Role::kDialler, exporter, identity_.public_key(), listener));
  }
  // Goes through the whole handshake as this node.
  void enter(const RunSecret& secret, std::uint32_t id, const std::string& run = "test") {
    ASSERT_TRUE(handshake());
    prove(secret);
    Hello hello;
    hello.node = NodeId(id);
    hello.incarnation = Incarnation(1);
    hello.run_hash = checksum64(run);
    frame(FrameKind::kHello, encode(hello));
  }
  void frame(FrameKind kind, std::span<const std::byte> body, std::uint64_t value = 0) {
    std::vector<std::byte> bytes;
    append_frame(bytes, kind, body, value);
    write(bytes);
  }
  void write(std::span<const std::byte> bytes) {
    asio::error_code ignored;
    asio::write(stream_, asio::buffer(bytes.data(), bytes.size()), ignored);
  }
  void write_raw(std::span<const std::byte> bytes) {
    asio::error_code ignored;
    asio::write(stream_.next_layer(), asio::buffer(bytes.data(), bytes.size()), ignored);
  }
  // All frames until the other side closes or rejects.
  std::vector<ReceivedFrame> read_to_end() {
    std::vector<ReceivedFrame> frames;
    FrameDecoder decoder({});
    for (;;) {
      asio::error_code error;
      const auto room = decoder.want();
      const std::size_t count = stream_.read_some(asio::buffer(room.data(), room.size()), error);
      if (error) return frames;
      auto frame = decoder.filled(count);
      if (!frame) return frames;
      if (!*frame) continue;
      frames.push_back(std::move(**frame));
      if (frames.back().kind == FrameKind::kReject) return frames;
      if (frames.back().kind == FrameKind::kAccept) decoder.open();
    }
  }
  void close() {
    asio::error_code ignored;
    stream_.next_layer().close(ignored);
  }

 private:
  Identity identity_ = Identity::generate();
  asio::io_context io_;
  asio::ssl::context tls_;
  asio::ssl::stream<asio::ip::tcp::socket> stream_;
};

// Stands between a dialler and a listener. With its own TLS on both sides it reads and forwards every byte of the
// protocol; without, it only copies, and keeps what it saw.
class Middle {
 public:
  Middle(const Address& target, bool terminate_tls)
      : target_(target),
        tls_(tls_context(identity_)),
        acceptor_(io_, {asio::ip::address_v4::loopback(), 0}),
        left_(io_, tls_),
        right_(io_, tls_),
        terminate_(terminate_tls) {
    acceptor_.async_accept(left_.next_layer(), [this](const asio::error_code& error) {
      if (!error) start();
    });
    thread_ = std::thread([this] { io_.run(); });
  }
  ~Middle() {
    asio::post(io_, [this] { close(); });
    thread_.join();
  }
  Address address() const { return {"127.0.0.1", acceptor_.local_endpoint().port()}; }
  std::size_t forwarded() const { return forwarded_; }
  // Only after the connection's end.
  const std::string& seen() const { return seen_; }

 private:
  using Stream = asio::ssl::stream<asio::ip::tcp::socket>;
  void start() {
    asio::error_code error;
    right_.next_layer().connect({asio::ip::make_address(target_.host), target_.port}, error);
    if (error) return close();
    if (!terminate_) {
      copy(left_.next_layer(), right_.next_layer(), 0);
      copy(right_.next_layer(), left_.next_layer(), 1);
      return;
    }
    left_.async_handshake(asio::ssl::stream_base::server, [this](const asio::error_code& failed) {
      if (failed) return close();
      right_.async_handshake(asio::ssl::stream_base::client, [this](const asio::error_code& also) {
        if (also) return close();
        copy(left_, right_, 0);
        copy(right_, left_, 1);
      });
    });
  }
  template <class S>
  void copy(S& from, S& to, int way) {
    from.async_read_some(asio::buffer(buffers_[way]), [&, way](const asio::error_code& error, std::size_t count) {
      if (error) return close();
      forwarded_ += count;
      seen_.append(buffers_[way].data(), count);
      asio::async_write(to, asio::buffer(buffers_[way], count), [&, way](const asio::error_code& failed, std::size_t) {
        if (failed) return close();
        copy(from, to, way);
      });
    });
  }
  void close() {
    asio::error_code ignored;
    acceptor_.close(ignored);
    left_.next_layer().close(ignored);
    right_.next_layer().close(ignored);
  }

  const Address target_;
  Identity identity_ = Identity::generate();
  asio::io_context io_;
  asio::ssl::context tls_;
  asio::ip::tcp::acceptor acceptor_;
  Stream left_, right_;
  const bool terminate_;
  std::array<std::array<char, 8192>, 2> buffers_;
  std::atomic<std::size_t> forwarded_ = 0;
  std::string seen_;
  std::thread thread_;
};

}  // namespace tributary::net::test
