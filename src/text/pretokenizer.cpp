#include "text/pretokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace tributary::text {
namespace {

constexpr std::uint32_t kMatchLimit = 10'000'000;
constexpr std::uint32_t kHeapLimitKiB = 64 * 1024;
constexpr std::size_t kPatternLimit = 4096;
constexpr const char* kGpt2Pattern = R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

struct CodeDeleter {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct MatchDeleter {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct ContextDeleter {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

}  // namespace

struct Pretokenizer::Step {
  std::shared_ptr<pcre2_code> code;
  Behavior behavior;
  bool invert;
};

Pretokenizer::Pretokenizer() = default;
Pretokenizer::Pretokenizer(Pretokenizer&&) noexcept = default;
Pretokenizer& Pretokenizer::operator=(Pretokenizer&&) noexcept = default;
Pretokenizer::~Pretokenizer() = default;
bool Pretokenizer::empty() const { return steps_.empty() && !prefix_space_; }

Result<void> Pretokenizer::add_split(const std::string& pattern, Behavior behavior, bool invert) {
  if (pattern.size() > kPatternLimit) {
    return Error{"the pre-tokenizer's pattern has " + std::to_string(pattern.size()) + " characters; at most " +
                 std::to_string(kPatternLimit) + " are accepted"};
  }
  int code = 0;
  PCRE2_SIZE offset = 0;
  std::unique_ptr<pcre2_code, CodeDeleter> compiled(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &code, &offset, nullptr));
  if (!compiled) {
    PCRE2_UCHAR message[256] = {};
    pcre2_get_error_message(code, message, sizeof message);
    return Error{"the pre-tokenizer's pattern does not compile: " + std::string(reinterpret_cast<char*>(message)) +
                 " at character " + std::to_string(offset) + " of " + pattern};
  }
  pcre2_jit_compile(compiled.get(), PCRE2_JIT_COMPLETE);  // without JIT it is slower, not wrong
  steps_.push_back({std::shared_ptr<pcre2_code>(compiled.release(), CodeDeleter()), behavior, invert});
  return {};
}

Result<void> Pretokenizer::add_digits(bool individual) {
  return add_split(individual ? R"(\p{N})" : R"(\p{N}+)", Behavior::kIsolated, false);
}

Result<void> Pretokenizer::add_gpt2() { return add_split(kGpt2Pattern, Behavior::kIsolated, false); }

namespace {

struct Piece {
  std::size_t begin, end;
  bool match;
};

// Joins the pieces between matches and the matches as the behaviour says, and appends them to `out`.
void join(std::string_view text, const std::vector<Piece>& pieces, Pretokenizer::Behavior behavior,
          std::vector<std::string_view>& out) {
  using Behavior = Pretokenizer::Behavior;
  const auto emit = [&](std::size_t begin, std::size_t end) {
    if (end > begin) out.push_back(text.substr(begin, end - begin));
  };
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const auto& piece = pieces[i];
    switch (behavior) {
      case Behavior::kIsolated:
        emit(piece.begin, piece.end);
        break;
      case Behavior::kRemoved:
        if (!piece.match) emit(piece.begin, piece.end);
        break;
      case Behavior::kMergedWithPrevious: {
        const bool takes_next = !piece.match && i + 1 < pieces.size() && pieces[i + 1].match;
        emit(piece.begin, takes_next ? pieces[i + 1].end : piece.end);
        if (takes_next) ++i;
        break;
      }
      case Behavior::kMergedWithNext: {
        const bool takes_next = piece.match && i + 1 < pieces.size() && !pieces[i + 1].match;
        emit(piece.begin, takes_next ? pieces[i + 1].end : piece.end);
        if (takes_next) ++i;
        break;
      }
      case Behavior::kContiguous: {
        std::size_t last = i;
        while (last + 1 < pieces.size() && pieces[last + 1].match == piece.match) ++last;
        emit(piece.begin, pieces[last].end);
        i = last;
        break;
      }
    }
  }
}

}  // namespace

Result<std::vector<std::string_view>> Pretokenizer::split(std::string_view text) const {
  std::vector<std::string_view> pieces = {text};
  if (text.empty()) return std::vector<std::string_view>{};
  std::unique_ptr<pcre2_match_context, ContextDeleter> context(pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(context.get(), kMatchLimit);
  pcre2_set_heap_limit(context.get(), kHeapLimitKiB);
  for (const auto& step : steps_) {
    std::unique_ptr<pcre2_match_data, MatchDeleter> match(
        pcre2_match_data_create_from_pattern(step.code.get(), nullptr));
    std::vector<std::string_view> next;
    next.reserve(pieces.size());
    std::vector<Piece> found;
    for (const auto piece : pieces) {
      found.clear();
      std::size_t at = 0, done = 0;
      while (at <= piece.size()) {
        const int rc = pcre2_match(step.code.get(), reinterpret_cast<PCRE2_SPTR>(piece.data()), piece.size(), at,
                                   PCRE2_NO_UTF_CHECK, match.get(), context.get());
        if (rc == PCRE2_ERROR_NOMATCH) break;
        if (rc < 0) return Error{"the pre-tokenizer's pattern takes too much work on this text"};
        const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(match.get());
        if (bounds[1] <= bounds[0]) {  // an empty match moves on by one character
          do ++at;
          while (at < piece.size() && (static_cast<unsigned char>(piece[at]) & 0xc0) == 0x80);
          continue;
        }
        if (bounds[0] > done) found.push_back({done, bounds[0], step.invert});
        found.push_back({bounds[0], bounds[1], !step.invert});
        at = done = bounds[1];
      }
      if (done < piece.size()) found.push_back({done, piece.size(), step.invert});
      join(piece, found, step.behavior, next);
    }
    pieces = std::move(next);
  }
  return pieces;
}

}  // namespace tributary::text
