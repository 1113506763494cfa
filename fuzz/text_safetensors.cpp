#include "text/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  (void)tributary::text::parse_safetensors_header({reinterpret_cast<const char*>(data), size}, size * 16);
  return 0;
}
