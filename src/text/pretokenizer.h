// Cuts text into the words within which byte-pair merges may happen, as the pre-tokenizers of Hugging Face's
// tokenizer.json do: Split by a regular expression, Digits, ByteLevel. Immutable once built; split() is thread-safe.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tributary::text {

class Pretokenizer {
 public:
  enum class Behavior { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };

  Pretokenizer();
  Pretokenizer(Pretokenizer&&) noexcept;
  Pretokenizer& operator=(Pretokenizer&&) noexcept;
  ~Pretokenizer();

  // Steps apply in the order added, each to every piece of the one before. Errors: the pattern does not compile.
  Result<void> add_split(const std::string& pattern, Behavior behavior, bool invert);
  // Isolates digits, one by one or run by run.
  Result<void> add_digits(bool individual);
  // GPT-2's pattern, as ByteLevel with use_regex.
  Result<void> add_gpt2();
  // A blank before a text that does not start with one.
  void set_prefix_space(bool on) { prefix_space_ = on; }
  bool prefix_space() const { return prefix_space_; }
  bool empty() const;

  // Requires valid UTF-8. The pieces are views into `text`. Errors: the pattern needs too much work for this text.
  Result<std::vector<std::string_view>> split(std::string_view text) const;

 private:
  struct Step;
  std::vector<Step> steps_;
  bool prefix_space_ = false;
};

}  // namespace tributary::text
