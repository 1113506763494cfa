// Reads and writes tokenizer.json. Everything in the file is checked: it may come from anywhere.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "text/tokenizer.h"
#include "text/utf8.h"

namespace tributary::text {
namespace {

using Json = nlohmann::json;

// GPT-2 writes each byte as a printable character: those that are printable in Latin-1 as themselves, the others from
// U+0100 on, in order.
struct ByteAlphabet {
  std::uint32_t character[256];
  std::int32_t byte[512];
  ByteAlphabet() {
    std::fill(std::begin(byte), std::end(byte), -1);
    std::uint32_t next = 256;
    for (std::uint32_t b = 0; b < 256; ++b) {
      const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
      character[b] = printable ? b : next++;
      byte[character[b]] = static_cast<std::int32_t>(b);
    }
  }
};
const ByteAlphabet& alphabet() {
  static const ByteAlphabet instance;
  return instance;
}

std::optional<std::string> bytes_of(std::string_view written) {
  std::string bytes;
  for (std::size_t at = 0; at < written.size();) {
    const auto point = next_code_point(written, at);
    if (!point || *point >= 512 || alphabet().byte[*point] < 0) return std::nullopt;
    bytes += static_cast<char>(alphabet().byte[*point]);
  }
  return bytes;
}

const Json* member(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}
std::string string_member(const Json& object, const char* key) {
  const auto* value = member(object, key);
  return value && value->is_string() ? value->get<std::string>() : std::string();
}
bool bool_member(const Json& object, const char* key, bool otherwise) {
  const auto* value = member(object, key);
  return value && value->is_boolean() ? value->get<bool>() : otherwise;
}

std::string shorten(std::string text) {
  if (text.size() > 60) text = text.substr(0, 60) + "...";
  return text;
}

Result<void> take_id(const Json& value, const std::string& name, Tokenizer::Parts& parts, Token& id) {
  if (!value.is_number_integer() || value.get<std::int64_t>() < 0 ||
      value.get<std::int64_t>() >= static_cast<std::int64_t>(kMaxVocabulary)) {
    return Error{"token " + shorten(name) + " has the id " + shorten(value.dump()) + "; ids go from 0 to " +
                 std::to_string(kMaxVocabulary - 1)};
  }
  id = static_cast<Token>(value.get<std::int64_t>());
  const auto size = static_cast<std::size_t>(id) + 1;
  if (parts.bytes.size() < size) {
    parts.bytes.resize(size);
    parts.known.resize(size);
  }
  return {};
}

Result<void> read_added(const Json& root, Tokenizer::Parts& parts) {
  const auto* list = member(root, "added_tokens");
  if (!list) return {};
  if (!list->is_array()) return Error{"added_tokens is not a list"};
  for (const auto& entry : *list) {
    Tokenizer::AddedToken token;
    token.content = string_member(entry, "content");
    const auto* id = member(entry, "id");
    if (token.content.empty() || !id) return Error{"an added token lacks its content or id"};
    if (auto taken = take_id(*id, token.content, parts, token.id); !taken) return taken;
    if (bool_member(entry, "single_word", false)) {
      return Error{"the added token " + shorten(token.content) + " has single_word, which is not supported"};
    }
    token.special = bool_member(entry, "special", false);
    token.left_strip = bool_member(entry, "lstrip", false);
    token.right_strip = bool_member(entry, "rstrip", false);
    parts.bytes[static_cast<std::size_t>(token.id)] = token.content;
    parts.known[static_cast<std::size_t>(token.id)] = true;
    parts.added.push_back(std::move(token));
  }
  return {};
}

Result<void> read_split(const Json& step, Pretokenizer& out) {
  const auto* pattern = member(step, "pattern");
  std::string expression;
  if (pattern) {
    expression = string_member(*pattern, "Regex");
    if (expression.empty()) {
      const auto literal = string_member(*pattern, "String");
      if (literal.find("\\E") != std::string::npos) return Error{"a Split pattern holds \\E"};
      if (!literal.empty()) expression = "\\Q" + literal + "\\E";
    }
  }
  if (expression.empty()) return Error{"a Split pre-tokenizer has no pattern"};
  const auto name = string_member(step, "behavior");
  using Behavior = Pretokenizer::Behavior;
  Behavior behavior;
  if (name == "Isolated") {
    behavior = Behavior::kIsolated;
  } else if (name == "Removed") {
    behavior = Behavior::kRemoved;
  } else if (name == "MergedWithPrevious") {
    behavior = Behavior::kMergedWithPrevious;
  } else if (name == "MergedWithNext") {
    behavior = Behavior::kMergedWithNext;
  } else if (name == "Contiguous") {
    behavior = Behavior::kContiguous;
  } else {
    return Error{"a Split pre-tokenizer has the unknown behavior \"" + shorten(name) + "\""};
  }
  return out.add_split(expression, behavior, bool_member(step, "invert", false));
}

Result<void> read_pretokenizer(const Json& step, Pretokenizer& out, bool& byte_level) {
  const auto type = string_member(step, "type");
  if (type == "Sequence") {
    const auto* list = member(step, "pretokenizers");
    if (!list || !list->is_array() || list->size() > 16) return Error{"the pre-tokenizer sequence is no list"};
    for (const auto& inner : *list) {
      if (string_member(inner, "type") == "Sequence") return Error{"a pre-tokenizer sequence is within another"};
      if (byte_level) return Error{"a pre-tokenizer follows ByteLevel; only those before it are supported"};
      if (auto read = read_pretokenizer(inner, out, byte_level); !read) return read;
    }
    return {};
  }
  if (type == "Split") return read_split(step, out);
  if (type == "Digits") return out.add_digits(bool_member(step, "individual_digits", false));
  if (type == "ByteLevel") {
    byte_level = true;
    if (bool_member(step, "add_prefix_space", true)) {
      if (!out.empty()) return Error{"add_prefix_space behind another pre-tokenizer is not supported"};
      out.set_prefix_space(true);
    }
    return bool_member(step, "use_regex", true) ? out.add_gpt2() : Result<void>();
  }
  return Error{"the pre-tokenizer \"" + shorten(type) +
               "\" is not supported; byte-level BPE (GPT-2, LLaMA 3, SmolLM) is"};
}

Result<void> read_vocabulary(const Json& model, Tokenizer::Parts& parts) {
  const auto* vocabulary = member(model, "vocab");
  if (!vocabulary || !vocabulary->is_object()) return Error{"model.vocab is missing"};
  if (vocabulary->size() > kMaxVocabulary) {
    return Error{"the vocabulary has " + std::to_string(vocabulary->size()) + " tokens; at most " +
                 std::to_string(kMaxVocabulary) + " are supported"};
  }
  for (const auto& [name, value] : vocabulary->items()) {
    Token id = 0;
    if (auto taken = take_id(value, name, parts, id); !taken) return taken;
    const auto index = static_cast<std::size_t>(id);
    if (parts.known[index]) {
      if (parts.bytes[index] == name) continue;  // an added token that the vocabulary lists too
      return Error{"two tokens have the id " + std::to_string(id)};
    }
    auto bytes = bytes_of(name);
    parts.known[index] = true;
    // Special tokens of some models stand in the vocabulary in plain characters; they are reached only as added ones.
    parts.bytes[index] = bytes ? std::move(*bytes) : name;
  }
  return {};
}

Result<void> read_merges(const Json& model, Tokenizer::Parts& parts) {
  const auto* merges = member(model, "merges");
  if (!merges || !merges->is_array()) return Error{"model.merges is missing"};
  if (merges->size() > kMaxVocabulary) return Error{"model.merges has more entries than a vocabulary can need"};
  std::unordered_map<std::string, Token> ids;
  std::vector<bool> added(parts.bytes.size());
  for (const auto& token : parts.added) added[static_cast<std::size_t>(token.id)] = true;
  for (std::size_t id = 0; id < parts.bytes.size(); ++id) {
    if (parts.known[id] && !added[id]) ids.emplace(parts.bytes[id], static_cast<Token>(id));
  }
  for (std::size_t rank = 0; rank < merges->size(); ++rank) {
    const auto& entry = (*merges)[rank];
    std::string left, right;
    if (entry.is_string()) {
      const auto text = entry.get<std::string>();
      const auto blank = text.find(' ');
      if (blank == std::string::npos) return Error{"merge " + std::to_string(rank) + " has no blank"};
      left = text.substr(0, blank);
      right = text.substr(blank + 1);
    } else if (entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_string()) {
      left = entry[0].get<std::string>();
      right = entry[1].get<std::string>();
    } else {
      return Error{"merge " + std::to_string(rank) + " is neither \"a b\" nor [\"a\", \"b\"]"};
    }
    const auto left_bytes = bytes_of(left), right_bytes = bytes_of(right);
    const auto a = left_bytes ? ids.find(*left_bytes) : ids.end();
    const auto b = right_bytes ? ids.find(*right_bytes) : ids.end();
    if (a == ids.end() || b == ids.end() || ids.find(*left_bytes + *right_bytes) == ids.end()) {
      return Error{"merge " + std::to_string(rank) + " (" + shorten(left) + " " + shorten(right) +
                   ") names a token that is not in the vocabulary"};
    }
    parts.merges.emplace_back(a->second, b->second);
  }
  return {};
}

Result<void> check_supported(const Json& root, const Json& model) {
  if (const auto type = string_member(model, "type"); !type.empty() && type != "BPE") {
    return Error{"the model is \"" + shorten(type) + "\"; only byte-level BPE is supported"};
  }
  if (bool_member(model, "byte_fallback", false)) {
    return Error{"byte_fallback (SentencePiece style) is not supported; byte-level BPE is"};
  }
  if (const auto* dropout = member(model, "dropout"); dropout && !(dropout->is_number() && *dropout == 0)) {
    return Error{"BPE dropout is not supported"};
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!string_member(model, key).empty()) return Error{std::string(key) + " is not supported"};
  }
  if (const auto* normalizer = member(root, "normalizer")) {
    return Error{"the normalizer \"" + shorten(string_member(*normalizer, "type")) +
                 "\" is not supported; only tokenizers without one are"};
  }
  return {};
}

}  // namespace

