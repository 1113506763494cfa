#include "net/identity.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace tributary::net {
namespace {

constexpr std::size_t kMaxFileBytes = 4096;

std::string system_error() { return std::strerror(errno); }

// Writes `text` beside the file, syncs it and links it to its name, so that two first starts at once cannot tear it.
Result<void> write_private(const std::filesystem::path& file, std::string_view text) {
  std::error_code ignored;
  if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path(), ignored);
  const std::string beside = file.string() + ".new-" + std::to_string(::getpid());
  const int fd = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return Error{"cannot write " + beside + ": " + system_error()};
  const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && ::fsync(fd) == 0;
  const std::string why = written ? "" : system_error();
  ::close(fd);
  const bool linked = written && ::link(beside.c_str(), file.c_str()) == 0;
  const bool exists = written && !linked && errno == EEXIST;
  const std::string link_error = linked ? "" : system_error();
  ::unlink(beside.c_str());
  if (!written) return Error{"cannot write " + file.string() + ": " + why};
  if (exists) return Error{file.string() + " exists already; it is not overwritten"};
  if (!linked) return Error{"cannot write " + file.string() + ": " + link_error};
  return {};
}

Result<std::string> read_private(const std::filesystem::path& file) {
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Error{"cannot read " + file.string() + ": " + system_error()};
  struct stat info {};
  std::string text(kMaxFileBytes + 1, '\0');
  const bool known = ::fstat(fd, &info) == 0;
  const ssize_t size = ::read(fd, text.data(), text.size());
  const std::string why = system_error();
  ::close(fd);
  if (!known || size < 0) return Error{"cannot read " + file.string() + ": " + why};
  if (info.st_mode & 077) return Error{file.string() + " can be read by others; run: chmod 600 " + file.string()};
  if (static_cast<std::size_t>(size) > kMaxFileBytes)
    return Error{file.string() + " is larger than " + std::to_string(kMaxFileBytes) + " bytes: not a key"};
  text.resize(static_cast<std::size_t>(size));
  return text;
}

std::shared_ptr<x509_st> self_signed(EVP_PKEY* key) {
  std::shared_ptr<X509> certificate(X509_new(), X509_free);
  TRIBUTARY_CHECK(certificate, "out of memory");
  X509_set_version(certificate.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
  // The dates are those of X.509's "no well-defined expiration": identity rests on the key alone.
  ASN1_TIME_set_string_X509(X509_getm_notBefore(certificate.get()), "20200101000000Z");
  ASN1_TIME_set_string_X509(X509_getm_notAfter(certificate.get()), "99991231235959Z");
  X509_NAME* name = X509_get_subject_name(certificate.get());
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("tributary"), -1, -1, 0);
  X509_set_issuer_name(certificate.get(), name);
  X509_set_pubkey(certificate.get(), key);
  TRIBUTARY_CHECK(X509_sign(certificate.get(), key, nullptr) > 0, "cannot sign a certificate");
  return certificate;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::string to_hex(std::span<const std::byte> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const std::byte b : bytes) {
    text += kDigits[std::to_integer<int>(b) >> 4];
    text += kDigits[std::to_integer<int>(b) & 15];
  }
  return text;
}

Identity::Identity(evp_pkey_st* owned_key) : key_(owned_key, EVP_PKEY_free), certificate_(self_signed(owned_key)) {
  std::size_t size = public_key_.size();
  const int ok = EVP_PKEY_get_raw_public_key(owned_key, reinterpret_cast<unsigned char*>(public_key_.data()), &size);
  TRIBUTARY_CHECK(ok == 1 && size == public_key_.size(), "an Ed25519 key without its public half");
}

Identity Identity::generate() {
  EVP_PKEY* key = EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519");
  TRIBUTARY_CHECK(key, "OpenSSL cannot make an Ed25519 key");
  return Identity(key);
}

Result<Identity> Identity::load_or_create(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::exists(file, error)) {
    const Identity made = generate();
    std::shared_ptr<BIO> memory(BIO_new(BIO_s_mem()), BIO_free);
    TRIBUTARY_CHECK(
        PEM_write_bio_PKCS8PrivateKey(memory.get(), made.private_key(), nullptr, nullptr, 0, nullptr, nullptr) == 1,
        "cannot encode a key");
    char* text = nullptr;
    const long size = BIO_get_mem_data(memory.get(), &text);
    auto written = write_private(file, {text, static_cast<std::size_t>(size)});
    // Another process of this node may have been first: then its key is the one.
    if (!written && !std::filesystem::exists(file, error)) return written.error();
  }
  auto text = read_private(file);
  if (!text) return text.error();
  std::shared_ptr<BIO> memory(BIO_new_mem_buf(text->data(), static_cast<int>(text->size())), BIO_free);
  EVP_PKEY* key = PEM_read_bio_PrivateKey(
      memory.get(), nullptr, [](char*, int, int, void*) { return 0; }, nullptr);
  if (!key) return Error{file.string() + " holds no readable private key; move it away to get a new identity"};
  if (EVP_PKEY_get_base_id(key) != EVP_PKEY_ED25519) {
    EVP_PKEY_free(key);
    return Error{file.string() + " holds a key that is not Ed25519; move it away to get a new identity"};
  }
  return Identity(key);
}

RunSecret RunSecret::generate() {
  RunSecret secret;
  const int ok = RAND_priv_bytes(reinterpret_cast<unsigned char*>(secret.bytes_.data()), secret.bytes_.size());
  TRIBUTARY_CHECK(ok == 1, "the system gives no random numbers");
  return secret;
}

Result<RunSecret> RunSecret::parse(std::string_view hex) {
  while (!hex.empty() && (hex.back() == '\n' || hex.back() == '\r' || hex.back() == ' ')) hex.remove_suffix(1);
  RunSecret secret;
  if (hex.size() != secret.bytes_.size() * 2)
    return Error{"a run's secret has 64 hexadecimal digits, this has " + std::to_string(hex.size()) + " characters"};
  for (std::size_t i = 0; i < secret.bytes_.size(); ++i) {
    const int high = hex_digit(hex[2 * i]), low = hex_digit(hex[2 * i + 1]);
    if (high < 0 || low < 0)
      return Error{"a run's secret has hexadecimal digits only; see character " + std::to_string(2 * i + 1)};
    secret.bytes_[i] = static_cast<std::byte>(high << 4 | low);
  }
  return secret;
}

Result<RunSecret> RunSecret::load(const std::filesystem::path& file) {
  auto text = read_private(file);
  if (!text) return text.error();
  auto secret = parse(*text);
  if (!secret) return Error{file.string() + ": " + secret.error().message};
  return secret;
}

Result<void> RunSecret::save(const std::filesystem::path& file) const { return write_private(file, hex() + "\n"); }

std::string RunSecret::hex() const { return to_hex(bytes_); }

}  // namespace tributary::net
