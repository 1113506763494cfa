// Any bytes as a routing problem: refused, or a network that holds what check() promises and that a router can serve.
#include <string_view>

#include "flow/gwtf.h"
#include "flow/router.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tributary::flow;
  if (size > 4096) return 0;
  const auto file = parse_network({reinterpret_cast<const char*>(data), size});
  if (!file.ok()) return 0;
  const Network& network = file->network;
  if (!network.check().ok()) __builtin_trap();
  for (const auto capacity : network.capacity)
    if (capacity > 100) return 0;
  const auto solution = GwtfRouter({.cooling_proposals = 10, .max_proposals = 20}).solve(network, 1);
  if (!solution.ok() || !check(network, *solution).ok()) __builtin_trap();
  return 0;
}
