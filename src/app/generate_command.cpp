#include <cstdio>

#include "app/commands.h"
#include "app/interrupt.h"
#include "chat/generator.h"
#include "text/files.h"
#include "text/utf8.h"

namespace tributary::app {
namespace {

struct Loaded {
  model::ModelWeights weights;
  text::Tokenizer tokenizer;
};

Result<Loaded> load_folder(const std::filesystem::path& folder) {
  auto weights = model::load_model_folder(folder);
  if (!weights) return weights.error();
  auto tokenizer = text::Tokenizer::load((folder / "tokenizer.json").string());
  if (!tokenizer) return tokenizer.error();
  return Loaded{std::move(*weights), std::move(*tokenizer)};
}

// A run that is not finished: its newest checkpoint.
Result<Loaded> load_run(const std::filesystem::path& run) {
  ConfigSources sources;
  sources.file = run / "config.toml";
  sources.environment = false;
  auto config = load_run_config(sources);
  if (!config) return config.error();
  auto tokenizer = text::Tokenizer::load(config->data.tokenizer);
  if (!tokenizer) return tokenizer.error();
  const auto shape = config->model_config(tokenizer->vocabulary());
  const model::CheckpointKey key{run / "checkpoints", shape, config->cut(shape)};
  const auto newest = model::newest_checkpoint(key);
  if (!newest) {
    return Error{run.string() +
                 " has neither a finished model nor a checkpoint; train it first: tributary train CONFIG"};
  }
  auto weights = model::load_checkpoint_weights(key, *newest);
  if (!weights) return weights.error();
  return Loaded{std::move(*weights), std::move(*tokenizer)};
}

Result<Loaded> load(const std::filesystem::path& source) {
  std::error_code error;
  if (std::filesystem::exists(source / "config.json", error)) return load_folder(source);
  if (std::filesystem::exists(source / "model" / "config.json", error)) return load_folder(source / "model");
  if (std::filesystem::exists(source / "config.toml", error)) return load_run(source);
  return Error{source.string() + " is neither a run's folder (runs/NAME) nor a model's (with config.json)"};
}

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace

int generate(const GenerateArguments& arguments) {
  auto loaded = load(arguments.source);
  if (!loaded) return fail(loaded.error().message);
  auto prompt = loaded->tokenizer.encode(arguments.prompt);
  if (!prompt) return fail("--prompt: " + prompt.error().message, kWrongUse);
  catch_interrupts(nullptr);
  print(arguments.prompt);
  text::Utf8Stream characters;
  chat::Generator generator(std::move(loaded->weights));
  const chat::SamplingOptions sampling{arguments.temperature, arguments.top_k, arguments.seed};
  const auto each = [&](text::Token token) {
    print(characters.push(loaded->tokenizer.decode({&token, 1})));
    return !interrupted();
  };
  const auto done = generator.generate(*prompt, arguments.max_tokens, sampling, loaded->tokenizer.eos(), each);
  print(characters.finish() + "\n");
  return done ? kDone : fail(done.error().message);
}

}  // namespace tributary::app
