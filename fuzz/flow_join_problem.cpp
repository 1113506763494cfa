// Joining problems: any bytes give a problem or an error; a problem of few nodes can be weighed.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "flow/joining.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tributary;
  const auto problem = flow::parse_join_problem({reinterpret_cast<const char*>(data), size});
  if (!problem) return 0;
  if (!flow::parse_join_problem(flow::to_json(*problem))) std::abort();
  if (problem->size() > 12) return 0;
  for (const auto capacity : problem->capacity)
    if (capacity > 20) return 0;
  (void)flow::evaluate(*problem, flow::join_gwtf(*problem));
  return 0;
}