Result<Tokenizer::Parts> parse_tokenizer_json(std::string text) {
  if (text.size() > kMaxTokenizerBytes) return Error{"tokenizer.json is larger than 64 MiB"};
  Json root;
  try {
    root = Json::parse(text);
  } catch (const Json::exception& problem) {
    return Error{"not JSON: " + shorten(problem.what())};
  }
  const auto* model = member(root, "model");
  if (!model || !model->is_object()) return Error{"no \"model\": this is not a tokenizer.json"};
  if (auto supported = check_supported(root, *model); !supported) return supported.error();
  Tokenizer::Parts parts;
  bool byte_level = false;
  const auto* pretokenizer = member(root, "pre_tokenizer");
  if (!pretokenizer) return Error{"no pre_tokenizer: only byte-level BPE is supported"};
  if (auto read = read_pretokenizer(*pretokenizer, parts.pretokenizer, byte_level); !read) return read.error();
  if (!byte_level) return Error{"the pre-tokenizer has no ByteLevel step: only byte-level BPE is supported"};
  if (auto read = read_added(root, parts); !read) return read.error();
  if (auto read = read_vocabulary(*model, parts); !read) return read.error();
  if (auto read = read_merges(*model, parts); !read) return read.error();
  parts.whole_words_first = bool_member(*model, "ignore_merges", false);
  parts.json = std::move(text);
  return parts;
}

std::string byte_tokenizer_json() {
  nlohmann::ordered_json vocabulary = nlohmann::ordered_json::object();
  for (int byte = 0; byte < 256; ++byte) {
    std::string name;
    append_utf8(name, alphabet().character[byte]);
    vocabulary[name] = byte;
  }
  const auto added = [](int id, const char* content) {
    return nlohmann::ordered_json{{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
                                  {"rstrip", false}, {"normalized", false}, {"special", true}};
  };
  const nlohmann::ordered_json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  nlohmann::ordered_json root = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", nlohmann::ordered_json::array({added(256, "<|bos|>"), added(257, "<|eos|>")})},
      {"normalizer", nullptr},
      {"pre_tokenizer", byte_level},
      {"post_processor", nullptr},
      {"decoder", byte_level},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", nullptr},
        {"continuing_subword_prefix", nullptr},
        {"end_of_word_suffix", nullptr},
        {"fuse_unk", false},
        {"byte_fallback", false},
        {"vocab", vocabulary},
        {"merges", nlohmann::ordered_json::array()}}}};
  return root.dump(1) + "\n";
}

}  // namespace tributary::text
