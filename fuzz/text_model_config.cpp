#include "text/model_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto config = tributary::text::parse_model_config(std::string(reinterpret_cast<const char*>(data), size));
  if (config && !config->check().empty()) __builtin_trap();
  return 0;
}
