// Scenario and world files: any bytes give a scenario or an error.
#include <cstdint>
#include <string_view>

#include "sim/scenario.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tributary;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)sim::parse_scenario(text, [](const std::string&) -> Result<std::string> { return Error{"no other file"}; });
  (void)sim::parse_world(text);
  return 0;
}
