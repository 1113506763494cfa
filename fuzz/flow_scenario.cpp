// Any bytes as a fixed scenario: refused, or played to an answer or an error.
#include <string_view>

#include "flow/scenario_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tributary::flow;
  if (size > 8192) return 0;
  const auto file = parse_scenario({reinterpret_cast<const char*>(data), size});
  if (!file.ok()) return 0;
  if (!file->world.check().ok() || !file->plan.check(file->world).ok()) __builtin_trap();
  (void)play_scenario_json(*file).ok();
  return 0;
}
