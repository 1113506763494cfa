// A corpus as two token streams, training and held out, from UTF-8 text files; cached beside the run. Immutable once
// loaded; thread-safe. Bounds: 4 GiB of text; the streams stay on disk, mapped.
#pragma once
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "text/files.h"
#include "text/tokenizer.h"

namespace tributary::text {

struct CorpusOptions {
  std::vector<std::string> paths;  // files, or folders whose regular files are taken recursively, in sorted order
  double held_out = 0.01;          // fraction of the tokens, in [0, 0.5]
  std::filesystem::path cache;     // folder for the token file
};

class Corpus {
 public:
  // Files are documents, each ended by the tokenizer's end-of-text token. The stream is cut into segments; every
  // (1 / held_out)-th is held out, whatever the seed. Errors: no files, not UTF-8 (with file and offset), nothing left.
  static Result<Corpus> load(const CorpusOptions& options, const Tokenizer& tokenizer);

  std::span<const std::uint16_t> training() const { return training_; }
  std::span<const std::uint16_t> held_out() const { return held_out_; }
  // Of the texts, their order and the split: nodes of a run must agree on it.
  std::uint64_t hash() const { return hash_; }

 private:
  explicit Corpus(std::shared_ptr<const MappedFile> file) : file_(std::move(file)) {}
  static Result<Corpus> open(const std::filesystem::path& path, std::uint64_t hash, std::uint64_t tokenizer_hash);
  std::shared_ptr<const MappedFile> file_;
  std::span<const std::uint16_t> training_, held_out_;
  std::uint64_t hash_ = 0;
};

// The files of the given paths in the order in which a corpus reads them.
Result<std::vector<std::filesystem::path>> list_files(const std::vector<std::string>& paths);

}  // namespace tributary::text
