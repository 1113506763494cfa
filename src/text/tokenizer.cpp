#include "text/tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <queue>

#include "base/bytes.h"
#include "text/files.h"
#include "text/utf8.h"

namespace tributary::text {
namespace {

constexpr std::size_t kWordCacheEntries = 1 << 16;
constexpr std::size_t kCachedWordBytes = 64;

std::uint64_t pair_key(Token left, Token right) {
  return (static_cast<std::uint64_t>(left) << 32) | static_cast<std::uint32_t>(right);
}

std::optional<Token> find_special(const std::vector<Tokenizer::AddedToken>& added,
                                  std::initializer_list<std::string_view> names) {
  for (const auto name : names) {
    for (const auto& token : added) {
      if (token.content == name) return token.id;
    }
  }
  return std::nullopt;
}

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f'; }

}  // namespace

Tokenizer::Tokenizer(Parts parts) : parts_(std::move(parts)) {
  std::fill(std::begin(byte_token_), std::end(byte_token_), -1);
  std::unordered_map<std::string, Token> by_bytes;
  std::vector<bool> added(parts_.bytes.size());
  for (const auto& token : parts_.added) added[static_cast<std::size_t>(token.id)] = true;
  for (std::size_t id = 0; id < parts_.bytes.size(); ++id) {
    if (!parts_.known[id] || added[id]) continue;
    const auto& bytes = parts_.bytes[id];
    if (bytes.size() == 1) byte_token_[static_cast<std::uint8_t>(bytes[0])] = static_cast<Token>(id);
    by_bytes.emplace(bytes, static_cast<Token>(id));
  }
  merges_.reserve(parts_.merges.size() * 2);
  for (std::size_t rank = 0; rank < parts_.merges.size(); ++rank) {
    const auto [left, right] = parts_.merges[rank];
    const auto joined =
        by_bytes.find(parts_.bytes[static_cast<std::size_t>(left)] + parts_.bytes[static_cast<std::size_t>(right)]);
    TRIBUTARY_CHECK(joined != by_bytes.end(), "the parser lets no merge through whose result is unknown");
    merges_.emplace(pair_key(left, right), Merge{static_cast<std::uint32_t>(rank), joined->second});
  }
  if (parts_.whole_words_first) words_ = std::move(by_bytes);
  bos_ = find_special(parts_.added, {"<|begin_of_text|>", "<|bos|>", "<s>", "<|im_start|>", "<|endoftext|>"});
  eos_ = find_special(parts_.added, {"<|end_of_text|>", "<|eos|>", "</s>", "<|endoftext|>", "<|im_end|>"});
}

Tokenizer Tokenizer::bytes() {
  auto parts = parse_tokenizer_json(byte_tokenizer_json());
  TRIBUTARY_CHECK(parts.ok(), parts.error().message);
  return Tokenizer(std::move(*parts));
}

Result<Tokenizer> Tokenizer::parse(std::string json) {
  auto parts = parse_tokenizer_json(std::move(json));
  if (!parts) return parts.error();
  return Tokenizer(std::move(*parts));
}

Result<Tokenizer> Tokenizer::load(const std::string& name) {
  if (name == "bytes") return bytes();
  std::filesystem::path path = name;
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) path /= "tokenizer.json";
  auto json = read_file(path, kMaxTokenizerBytes);
  if (!json) {
    return Error{json.error().message + "; a tokenizer is \"bytes\" or the path of a Hugging Face tokenizer.json"};
  }
  auto tokenizer = parse(std::move(*json));
  if (!tokenizer) return Error{path.string() + ": " + tokenizer.error().message};
  return tokenizer;
}

Result<std::vector<Token>> Tokenizer::encode(std::string_view text, bool added_tokens) const {
  const bool plain_bytes = parts_.merges.empty() && parts_.pretokenizer.empty();
  if (!plain_bytes) {
    if (const auto bad = find_invalid_utf8(text)) {
      return Error{"not UTF-8 at byte " + std::to_string(*bad) + "; convert the text to UTF-8"};
    }
  }
  std::vector<Token> out;
  WordCache cache;
  if (!added_tokens) {
    if (auto done = encode_plain(text, cache, out); !done) return done.error();
    return out;
  }
  bool first_bytes[256] = {};
  for (const auto& token : parts_.added) first_bytes[static_cast<std::uint8_t>(token.content[0])] = true;
  std::size_t plain = 0;
  for (std::size_t at = 0; at < text.size();) {
    const AddedToken* found = nullptr;
    if (first_bytes[static_cast<std::uint8_t>(text[at])]) {
      for (const auto& token : parts_.added) {
        if (text.substr(at).starts_with(token.content) && (!found || token.content.size() > found->content.size())) {
          found = &token;
        }
      }
    }
    if (!found) {
      ++at;
      continue;
    }
    std::size_t end = at, next = at + found->content.size();
    if (found->left_strip) {
      while (end > plain && is_blank(text[end - 1])) --end;
    }
    if (found->right_strip) {
      while (next < text.size() && is_blank(text[next])) ++next;
    }
    if (auto done = encode_plain(text.substr(plain, end - plain), cache, out); !done) return done.error();
    out.push_back(found->id);
    at = plain = next;
  }
  if (auto done = encode_plain(text.substr(plain), cache, out); !done) return done.error();
  return out;
}

