#include "net/hello.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <cstring>
#include <string_view>

namespace tributary::net {
namespace {

constexpr std::size_t kMaxRegion = 64, kMaxHost = 255, kMaxText = 300;

class Writer {
 public:
  template <class T>
  void number(T value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }
  void text(std::string_view value, std::size_t max) {
    value = value.substr(0, max);
    number(static_cast<std::uint16_t>(value.size()));
    const auto bytes = std::as_bytes(std::span(value));
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }
  std::vector<std::byte> take() { return std::move(out_); }

 private:
  std::vector<std::byte> out_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <class T>
  void number(T& value) {
    if (bytes_.size() < sizeof(T)) return fail();
    std::memcpy(&value, bytes_.data(), sizeof(T));
    bytes_ = bytes_.subspan(sizeof(T));
  }
  void text(std::string& value, std::size_t max) {
    std::uint16_t size = 0;
    number(size);
    if (size > max || size > bytes_.size()) return fail();
    value.clear();
    for (const std::byte b : bytes_.first(size)) {
      // Names end up in logs and on terminals: nothing but printable ASCII.
      const char c = static_cast<char>(b);
      if (c < ' ' || c > '~') return fail();
      value += c;
    }
    bytes_ = bytes_.subspan(size);
  }
  bool complete() const { return good_ && bytes_.empty(); }

 private:
  void fail() {
    good_ = false;
    bytes_ = {};
  }
  std::span<const std::byte> bytes_;
  bool good_ = true;
};

}  // namespace

Proof make_proof(const RunSecret& secret, Role role, std::span<const std::byte, 32> exporter, const PublicKey& dialler,
                 const PublicKey& listener) {
  static constexpr std::string_view kLabel = "tributary run proof 1";
  std::array<std::byte, kLabel.size() + 1 + 3 * 32> input;
  std::byte* at = input.data();
  const auto add = [&](const void* bytes, std::size_t size) {
    std::memcpy(at, bytes, size);
    at += size;
  };
  add(kLabel.data(), kLabel.size());
  add(&role, 1);
  for (const auto* part : {exporter.data(), dialler.data(), listener.data()}) add(part, 32);
  Proof proof{};
  unsigned int size = proof.size();
  const auto key = secret.bytes();
  const auto* done =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(input.data()),
           input.size(), reinterpret_cast<unsigned char*>(proof.data()), &size);
  TRIBUTARY_CHECK(done && size == proof.size(), "HMAC-SHA256 failed");
  return proof;
}

bool proof_matches(const Proof& expected, std::span<const std::byte> received) {
  return received.size() == expected.size() && CRYPTO_memcmp(expected.data(), received.data(), expected.size()) == 0;
}

std::vector<std::byte> encode(const Hello& hello) {
  Writer writer;
  writer.number(hello.version_min);
  writer.number(hello.version_max);
  writer.number(hello.capabilities);
  writer.number(hello.node.value());
  writer.number(hello.incarnation.value());
  writer.number(hello.run_hash);
  writer.text(hello.region, kMaxRegion);
  writer.text(hello.host, kMaxHost);
  writer.number(hello.port);
  return writer.take();
}

Result<Hello> decode_hello(std::span<const std::byte> bytes) {
  Hello hello;
  NodeId::rep node = 0;
  Incarnation::rep incarnation = 0;
  Reader reader(bytes);
  reader.number(hello.version_min);
  reader.number(hello.version_max);
  reader.number(hello.capabilities);
  reader.number(node);
  reader.number(incarnation);
  reader.number(hello.run_hash);
  reader.text(hello.region, kMaxRegion);
  reader.text(hello.host, kMaxHost);
  reader.number(hello.port);
  if (!reader.complete() || hello.version_min > hello.version_max) return Error{"malformed hello"};
  hello.node = NodeId(node);
  hello.incarnation = Incarnation(incarnation);
  return hello;
}

std::vector<std::byte> encode(const Reject& reject) {
  Writer writer;
  writer.number(static_cast<std::uint8_t>(reject.code));
  writer.text(reject.text, kMaxText);
  return writer.take();
}

Result<Reject> decode_reject(std::span<const std::byte> bytes) {
  Reject reject;
  std::uint8_t code = 0;
  Reader reader(bytes);
  reader.number(code);
  reader.text(reject.text, kMaxText);
  if (!reader.complete() || code < 1 || code > static_cast<std::uint8_t>(RejectCode::kMalformed))
    return Error{"malformed rejection"};
  reject.code = static_cast<RejectCode>(code);
  return reject;
}

}  // namespace tributary::net
