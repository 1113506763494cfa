// A stage's state on disk, one safetensors file a stage and checkpoint, and the finished model as a folder that
// `transformers` opens. Files are written beside, synced, renamed; on load every byte is verified. No LibTorch.
// Thread-safe for different stages.
#pragma once
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/config.h"
#include "text/tokenizer.h"

namespace tributary::model {

// Weights and both moments of AdamW, each a flat vector of the stage's layout.
struct StageState {
  std::vector<float> weights, first, second;
};

std::uint64_t hash_floats(std::span<const float> values);

struct CheckpointKey {
  std::filesystem::path folder;  // of all checkpoints
  Config config;
  StageCut cut;
};
std::filesystem::path checkpoint_path(const std::filesystem::path& folder, Iteration iteration, StageId stage);

// Returns the hash of the weights. Errors: the disk's.
Result<std::uint64_t> save_checkpoint(const CheckpointKey& key, Iteration iteration, StageId stage,
                                      const StageState& state);
// Errors: missing, damaged, of another model.
Result<StageState> load_checkpoint(const CheckpointKey& key, Iteration iteration, StageId stage);
// The newest iteration of which a file of every stage 0..S is there (they are verified when loaded), below `before`.
std::optional<Iteration> newest_checkpoint(const CheckpointKey& key, std::optional<Iteration> before = {});
// Every stage's file that is there, newest first, at most 256 (unverified).
std::vector<std::pair<Iteration, StageId>> saved_stages(const std::filesystem::path& folder);
// Removes all but the newest `keep` checkpoints.
void prune_checkpoints(const std::filesystem::path& folder, std::size_t keep);

// Weights of a model, by stage 0..S.
struct ModelWeights {
  Config config;
  StageCut cut;
  std::vector<std::vector<float>> stages;
  // SHA-256 of all weights in the order of stages and blocks: the same however the model is cut.
  std::string sha256() const;
};
Result<ModelWeights> load_checkpoint_weights(const CheckpointKey& key, Iteration iteration);

// config.json, model.safetensors, tokenizer.json and tokenizer_config.json.
Result<void> save_model_folder(const std::filesystem::path& folder, const ModelWeights& weights,
                               const text::Tokenizer& tokenizer);
// From a folder with config.json and model.safetensors; the whole model as one stage of blocks.
Result<ModelWeights> load_model_folder(const std::filesystem::path& folder);

}  // namespace tributary::model
