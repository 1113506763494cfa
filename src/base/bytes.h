// Byte buffers for payloads: 64-byte aligned, not zeroed, shared and immutable once filled, so that a kept activation,
// a message in a queue and a tensor on the compute thread are one piece of memory.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string_view>

#include "base/random.h"

namespace tributary {

class Buffer {
 public:
  static constexpr std::size_t kAlignment = 64;
  explicit Buffer(std::size_t size)
      : data_(static_cast<std::byte*>(::operator new(size ? size : 1, std::align_val_t{kAlignment}))), size_(size) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { ::operator delete(data_, std::align_val_t{kAlignment}); }
  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::span<std::byte> span() { return {data_, size_}; }
  std::span<const std::byte> span() const { return {data_, size_}; }

 private:
  std::byte* data_;
  std::size_t size_;
};

// Null means: no payload.
using Payload = std::shared_ptr<const Buffer>;

inline std::shared_ptr<Buffer> make_buffer(std::size_t size) { return std::make_shared<Buffer>(size); }
inline Payload copy_payload(std::span<const std::byte> bytes) {
  auto buffer = make_buffer(bytes.size());
  if (!bytes.empty()) std::memcpy(buffer->data(), bytes.data(), bytes.size());
  return buffer;
}
inline std::size_t payload_size(const Payload& payload) { return payload ? payload->size() : 0; }

// A 64-bit checksum against accidents (not against attackers), the same on every little-endian machine.
inline std::uint64_t checksum64(std::span<const std::byte> bytes, std::uint64_t seed = 0) {
  std::uint64_t hash = mix64(seed ^ bytes.size());
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data() + i, 8);
    hash = (hash ^ word) * 0x9fb21c651e98df25ull;
    hash ^= hash >> 32;
  }
  std::uint64_t tail = 0;
  if (i < bytes.size()) std::memcpy(&tail, bytes.data() + i, bytes.size() - i);
  return mix64(hash ^ tail);
}
inline std::uint64_t checksum64(std::string_view text, std::uint64_t seed = 0) {
  return checksum64(std::as_bytes(std::span(text.data(), text.size())), seed);
}

}  // namespace tributary
