#include "text/batches.h"

#include <algorithm>
#include <bit>

#include "base/random.h"

namespace tributary::text {

KeyedPermutation::KeyedPermutation(std::uint64_t key, std::uint64_t size) : key_(key), size_(size) {
  TRIBUTARY_CHECK(size >= 1 && size <= (1ull << 62), "a permutation of 1 to 2^62 items");
  half_bits_ = std::max(1u, (static_cast<unsigned>(std::bit_width(size - 1)) + 1) / 2);
}

std::uint64_t KeyedPermutation::operator()(std::uint64_t index) const {
  TRIBUTARY_CHECK(index < size_, "an index of the permutation");
  const std::uint64_t mask = (1ull << half_bits_) - 1;
  do {
    std::uint64_t left = index >> half_bits_, right = index & mask;
    for (std::uint64_t round = 0; round < 4; ++round) {
      const std::uint64_t mixed = left ^ (mix64(key_ + round, right) & mask);
      left = right;
      right = mixed;
    }
    index = (left << half_bits_) | right;
  } while (index >= size_);
  return index;
}

Result<Batches> Batches::create(std::shared_ptr<const Corpus> corpus, const BatchShape& shape) {
  TRIBUTARY_CHECK(shape.microbatches > 0 && shape.batch > 0 && shape.sequence > 0, "a batch shape without zeros");
  const std::uint64_t length = corpus->training().size();
  if (length < shape.sequence + 1ull) {
    return Error{"the training text has " + std::to_string(length) + " tokens, less than one sequence of " +
                 std::to_string(shape.sequence + 1ull) +
                 "; give more text (data.corpus) or a shorter training.sequence"};
  }
  const std::uint64_t windows = (length - 1) / shape.sequence;
  return Batches(std::move(corpus), shape, windows);
}

std::uint64_t Batches::window(std::uint64_t sample) const {
  const std::uint64_t epoch = sample / windows_;
  return KeyedPermutation(mix64(shape_.seed, epoch), windows_)(sample % windows_);
}

std::vector<Token> Batches::tokens(Iteration iteration, MicrobatchId microbatch) const {
  TRIBUTARY_CHECK(microbatch.value() < shape_.microbatches, "a microbatch of the iteration");
  std::vector<Token> out;
  out.reserve(static_cast<std::size_t>(shape_.batch) * (shape_.sequence + 1));
  const auto stream = corpus_->training();
  for (std::uint32_t row = 0; row < shape_.batch; ++row) {
    const std::uint64_t sample = (iteration.value() * shape_.microbatches + microbatch.value()) * shape_.batch + row;
    const auto tokens = stream.subspan(window(sample) * shape_.sequence, shape_.sequence + 1ull);
    out.insert(out.end(), tokens.begin(), tokens.end());
  }
  return out;
}

std::vector<Token> Batches::held_out(std::uint64_t limit) const {
  const auto stream = corpus_->held_out();
  std::vector<Token> out;
  for (std::uint64_t i = 0; i < limit && (i + 1) * shape_.sequence + 1 <= stream.size(); ++i) {
    const auto tokens = stream.subspan(i * shape_.sequence, shape_.sequence + 1ull);
    out.insert(out.end(), tokens.begin(), tokens.end());
  }
  return out;
}

}  // namespace tributary::text