Result<void> Tokenizer::encode_plain(std::string_view text, WordCache& cache, std::vector<Token>& out) const {
  if (text.empty()) return {};
  std::string prefixed;
  if (parts_.pretokenizer.prefix_space() && text[0] != ' ') {
    prefixed = " ";
    prefixed += text;
    text = prefixed;
  }
  auto words = parts_.pretokenizer.split(text);
  if (!words) return words.error();
  for (const auto word : *words) {
    // The cache holds views into the caller's text, so words of the local copy stay out of it.
    if (word.size() > kCachedWordBytes || !prefixed.empty()) {
      const auto tokens = encode_word(word);
      out.insert(out.end(), tokens.begin(), tokens.end());
      continue;
    }
    auto cached = cache.find(word);
    if (cached == cache.end()) {
      if (cache.size() >= kWordCacheEntries) cache.clear();
      cached = cache.emplace(word, encode_word(word)).first;
    }
    out.insert(out.end(), cached->second.begin(), cached->second.end());
  }
  return {};
}

// Merges the pair of lowest rank, the leftmost first, until none is left: a heap over a linked list, so that a word of
// n bytes costs n log n.
std::vector<Token> Tokenizer::encode_word(std::string_view word) const {
  if (parts_.whole_words_first) {
    if (const auto known = words_.find(std::string(word)); known != words_.end()) return {known->second};
  }
  struct Symbol {
    Token token;
    std::int64_t previous, next;
  };
  std::vector<Symbol> symbols;
  symbols.reserve(word.size());
  for (const char c : word) {
    const Token token = byte_token_[static_cast<std::uint8_t>(c)];
    if (token < 0) continue;  // as `tokenizers` without an unknown token: left out
    const auto index = static_cast<std::int64_t>(symbols.size());
    symbols.push_back({token, index - 1, index + 1});
  }
  if (!symbols.empty()) symbols.back().next = -1;
  struct Candidate {
    std::uint32_t rank;
    std::int64_t left;
    Token left_token, right_token, merged;
    bool operator>(const Candidate& other) const { return rank != other.rank ? rank > other.rank : left > other.left; }
  };
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto consider = [&](std::int64_t left) {
    if (left < 0) return;
    const auto& symbol = symbols[static_cast<std::size_t>(left)];
    if (symbol.next < 0) return;
    const Token right = symbols[static_cast<std::size_t>(symbol.next)].token;
    if (const auto merge = merges_.find(pair_key(symbol.token, right)); merge != merges_.end()) {
      queue.push({merge->second.rank, left, symbol.token, right, merge->second.token});
    }
  };
  if (!merges_.empty()) {
    for (std::size_t i = 0; i < symbols.size(); ++i) consider(static_cast<std::int64_t>(i));
  }
  while (!queue.empty()) {
    const auto best = queue.top();
    queue.pop();
    auto& left = symbols[static_cast<std::size_t>(best.left)];
    if (left.token != best.left_token || left.next < 0) continue;
    auto& right = symbols[static_cast<std::size_t>(left.next)];
    if (right.token != best.right_token) continue;
    left.token = best.merged;
    right.token = -1;  // no longer there
    left.next = right.next;
    if (left.next >= 0) symbols[static_cast<std::size_t>(left.next)].previous = best.left;
    consider(left.previous);
    consider(best.left);
  }
  std::vector<Token> tokens;
  for (std::int64_t i = symbols.empty() ? -1 : 0; i >= 0; i = symbols[static_cast<std::size_t>(i)].next) {
    tokens.push_back(symbols[static_cast<std::size_t>(i)].token);
  }
  return tokens;
}

std::string Tokenizer::decode(std::span<const Token> tokens, bool skip_special) const {
  std::string text;
  for (const Token token : tokens) {
    if (token < 0 || static_cast<std::size_t>(token) >= parts_.bytes.size()) continue;
    if (skip_special && is_special(token)) continue;
    text += parts_.bytes[static_cast<std::size_t>(token)];
  }
  return text;
}

std::string_view Tokenizer::token_bytes(Token token) const {
  if (token < 0 || static_cast<std::size_t>(token) >= parts_.bytes.size() || is_special(token)) return {};
  return parts_.bytes[static_cast<std::size_t>(token)];
}

bool Tokenizer::is_special(Token token) const {
  return std::any_of(parts_.added.begin(), parts_.added.end(),
                     [&](const AddedToken& added) { return added.special && added.id == token; });
}

std::uint64_t Tokenizer::hash() const { return checksum64(parts_.json); }

Result<void> Tokenizer::save(const std::filesystem::path& folder, std::size_t context) const {
  if (auto made = make_folder(folder); !made) return made;
  if (auto written = write_file(folder / "tokenizer.json", parts_.json); !written) return written;
  nlohmann::ordered_json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                                   {"model_max_length", context},
                                   {"clean_up_tokenization_spaces", false}};
  if (bos_) config["bos_token"] = parts_.bytes[static_cast<std::size_t>(*bos_)];
  if (eos_) config["eos_token"] = parts_.bytes[static_cast<std::size_t>(*eos_)];
  return write_file(folder / "tokenizer_config.json", config.dump(2) + "\n");
}

}  // namespace tributary::text
