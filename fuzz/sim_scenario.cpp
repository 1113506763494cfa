// Scenario and world files, and the tables (CSV) that they name: any bytes give a scenario or an error.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "sim/csv.h"
#include "sim/scenario.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tributary;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  // A file that it names holds what follows a zero.
  const auto cut = std::min(text.find('\0'), text.size());
  const std::string other(text.substr(std::min(cut + 1, text.size())));
  (void)sim::parse_scenario(text.substr(0, cut), [&](const std::string&) -> Result<std::string> { return other; });
  (void)sim::parse_csv(text);
  (void)sim::parse_world(text);
  return 0;
}
