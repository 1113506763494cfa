#include <CLI/CLI.hpp>
#include <cstdio>

#include "app/commands.h"

namespace tributary::app {

int fail(const std::string& message, int code) {
  std::fprintf(stderr, "tributary: %s\n", message.c_str());
  return code;
}

int run_command_line(int argc, char** argv) {
  CLI::App app{"Tributary trains language models on machines that are unlike each other, far apart and unreliable."};
  app.footer("Example: tributary train examples/small.toml\nExit codes: 0 done, 1 failed, 2 wrong use.");
  app.require_subcommand(1);
  int code = kDone;

  TrainArguments train_arguments;
  auto* train_command = app.add_subcommand("train", "Train a model as a configuration says; the same command resumes");
  train_command->add_option("config", train_arguments.config.file, "configuration (TOML)")->required();
  train_command->add_option("--set", train_arguments.config.overrides, "override a key: --set training.iterations=50")
      ->take_all();
  train_command->add_option("--runs", train_arguments.runs, "folder of all runs")->capture_default_str();
  train_command->add_flag("--single", train_arguments.single, "one process, even if the configuration asks for relays");
  train_command->footer(
      "Example: tributary train examples/small.toml --set training.iterations=50\n"
      "Ctrl-C stops after the iteration with a checkpoint; twice, at once.");
  train_command->callback([&] { code = train(train_arguments); });

  GenerateArguments generate_arguments;
  auto* generate_command = app.add_subcommand("generate", "Continue a text with a trained model");
  generate_command->add_option("source", generate_arguments.source, "folder of a run (runs/NAME) or of a model")
      ->required();
  generate_command->add_option("--prompt", generate_arguments.prompt, "text to continue")->required();
  generate_command->add_option("--max-tokens", generate_arguments.max_tokens, "tokens to generate at most")
      ->capture_default_str();
  generate_command->add_option("--temperature", generate_arguments.temperature, "0 takes the likeliest token")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  generate_command->add_option("--top-k", generate_arguments.top_k, "draw among the likeliest K; 0: all")
      ->capture_default_str();
  generate_command->add_option("--seed", generate_arguments.seed, "the same seed gives the same text")
      ->capture_default_str();
  generate_command->footer("Example: tributary generate runs/small --prompt \"ROMEO:\" --max-tokens 100");
  generate_command->callback([&] { code = generate(generate_arguments); });

  InspectArguments inspect_arguments;
  auto* inspect_command = app.add_subcommand("inspect-gradients", "Write logits and gradients of a model folder");
  inspect_command->add_option("model", inspect_arguments.model)->required();
  inspect_command->add_option("tokens", inspect_arguments.tokens, "JSON: a list of windows of ids")->required();
  inspect_command->add_option("out", inspect_arguments.out, "safetensors file to write")->required();
  inspect_command->group("");  // not listed: for tests
  inspect_command->callback([&] { code = inspect(inspect_arguments); });

  TokensArguments tokens_arguments;
  auto* tokens_command = app.add_subcommand("inspect-tokens", "Encode and decode texts");
  tokens_command->add_option("tokenizer", tokens_arguments.tokenizer)->required();
  tokens_command->add_option("texts", tokens_arguments.texts, "JSON: a list of texts")->required();
  tokens_command->group("");
  tokens_command->callback([&] { code = inspect_tokens(tokens_arguments); });

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : kWrongUse;
  }
  return code;
}

}  // namespace tributary::app
