// A tokenizer.json from anywhere: an error, or a tokenizer that encodes and decodes without harm.
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tributary::text;
  const auto tokenizer = Tokenizer::parse(std::string(reinterpret_cast<const char*>(data), size));
  if (!tokenizer) return 0;
  const auto tokens = tokenizer->encode("The 3 caf\xc3\xa9s, isn't it?\n");
  if (tokens) (void)tokenizer->decode(*tokens);
  return 0;
}
