// Routing messages as lists of numbers, for the wire: a writer, and a reader that trusts nothing. Internal to src/flow.
#pragma once
#include <bit>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "flow/network.h"

namespace tributary::flow {

using Words = std::vector<std::uint64_t>;
// What a path may cost at most, either way.
inline constexpr Cost kMostPathCost = Cost{1} << 52;

class WordWriter {
 public:
  void put(std::uint64_t word) { words_.push_back(word); }
  // Zigzag: small ones of either sign become small words.
  void put_cost(Cost cost) { put((static_cast<std::uint64_t>(cost) << 1) ^ static_cast<std::uint64_t>(cost >> 63)); }
  void put_real(double real) { put(std::bit_cast<std::uint64_t>(real)); }
  Words take() { return std::move(words_); }

 private:
  Words words_;
};

// After the first fault every read gives 0; done() tells.
class WordReader {
 public:
  explicit WordReader(std::span<const std::uint64_t> words) : words_(words) {}
  std::uint64_t get(std::uint64_t most = ~std::uint64_t{0}) {
    if (at_ >= words_.size() || words_[at_] > most) good_ = false;
    return good_ ? words_[at_++] : 0;
  }
  std::uint32_t get32() { return static_cast<std::uint32_t>(get(0xffffffff)); }
  bool get_bool() { return get(1) == 1; }
  Cost get_cost(Cost least, Cost most) {
    const auto word = get();
    const auto cost = static_cast<Cost>((word >> 1) ^ (~(word & 1) + 1));
    if (cost < least || cost > most) good_ = false;
    return good_ ? cost : 0;
  }
  // Finite, not negative, at most 1e18.
  double get_real() {
    const auto real = std::bit_cast<double>(get());
    if (!(real >= 0 && real <= 1e18)) good_ = false;
    return good_ ? real : 0;
  }
  // How many items follow of at least so many words each: never more than the rest can hold.
  std::size_t get_count(std::size_t words_each) {
    const auto count = get();
    if (count > (words_.size() - at_) / words_each) good_ = false;
    return good_ ? static_cast<std::size_t>(count) : 0;
  }
  void fail() { good_ = false; }
  bool good() const { return good_; }
  // All was good, and nothing is left.
  bool done() const { return good_ && at_ == words_.size(); }

 private:
  std::span<const std::uint64_t> words_;
  std::size_t at_ = 0;
  bool good_ = true;
};

}  // namespace tributary::flow
