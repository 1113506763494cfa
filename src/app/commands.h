// The commands of the program, one file each. Each returns an exit code: 0 done, 1 failed, 2 wrong use; errors go to
// standard error.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "app/run_config.h"

namespace tributary::app {

inline constexpr int kDone = 0, kFailed = 1, kWrongUse = 2;

struct TrainArguments {
  ConfigSources config;
  std::filesystem::path runs = "runs";
  bool single = false;  // one process, whatever swarm.relays says
};
int train(const TrainArguments& arguments);

struct GenerateArguments {
  std::filesystem::path source;  // a run's folder, or a model's
  std::string prompt;
  std::uint32_t max_tokens = 200;
  double temperature = 0.8;
  std::uint32_t top_k = 50;
  std::uint64_t seed = 0;
};
int generate(const GenerateArguments& arguments);

struct InspectArguments {
  std::filesystem::path model, tokens, out;
};
// For developers: logits and gradients of a model folder, for comparison with other implementations.
int inspect(const InspectArguments& arguments);

struct TokensArguments {
  std::string tokenizer;
  std::filesystem::path texts;
};
// For developers: a JSON list of {"ids", "text"}, one for each text.
int inspect_tokens(const TokensArguments& arguments);

int run_command_line(int argc, char** argv);

// Prints "tributary: ..." to standard error and returns `code`.
int fail(const std::string& message, int code = kFailed);

}  // namespace tributary::app
