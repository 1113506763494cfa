// Which tokens a microbatch holds: a pure function of (seed, iteration, microbatch), so that it does not depend on who
// asks, nor on how many nodes there are. Immutable; thread-safe.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "text/corpus.h"

namespace tributary::text {

// A permutation of 0..size-1 that is computed, not stored: a four-round Feistel network on the next even number of
// bits, walked along its cycle until it falls inside (Black and Rogaway 2002).
class KeyedPermutation {
 public:
  KeyedPermutation(std::uint64_t key, std::uint64_t size);  // size in 1..2^62
  std::uint64_t operator()(std::uint64_t index) const;      // requires index < size

 private:
  std::uint64_t key_, size_;
  unsigned half_bits_;
};

struct BatchShape {
  std::uint64_t seed = 0;
  std::uint32_t microbatches = 1;  // per iteration
  std::uint32_t batch = 1;         // sequences per microbatch
  std::uint32_t sequence = 1;      // tokens per sequence that are predicted
};

class Batches {
 public:
  // Windows of `sequence` + 1 tokens, the last of each shared with the next; an epoch visits each once, in an order of
  // its own. Errors: the stream is shorter than one window.
  static Result<Batches> create(std::shared_ptr<const Corpus> corpus, const BatchShape& shape);

  const BatchShape& shape() const { return shape_; }
  std::uint64_t windows() const { return windows_; }
  // [batch, sequence + 1], row by row.
  std::vector<Token> tokens(Iteration iteration, MicrobatchId microbatch) const;
  // The held-out stream in its order, as many whole windows as there are, at most `limit`: [windows, sequence + 1].
  std::vector<Token> held_out(std::uint64_t limit) const;
  std::uint64_t window(std::uint64_t sample) const;  // which window the sample-th sequence of the run is

 private:
  Batches(std::shared_ptr<const Corpus> corpus, const BatchShape& shape, std::uint64_t windows)
      : corpus_(std::move(corpus)), shape_(shape), windows_(windows) {}
  std::shared_ptr<const Corpus> corpus_;
  BatchShape shape_;
  std::uint64_t windows_;
};

}  // namespace tributary::text
