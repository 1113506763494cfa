// What a configuration asks to be computed: tokenizer, text, model, and the options of its tensor work. Used by a
// single process and by every node alike. Immutable once loaded; thread-safe.
#pragma once
#include <filesystem>
#include <memory>
#include <vector>

#include "app/run_config.h"
#include "node/torch_compute.h"
#include "text/batches.h"
#include "text/tokenizer.h"

namespace tributary::app {

struct Workload {
  RunConfig config;
  model::Config shape;
  model::StageCut cut;
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::shared_ptr<const text::Corpus> corpus;
  std::shared_ptr<const text::Batches> batches;

  // The held-out windows that evaluation uses, whole batches of them, [windows, sequence + 1]; empty without text, or
  // if the held-out text is shorter than a batch.
  std::shared_ptr<const std::vector<text::Token>> held_out;

  std::uint32_t held_out_batches() const;
  // Loss in nats per token over the held-out windows -> bits per byte of their text.
  double bits_per_byte(double loss) const;
  // `checkpoints` is where kSave and kLoad work. Threads as configured; 0 takes all cores.
  node::ComputeOptions compute_options(const std::filesystem::path& checkpoints, bool hold_all) const;
};

// `with_text`: false for relays, which need no corpus. `cache`: a folder for token files. Errors: tokenizer or corpus
// cannot be used, the vocabulary is too large.
Result<Workload> load_workload(const RunConfig& config, const std::filesystem::path& cache, bool with_text = true);

}  // namespace tributary::app
