// The safetensors container: an 8-byte length, a JSON header of names, types, shapes and offsets, then the bytes.
// Reading checks everything before any memory is taken for tensors. A file is immutable once open; thread-safe.
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/files.h"

namespace tributary::text {

enum class ElementType { kF64, kF32, kF16, kBF16, kI64, kI32, kI16, kI8, kU8, kBool };
std::size_t element_size(ElementType type);

struct TensorEntry {
  ElementType type = ElementType::kF32;
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0, end = 0;  // bytes, from the end of the header
  std::uint64_t elements() const;    // no overflow: checked when read
};

struct SafetensorsHeader {
  std::map<std::string, TensorEntry> tensors;
  std::map<std::string, std::string> metadata;
};

inline constexpr std::uint64_t kMaxSafetensorsHeader = 16ull << 20;

// `data_bytes` is what follows the header in the file. Errors: not JSON, unknown types, sizes that do not match shapes,
// offsets outside the data or overlapping.
Result<SafetensorsHeader> parse_safetensors_header(std::string_view json, std::uint64_t data_bytes);

class Safetensors {
 public:
  static Result<Safetensors> open(const std::filesystem::path& path);
  const SafetensorsHeader& header() const { return header_; }
  // Null if there is no tensor of that name.
  const TensorEntry* find(const std::string& name) const;
  std::span<const std::byte> bytes(const TensorEntry& entry) const;
  // A float tensor of any float type as fp32. Errors: there is none, wrong shape.
  Result<void> read(const std::string& name, const std::vector<std::uint64_t>& shape, std::span<float> out) const;

 private:
  Safetensors(std::shared_ptr<const MappedFile> file, std::string path)
      : file_(std::move(file)), path_(std::move(path)) {}
  std::shared_ptr<const MappedFile> file_;
  std::string path_;
  SafetensorsHeader header_;
  std::uint64_t data_begin_ = 0;
};

struct TensorToWrite {
  std::string name;
  ElementType type = ElementType::kF32;
  std::vector<std::uint64_t> shape;
  std::span<const std::byte> bytes;
};
// Atomic. Requires bytes of the size that type and shape say.
Result<void> write_safetensors(const std::filesystem::path& path, const std::vector<TensorToWrite>& tensors,
                               const std::map<std::string, std::string>& metadata);

}  // namespace tributary::text
