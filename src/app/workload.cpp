#include "app/workload.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <thread>

#include "swarm/evaluation.h"

namespace tributary::app {
namespace {

constexpr std::uint64_t kEvaluationTokens = 32768;

}  // namespace

Result<Workload> load_workload(const RunConfig& config, const std::filesystem::path& cache, bool with_text) {
  Workload work;
  work.config = config;
  auto tokenizer = text::Tokenizer::load(config.data.tokenizer);
  if (!tokenizer) return Error{"data.tokenizer: " + tokenizer.error().message};
  work.tokenizer = std::make_shared<const text::Tokenizer>(std::move(*tokenizer));
  work.shape = config.model_config(work.tokenizer->vocabulary());
  work.cut = config.cut(work.shape);
  if (!with_text) return work;
  auto corpus = text::Corpus::load({config.data.corpus, config.data.held_out, cache}, *work.tokenizer);
  if (!corpus) return corpus.error();
  work.corpus = std::make_shared<const text::Corpus>(std::move(*corpus));
  auto batches = text::Batches::create(
      work.corpus, {config.seed, config.training.microbatches, config.training.batch, config.training.sequence});
  if (!batches) return batches.error();
  work.batches = std::make_shared<const text::Batches>(std::move(*batches));
  const std::uint64_t length = config.training.sequence + 1ull, batch = config.training.batch;
  const auto limit = std::min(swarm::Evaluation::kMostBatches * batch,
                              std::max<std::uint64_t>(batch, kEvaluationTokens / config.training.sequence));
  auto windows = work.batches->held_out(limit);
  windows.resize(windows.size() / (length * batch) * (length * batch));
  work.held_out = std::make_shared<const std::vector<text::Token>>(std::move(windows));
  return work;
}

std::uint32_t Workload::held_out_batches() const {
  const std::uint64_t length = config.training.sequence + 1ull;
  return held_out ? static_cast<std::uint32_t>(held_out->size() / (length * config.training.batch)) : 0;
}

double Workload::bits_per_byte(double loss) const {
  if (!held_out) return 0;
  const auto& windows = *held_out;
  const std::uint64_t length = config.training.sequence + 1ull;
  std::uint64_t bytes = 0, tokens = 0;
  for (std::size_t i = 0; i < windows.size(); ++i) {
    if (i % length == 0) continue;  // the first of a window is not predicted
    ++tokens;
    bytes += tokenizer->token_bytes(windows[i]).size();
  }
  return bytes == 0 ? 0 : loss * static_cast<double>(tokens) / (std::numbers::ln2 * static_cast<double>(bytes));
}

node::ComputeOptions Workload::compute_options(const std::filesystem::path& checkpoints, bool hold_all) const {
  const auto& t = config.training;
  node::ComputeOptions options;
  options.config = shape;
  options.cut = cut;
  options.hold_all = hold_all;
  options.seed = config.seed;
  options.microbatches = t.microbatches;
  options.batch = t.batch;
  options.sequence = t.sequence;
  options.precision = t.precision == "bf16" ? model::Precision::kBf16 : model::Precision::kFp32;
  options.wire = config.swarm.wire == "bf16"   ? node::WireType::kBf16
                 : config.swarm.wire == "int8" ? node::WireType::kInt8
                                               : node::WireType::kFp32;
  options.device = t.device;
  options.reproducible = t.reproducible;
  options.beta1 = t.beta1;
  options.beta2 = t.beta2;
  options.epsilon = t.epsilon;
  options.weight_decay = t.weight_decay;
  options.checkpoints = checkpoints;
  if (batches) {
    const std::size_t size = (t.sequence + 1ull) * t.batch;
    options.held_out = [windows = held_out, size](std::uint32_t batch) {
      if ((batch + 1) * size > windows->size()) return std::vector<text::Token>{};
      return std::vector<text::Token>(windows->begin() + static_cast<std::ptrdiff_t>(batch * size),
                                      windows->begin() + static_cast<std::ptrdiff_t>((batch + 1) * size));
    };
    options.tokens = [source = batches](Iteration iteration, MicrobatchId microbatch) {
      return source->tokens(iteration, microbatch);
    };
  }
  options.recompute_activations = t.recompute_activations;
  options.threads = static_cast<int>(t.threads > 0 ? t.threads : std::max(1u, std::thread::hardware_concurrency()));
  return options;
}

}  // namespace tributary::app
