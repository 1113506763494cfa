// Byte-level byte-pair encoding, as in a Hugging Face tokenizer.json (GPT-2, LLaMA 3, SmolLM and their like), and the
// byte tokenizer, which is the same thing without merges. Immutable once built; every method is thread-safe.
// Bounds: 65,536 token ids; a tokenizer.json of 64 MiB.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/pretokenizer.h"

namespace tributary::text {

using Token = std::int32_t;

inline constexpr std::size_t kMaxVocabulary = 65536;
inline constexpr std::uint64_t kMaxTokenizerBytes = 64ull << 20;

class Tokenizer {
 public:
  struct AddedToken {
    std::string content;
    Token id = 0;
    bool special = true;
    bool left_strip = false, right_strip = false;  // takes the white space beside it
  };
  // What a tokenizer is made of; tokenizer_json.cpp fills it.
  struct Parts {
    std::string json;                             // the file as it is saved again
    std::vector<std::string> bytes;               // by id: the bytes it stands for
    std::vector<bool> known;                      // by id: whether the id is used at all
    std::vector<std::pair<Token, Token>> merges;  // by rank
    std::vector<AddedToken> added;
    Pretokenizer pretokenizer;
    bool whole_words_first = false;  // a word that is in the vocabulary is not merged (LLaMA 3)
  };

  // The byte tokenizer: ids 0..255 are the bytes, 256 begins and 257 ends a text.
  static Tokenizer bytes();
  static Result<Tokenizer> parse(std::string json);
  // "bytes", or the path of a tokenizer.json or of a folder that holds one.
  static Result<Tokenizer> load(const std::string& name);

  // Added tokens in the text become their ids, as in `transformers`, unless `added_tokens` is false. No token is put
  // before or behind. Errors: text that is not UTF-8 (the byte tokenizer takes any bytes), with the offset.
  Result<std::vector<Token>> encode(std::string_view text, bool added_tokens = true) const;
  // Unknown ids give nothing. The bytes need not be whole UTF-8 characters.
  std::string decode(std::span<const Token> tokens, bool skip_special = true) const;
  // The bytes of one token; empty for special tokens and unknown ids.
  std::string_view token_bytes(Token token) const;

  std::size_t vocabulary() const { return parts_.bytes.size(); }  // highest id + 1
  std::optional<Token> bos() const { return bos_; }
  std::optional<Token> eos() const { return eos_; }
  bool is_special(Token token) const;
  // Of the whole tokenizer.json: nodes of a run must agree on it.
  std::uint64_t hash() const;
  // tokenizer.json and tokenizer_config.json, which `transformers` opens.
  Result<void> save(const std::filesystem::path& folder, std::size_t context) const;

 private:
  explicit Tokenizer(Parts parts);
  struct Merge {
    std::uint32_t rank;
    Token token;
  };
  using WordCache = std::unordered_map<std::string_view, std::vector<Token>>;
  Result<void> encode_plain(std::string_view text, WordCache& cache, std::vector<Token>& out) const;
  std::vector<Token> encode_word(std::string_view word) const;

  Parts parts_;
  std::unordered_map<std::uint64_t, Merge> merges_;  // (left << 32 | right); never iterated
  std::unordered_map<std::string, Token> words_;     // only if whole_words_first; never iterated
  Token byte_token_[256] = {};                       // -1: the vocabulary lacks the byte
  std::optional<Token> bos_, eos_;
};

// From tokenizer.json's text; pure, bounded, for every input an answer or an error.
Result<Tokenizer::Parts> parse_tokenizer_json(std::string json);
// The byte tokenizer as a tokenizer.json.
std::string byte_tokenizer_json();

}  // namespace tributary::text
