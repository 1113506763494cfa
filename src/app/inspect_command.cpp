#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "node/inspect.h"
#include "text/files.h"

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

}  // namespace tributary::app
