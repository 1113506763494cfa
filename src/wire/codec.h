// The control part of a message: msgpack, an array of [type, fields...]. Decoding trusts nothing: lengths are bounded
// before memory is taken, every type is checked, and any fault is an Error, never an exception or a crash.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "base/result.h"
#include "wire/messages.h"

namespace tributary::wire {

inline constexpr std::uint16_t kProtocolVersion = 1;

struct DecodeLimits {
  std::size_t bytes = 8 << 20;
  std::size_t items = 1 << 20;  // of one array
  std::size_t text = 1 << 16;   // of one string
  std::size_t depth = 16;
};

std::vector<std::byte> encode(const Body& body);
// The length of encode(body).
std::size_t encoded_size(const Body& body);
Result<Body> decode(std::span<const std::byte> bytes, const DecodeLimits& limits = {});

// The voters' durable state, and the ledger in files: the same encoding.
std::vector<std::byte> encode_ledger(const Ledger& ledger);
Result<Ledger> decode_ledger(std::span<const std::byte> bytes);

struct DurableLog {
  std::uint64_t term = 0;
  NodeId voted_for = kNobody;
  std::uint64_t snapshot_term = 0;
  Ledger snapshot;
  std::vector<LogEntry> entries;  // after snapshot.index
};
std::vector<std::byte> encode_log(const DurableLog& log);
Result<DurableLog> decode_log(std::span<const std::byte> bytes);

}  // namespace tributary::wire
