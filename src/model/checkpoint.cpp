#include "model/checkpoint.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "base/bytes.h"
#include "text/safetensors.h"

namespace tributary::model {
namespace {

using text::ElementType;

std::string hexadecimal(std::uint64_t value) {
  char out[17];
  std::snprintf(out, sizeof out, "%016llx", static_cast<unsigned long long>(value));
  return out;
}

// A checkpoint of another model or cut must not be taken for one of this.
std::string fingerprint(const CheckpointKey& key) {
  std::string text = text::write_model_config(key.config, {}, {});
  for (const auto blocks : key.cut.blocks) {
    text += ',';
    text += std::to_string(blocks);
  }
  return hexadecimal(checksum64(text));
}

std::string folder_name(Iteration iteration) {
  char out[32];
  std::snprintf(out, sizeof out, "iteration-%010llu", static_cast<unsigned long long>(iteration.value()));
  return out;
}

std::uint64_t state_hash(std::span<const float> weights, std::span<const float> first, std::span<const float> second) {
  return mix64(mix64(hash_floats(weights), hash_floats(first)), hash_floats(second));
}

// The iterations that have a folder, ascending.
std::vector<Iteration> list_iterations(const std::filesystem::path& folder) {
  std::vector<Iteration> found;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    unsigned long long number = 0;
    const auto name = it->path().filename().string();
    if (std::sscanf(name.c_str(), "iteration-%llu", &number) == 1 && name == folder_name(Iteration(number))) {
      found.push_back(Iteration(number));
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

std::uint64_t hash_floats(std::span<const float> values) { return checksum64(std::as_bytes(values)); }

std::filesystem::path checkpoint_path(const std::filesystem::path& folder, Iteration iteration, StageId stage) {
  return folder / folder_name(iteration) / ("stage-" + to_string(stage) + ".safetensors");
}

Result<std::uint64_t> save_checkpoint(const CheckpointKey& key, Iteration iteration, StageId stage,
                                      const StageState& state) {
  const auto path = checkpoint_path(key.folder, iteration, stage);
  if (auto made = text::make_folder(path.parent_path()); !made) return made.error();
  const std::vector<std::uint64_t> shape = {state.weights.size()};
  const auto tensor = [&](const char* name, const std::vector<float>& values) {
    return text::TensorToWrite{name, ElementType::kF32, shape, std::as_bytes(std::span(values))};
  };
  const auto written = text::write_safetensors(
      path, {tensor("weights", state.weights), tensor("first", state.first), tensor("second", state.second)},
      {{"tributary", "checkpoint 1"},
       {"iteration", to_string(iteration)},
       {"stage", to_string(stage)},
       {"model", fingerprint(key)},
       {"hash", hexadecimal(state_hash(state.weights, state.first, state.second))}});
  if (!written) return written.error();
  return hash_floats(state.weights);
}

Result<StageState> load_checkpoint(const CheckpointKey& key, Iteration iteration, StageId stage) {
  const auto path = checkpoint_path(key.folder, iteration, stage);
  auto file = text::Safetensors::open(path);
  if (!file) return Error{"checkpoint: " + file.error().message};
  const auto& metadata = file->header().metadata;
  const auto is = [&](const char* name, const std::string& value) {
    const auto found = metadata.find(name);
    return found != metadata.end() && found->second == value;
  };
  if (!is("tributary", "checkpoint 1") || !is("iteration", to_string(iteration)) || !is("stage", to_string(stage))) {
    return Error{path.string() + " is not the checkpoint of stage " + to_string(stage) + " at iteration " +
                 to_string(iteration)};
  }
  if (!is("model", fingerprint(key))) {
    return Error{path.string() +
                 " is of another model or cut; take the configuration it was trained with, or another " + "run name"};
  }
  const std::uint64_t size = stage_layout(key.config, key.cut, stage).size;
  StageState state{std::vector<float>(size), std::vector<float>(size), std::vector<float>(size)};
  if (auto read = file->read("weights", {size}, state.weights); !read) return read.error();
  if (auto read = file->read("first", {size}, state.first); !read) return read.error();
  if (auto read = file->read("second", {size}, state.second); !read) return read.error();
  if (!is("hash", hexadecimal(state_hash(state.weights, state.first, state.second)))) {
    return Error{path.string() + " is damaged (its hash does not match); remove it, an older checkpoint will be used"};
  }
  return state;
}

std::optional<Iteration> newest_checkpoint(const CheckpointKey& key, std::optional<Iteration> before) {
  auto iterations = list_iterations(key.folder);
  std::error_code error;
  for (auto it = iterations.rbegin(); it != iterations.rend(); ++it) {
    if (before && *it >= *before) continue;
    bool whole = true;
    for (std::uint16_t stage = 0; stage <= key.cut.stages(); ++stage) {
      whole = whole && std::filesystem::exists(checkpoint_path(key.folder, *it, StageId(stage)), error);
    }
    if (whole) return *it;
  }
  return std::nullopt;
}

std::vector<std::pair<Iteration, StageId>> saved_stages(const std::filesystem::path& folder) {
  constexpr std::size_t kMost = 256;
  std::vector<std::pair<Iteration, StageId>> found;
  std::error_code error;
  auto iterations = list_iterations(folder);
  for (auto it = iterations.rbegin(); it != iterations.rend(); ++it) {
    for (const auto& entry : std::filesystem::directory_iterator(folder / folder_name(*it), error)) {
      unsigned stage = 0;
      int length = 0;
      const auto name = entry.path().filename().string();
      if (std::sscanf(name.c_str(), "stage-%5u.safetensors%n", &stage, &length) != 1 ||
          name.size() != static_cast<std::size_t>(length))
        continue;
      if (found.size() < kMost && stage <= 0xffff) found.emplace_back(*it, StageId(static_cast<std::uint16_t>(stage)));
    }
  }
  return found;
}

void prune_checkpoints(const std::filesystem::path& folder, std::size_t keep) {
  const auto iterations = list_iterations(folder);
  std::error_code error;
  for (std::size_t i = 0; i + keep < iterations.size(); ++i) {
    std::filesystem::remove_all(folder / folder_name(iterations[i]), error);
  }
}

std::string ModelWeights::sha256() const {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr);
  for (const auto& stage : stages) EVP_DigestUpdate(context.get(), stage.data(), stage.size() * sizeof(float));
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  EVP_DigestFinal_ex(context.get(), digest, &length);
  std::string text;
  for (unsigned i = 0; i < length; ++i) {
    char pair[3];
    std::snprintf(pair, sizeof pair, "%02x", digest[i]);
    text += pair;
  }
  return text;
}

Result<ModelWeights> load_checkpoint_weights(const CheckpointKey& key, Iteration iteration) {
  ModelWeights weights{key.config, key.cut, {}};
  for (std::uint16_t stage = 0; stage <= key.cut.stages(); ++stage) {
    auto state = load_checkpoint(key, iteration, StageId(stage));
    if (!state) return state.error();
    weights.stages.push_back(std::move(state->weights));
  }
  return weights;
}

Result<void> save_model_folder(const std::filesystem::path& folder, const ModelWeights& weights,
                               const text::Tokenizer& tokenizer) {
  if (auto made = text::make_folder(folder); !made) return made;
  std::vector<text::TensorToWrite> tensors;
  for (std::uint16_t stage = 0; stage <= weights.cut.stages(); ++stage) {
    const auto layout = stage_layout(weights.config, weights.cut, StageId(stage));
    for (const auto& parameter : layout.parameters) {
      const auto values = std::span(weights.stages[stage]).subspan(parameter.offset, parameter.size);
      tensors.push_back({parameter.name, ElementType::kF32, parameter.shape, std::as_bytes(values)});
    }
  }
  if (auto written = text::write_safetensors(folder / "model.safetensors", tensors, {{"format", "pt"}}); !written) {
    return written;
  }
  if (auto saved = tokenizer.save(folder, weights.config.context); !saved) return saved;
  return text::write_file(folder / "config.json",
                          text::write_model_config(weights.config, tokenizer.bos(), tokenizer.eos()));
}

Result<ModelWeights> load_model_folder(const std::filesystem::path& folder) {
  auto json = text::read_file(folder / "config.json", 1 << 20);
  if (!json) return Error{json.error().message + "; a model folder holds config.json and model.safetensors"};
  auto config = text::parse_model_config(*json);
  if (!config) return Error{folder.string() + ": " + config.error().message};
  auto file = text::Safetensors::open(folder / "model.safetensors");
  if (!file) return file.error();
  ModelWeights weights{*config, StageCut{{config->layers}}, {}};
  for (std::uint16_t stage = 0; stage <= 1; ++stage) {
    const auto layout = stage_layout(*config, weights.cut, StageId(stage));
    std::vector<float> flat(layout.size);
    for (const auto& parameter : layout.parameters) {
      // GPT-2's original files lack the prefix.
      const std::string prefix = "transformer.";
      std::string name = parameter.name;
      if (!file->find(name) && name.starts_with(prefix)) name = name.substr(prefix.size());
      const auto out = std::span(flat).subspan(parameter.offset, parameter.size);
      if (auto read = file->read(name, parameter.shape, out); !read) return read.error();
    }
    weights.stages.push_back(std::move(flat));
  }
  return weights;
}

}  // namespace tributary::model
