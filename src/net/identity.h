// Who a node is (an Ed25519 key) and what makes it a member of a run (the run's secret). Values, safe to copy and to
// read from several threads.
#pragma once
#include <array>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

struct evp_pkey_st;
struct x509_st;

namespace tributary::net {

using PublicKey = std::array<std::byte, 32>;

std::string to_hex(std::span<const std::byte> bytes);

class Identity {
 public:
  // Reads the key at `file`, or makes one there (mode 0600, written beside and renamed). Errors: a file that is
  // damaged, that holds another kind of key, or that others may read.
  static Result<Identity> load_or_create(const std::filesystem::path& file);
  // A key that lives in memory only.
  static Identity generate();

  const PublicKey& public_key() const { return public_key_; }
  // Owned by this identity.
  evp_pkey_st* private_key() const { return key_.get(); }
  // Self-signed, made from the key; its names and dates mean nothing, only its key counts.
  x509_st* certificate() const { return certificate_.get(); }

 private:
  explicit Identity(evp_pkey_st* owned_key);
  std::shared_ptr<evp_pkey_st> key_;
  std::shared_ptr<x509_st> certificate_;
  PublicKey public_key_{};
};

// 32 random bytes that the members of a run share; in a file as 64 hexadecimal digits.
class RunSecret {
 public:
  static RunSecret generate();
  static Result<RunSecret> parse(std::string_view hex);
  static Result<RunSecret> load(const std::filesystem::path& file);
  // Mode 0600. Errors: the file exists already, or cannot be written.
  Result<void> save(const std::filesystem::path& file) const;
  std::string hex() const;
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::array<std::byte, 32> bytes_{};
};

}  // namespace tributary::net
