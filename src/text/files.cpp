#include "text/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

namespace tributary::text {
namespace {

Error system_error(const std::string& what, const std::filesystem::path& path) {
  const int code = errno;
  std::string remedy;
  if (code == ENOSPC) remedy = "; free some disk space";
  if (code == EACCES) remedy = "; check the file's permissions";
  return Error{what + " " + path.string() + ": " + std::strerror(code) + remedy};
}

Result<void> sync_folder(const std::filesystem::path& file) {
  const auto folder = file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return system_error("cannot open folder", folder);
  const int failed = ::fsync(descriptor);
  ::close(descriptor);
  if (failed != 0 && errno != EINVAL) return system_error("cannot sync folder", folder);
  return {};
}

}  // namespace

Result<std::string> read_file(const std::filesystem::path& path, std::uint64_t limit) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return Error{path.string() + " is a folder, not a file"};
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) return system_error("cannot open", path);
  const auto size = static_cast<std::uint64_t>(in.tellg());
  if (size > limit) {
    return Error{path.string() + " has " + std::to_string(size) + " bytes; at most " + std::to_string(limit) +
                 " are accepted here"};
  }
  std::string text(size, '\0');
  in.seekg(0);
  if (size > 0 && !in.read(text.data(), static_cast<std::streamsize>(size))) return system_error("cannot read", path);
  return text;
}

Result<AtomicFile> AtomicFile::create(const std::filesystem::path& path) {
  auto beside = path;
  // Two processes may write the same file (replicas that save one stage): each beside it in its own way.
  beside += "." + std::to_string(::getpid()) + ".new";
  const int descriptor = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0) return system_error("cannot write", beside);
  return AtomicFile(path, beside, descriptor);
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)), beside_(std::move(other.beside_)), descriptor_(other.descriptor_) {
  other.descriptor_ = -1;
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(beside_.c_str());
}

Result<void> AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return system_error("cannot write", beside_);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

Result<void> AtomicFile::commit() {
  if (::fsync(descriptor_) != 0) return system_error("cannot sync", beside_);
  if (::close(std::exchange(descriptor_, -1)) != 0) return system_error("cannot close", beside_);
  if (::rename(beside_.c_str(), path_.c_str()) != 0) {
    auto error = system_error("cannot rename into place", path_);
    ::unlink(beside_.c_str());
    return error;
  }
  return sync_folder(path_);
}

Result<void> write_file(const std::filesystem::path& path, std::string_view text) {
  auto file = AtomicFile::create(path);
  if (!file) return file.error();
  if (auto written = file->write(text); !written) return written;
  return file->commit();
}

Result<void> make_folder(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return Error{"cannot make folder " + path.string() + ": " + error.message()};
  return {};
}

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return system_error("cannot open", path);
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor);
    return Error{path.string() + " is not a regular file"};
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) {
    ::close(descriptor);
    return MappedFile(nullptr, 0);
  }
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  ::close(descriptor);
  if (data == MAP_FAILED) return system_error("cannot map", path);
  return MappedFile(static_cast<const std::byte*>(data), size);
}

MappedFile::MappedFile(MappedFile&& other) noexcept : data_(other.data_), size_(other.size_) {
  other.data_ = nullptr;
  other.size_ = 0;
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace tributary::text
