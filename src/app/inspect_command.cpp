#include <cstdio>
#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "node/inspect.h"
#include "text/files.h"
#include "text/tokenizer.h"

namespace tributary::app {

int inspect(const InspectArguments& arguments) {
  auto text = text::read_file(arguments.tokens, 1 << 24);
  if (!text) return fail(text.error().message);
  std::vector<std::vector<text::Token>> windows;
  try {
    windows = nlohmann::json::parse(*text).get<std::vector<std::vector<text::Token>>>();
  } catch (const nlohmann::json::exception& error) {
    return fail(arguments.tokens.string() + " is not a list of lists of ids: " + error.what(), kWrongUse);
  }
  const auto written = node::write_gradients(arguments.model, windows, arguments.out);
  return written ? kDone : fail(written.error().message);
}

int inspect_tokens(const TokensArguments& arguments) {
  const auto tokenizer = text::Tokenizer::load(arguments.tokenizer);
  if (!tokenizer) return fail(tokenizer.error().message);
  const auto text = text::read_file(arguments.texts, 1 << 24);
  if (!text) return fail(text.error().message);
  const auto texts = nlohmann::json::parse(*text, nullptr, false);
  if (!texts.is_array()) return fail(arguments.texts.string() + " is not a list of texts", kWrongUse);
  nlohmann::json out = nlohmann::json::array();
  for (const auto& entry : texts) {
    if (!entry.is_string()) return fail(arguments.texts.string() + " is not a list of texts", kWrongUse);
    const auto ids = tokenizer->encode(entry.get<std::string>());
    if (!ids) return fail(ids.error().message);
    out.push_back({{"ids", *ids}, {"text", tokenizer->decode(*ids, false)}});
  }
  std::printf("%s\n", out.dump().c_str());
  return kDone;
}

}  // namespace tributary::app
