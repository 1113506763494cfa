// What two nodes tell each other before the first message: proofs of the run's secret, then who they are. Pure.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "net/identity.h"

namespace tributary::net {

// Versions of the messages that this program speaks.
inline constexpr std::uint16_t kVersionMin = 1;
inline constexpr std::uint16_t kVersionMax = 1;

enum class Role : std::uint8_t { kDialler = 1, kListener = 2 };

using Proof = std::array<std::byte, 32>;

// HMAC-SHA256 under the secret over: a label, the role that proves, the TLS exporter value of this very channel, the
// dialler's and the listener's public keys. Another channel, role or key needs another proof, so none can be relayed.
Proof make_proof(const RunSecret& secret, Role role, std::span<const std::byte, 32> exporter, const PublicKey& dialler,
                 const PublicKey& listener);
// In constant time.
bool proof_matches(const Proof& expected, std::span<const std::byte> received);

struct Hello {
  std::uint16_t version_min = kVersionMin;
  std::uint16_t version_max = kVersionMax;
  std::uint64_t capabilities = 0;
  NodeId node;
  Incarnation incarnation;
  std::uint64_t run_hash = 0;
  std::string region;  // at most 64 bytes; for shaped links
  std::string host;    // at most 255 bytes: where it listens; empty: where it called from
  std::uint16_t port = 0;
};
std::vector<std::byte> encode(const Hello& hello);
Result<Hello> decode_hello(std::span<const std::byte> bytes);

enum class RejectCode : std::uint8_t {
  kWrongSecret = 1,
  kDifferentRun = 2,
  kVersion = 3,
  kDuplicate = 4,  // the other connection of the pair is kept
  kStaleIncarnation = 5,
  kIdentity = 6,  // the node's id belongs to another key
  kSelf = 7,
  kMalformed = 8,
};
struct Reject {
  RejectCode code = RejectCode::kMalformed;
  std::string text;  // at most 300 bytes, printable
};
std::vector<std::byte> encode(const Reject& reject);
Result<Reject> decode_reject(std::span<const std::byte> bytes);

}  // namespace tributary::net
