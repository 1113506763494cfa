// Whole files in and out. Reading is bounded before memory is taken; writing is atomic: beside, synced, renamed.
// Thread-safe. Of several processes that write one path, the last to commit wins, whole.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tributary::text {

// Errors: cannot be opened or read, larger than `limit` bytes.
Result<std::string> read_file(const std::filesystem::path& path, std::uint64_t limit);

// Writes beside `path` in one or more pieces, then syncs and renames over `path`. A file that was not committed is
// removed.
class AtomicFile {
 public:
  static Result<AtomicFile> create(const std::filesystem::path& path);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();
  // Errors: disk full and the like; the file is then useless.
  Result<void> write(std::span<const std::byte> bytes);
  Result<void> write(std::string_view text) { return write(std::as_bytes(std::span(text.data(), text.size()))); }
  Result<void> commit();

 private:
  AtomicFile(std::filesystem::path path, std::filesystem::path beside, int descriptor)
      : path_(std::move(path)), beside_(std::move(beside)), descriptor_(descriptor) {}
  std::filesystem::path path_;
  std::filesystem::path beside_;
  int descriptor_;
};

Result<void> write_file(const std::filesystem::path& path, std::string_view text);
Result<void> make_folder(const std::filesystem::path& path);

// A file mapped for reading.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();
  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  MappedFile(const std::byte* data, std::size_t size) : data_(data), size_(size) {}
  const std::byte* data_;
  std::size_t size_;
};

}  // namespace tributary::text
