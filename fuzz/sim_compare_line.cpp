// Lines of a comparison's file of finished runs: any bytes give a result or an error, and a result gives its line back.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "sim/compare.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tributary;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)sim::parse_line(text);
  // Behind a right checksum, where the rest of the parser is.
  char check[32];
  std::snprintf(check, sizeof check, "%016llx ", static_cast<unsigned long long>(checksum64(text)));
  const auto line = sim::parse_line(check + std::string(text));
  if (!line) return 0;
  const auto again = sim::parse_line(sim::to_line(*line));
  if (again && again->key != line->key) std::abort();
  return 0;
}
