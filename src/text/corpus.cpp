#include "text/corpus.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/bytes.h"

namespace tributary::text {
namespace {

constexpr std::uint64_t kMaxCorpusBytes = 4ull << 30;
constexpr std::size_t kLargestSegment = 16384, kSmallestSegment = 256, kWantedSegments = 256;
// Text is encoded in pieces of about this size, cut behind a newline, so that the token lists stay small.
constexpr std::size_t kPieceBytes = 1 << 20;

// The token file: this header, then the training stream, then the held-out stream, 2 bytes a token, little-endian.
struct Header {
  char magic[8];
  std::uint64_t corpus_hash, tokenizer_hash, training, held_out, checksum;
};
static_assert(sizeof(Header) == 48);
constexpr char kMagic[8] = {'T', 'R', 'I', 'B', 'T', 'O', 'K', '1'};

std::string hexadecimal(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

Result<void> append_tokens(std::string_view text, const Tokenizer& tokenizer, std::vector<std::uint16_t>& stream) {
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t end = std::min(text.size(), at + kPieceBytes);
    if (end < text.size()) {
      const auto newline = text.find('\n', end);
      end = newline == std::string_view::npos ? text.size() : newline + 1;
    }
    // Text of a corpus is data: a special token spelled out in it is not obeyed.
    auto tokens = tokenizer.encode(text.substr(at, end - at), /*added_tokens=*/false);
    if (!tokens) return tokens.error();
    for (const Token token : *tokens) stream.push_back(static_cast<std::uint16_t>(token));
    at = end;
  }
  if (tokenizer.eos()) stream.push_back(static_cast<std::uint16_t>(*tokenizer.eos()));
  return {};
}

struct Split {
  std::vector<std::uint16_t> training, held_out;
};

Split split(const std::vector<std::uint16_t>& stream, double fraction) {
  Split result;
  const std::size_t segment = std::clamp(stream.size() / kWantedSegments, kSmallestSegment, kLargestSegment);
  for (std::size_t begin = 0, i = 0; begin < stream.size(); begin += segment, ++i) {
    const auto number = static_cast<double>(i);
    // The middle of each 1 / fraction segments, so that a small corpus too has both kinds.
    const bool out = std::floor((number + 1) * fraction + 0.5) > std::floor(number * fraction + 0.5);
    auto& target = out ? result.held_out : result.training;
    const std::size_t end = std::min(begin + segment, stream.size());
    target.insert(target.end(), stream.begin() + static_cast<std::ptrdiff_t>(begin),
                  stream.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return result;
}

}  // namespace

Result<std::vector<std::filesystem::path>> list_files(const std::vector<std::string>& paths) {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  for (const auto& name : paths) {
    std::error_code error;
    if (fs::is_directory(name, error)) {
      std::vector<fs::path> inside;
      for (fs::recursive_directory_iterator it(name, error), last; !error && it != last; it.increment(error)) {
        if (it->is_regular_file(error) && it->path().filename().string()[0] != '.') inside.push_back(it->path());
      }
      if (error) return Error{"cannot read folder " + name + ": " + error.message()};
      if (inside.empty()) return Error{"the folder " + name + " holds no files"};
      std::sort(inside.begin(), inside.end());
      files.insert(files.end(), inside.begin(), inside.end());
    } else if (fs::is_regular_file(name, error)) {
      files.emplace_back(name);
    } else {
      return Error{"the corpus path " + name + " is neither a file nor a folder; see data.corpus"};
    }
  }
  if (files.empty()) return Error{"the corpus has no files; name some in data.corpus"};
  return files;
}

Result<Corpus> Corpus::open(const std::filesystem::path& path, std::uint64_t hash, std::uint64_t tokenizer_hash) {
  auto mapped = MappedFile::open(path);
  if (!mapped) return mapped.error();
  const auto bytes = mapped->bytes();
  Header header;
  if (bytes.size() < sizeof header) return Error{path.string() + " is too short"};
  std::memcpy(&header, bytes.data(), sizeof header);
  const auto body = bytes.subspan(sizeof header);
  const std::uint64_t limit = body.size() / 2;
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.corpus_hash != hash ||
      header.tokenizer_hash != tokenizer_hash || header.training > limit || header.held_out > limit ||
      (header.training + header.held_out) * 2 != body.size() || checksum64(body) != header.checksum) {
    return Error{path.string() + " is damaged or of another corpus"};
  }
  Corpus corpus(std::make_shared<MappedFile>(std::move(*mapped)));
  const auto* tokens = reinterpret_cast<const std::uint16_t*>(corpus.file_->bytes().data() + sizeof header);
  corpus.training_ = {tokens, header.training};
  corpus.held_out_ = {tokens + header.training, header.held_out};
  corpus.hash_ = hash;
  return corpus;
}

Result<Corpus> Corpus::load(const CorpusOptions& options, const Tokenizer& tokenizer) {
  auto files = list_files(options.paths);
  if (!files) return files.error();
  std::uint64_t hash = checksum64("split " + std::to_string(options.held_out)), total = 0;
  std::vector<MappedFile> texts;
  for (const auto& file : *files) {
    auto text = MappedFile::open(file);
    if (!text) return text.error();
    total += text->bytes().size();
    if (total > kMaxCorpusBytes) return Error{"the corpus has more than 4 GiB of text"};
    hash = checksum64(text->bytes(), hash);
    texts.push_back(std::move(*text));
  }
  const auto path = options.cache / ("tokens-" + hexadecimal(mix64(hash, tokenizer.hash())) + ".bin");
  if (auto cached = open(path, hash, tokenizer.hash()); cached) return cached;

  std::vector<std::uint16_t> stream;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto bytes = texts[i].bytes();
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (auto appended = append_tokens(text, tokenizer, stream); !appended) {
      return Error{(*files)[i].string() + ": " + appended.error().message};
    }
  }
  const auto parts = split(stream, options.held_out);
  if (parts.training.empty()) return Error{"the corpus is empty; name files with text in data.corpus"};
  if (auto made = make_folder(options.cache); !made) return made.error();
  std::vector<std::uint16_t> body = parts.training;
  body.insert(body.end(), parts.held_out.begin(), parts.held_out.end());
  Header header{{},
                hash,
                tokenizer.hash(),
                parts.training.size(),
                parts.held_out.size(),
                checksum64(std::as_bytes(std::span(body)))};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  auto file = AtomicFile::create(path);
  if (!file) return file.error();
  if (auto written = file->write(std::as_bytes(std::span(&header, 1))); !written) return written.error();
  if (auto written = file->write(std::as_bytes(std::span(body))); !written) return written.error();
  if (auto committed = file->commit(); !committed) return committed.error();
  return open(path, hash, tokenizer.hash());
}

}  // namespace tributary::text
