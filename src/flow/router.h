// Routers: ways to choose flows. One interface for all, so that the protocol, the planner and the lab compare like with
// like. A router is a value without memory between calls; the same network and seed give the same answer everywhere.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "flow/network.h"

namespace tributary::flow {

class Router {
 public:
  virtual ~Router() = default;
  // Requires network.check(). Errors: a network that this router cannot serve; the message says why.
  virtual Result<Solution> solve(const Network& network, std::uint64_t seed) const = 0;
};

// By name; docs/methods.md describes each. Errors: another name; the message lists them.
Result<std::unique_ptr<Router>> make_router(std::string_view name);
const std::vector<std::string>& router_names();

// The most flows, and the least cost of so many, if a flow might return to any data node: exact for one data node, a
// lower bound for several. By network simplex.
struct Bound {
  std::int64_t count = 0;
  Cost cost = 0;
};
Bound interchangeable_bound(const Network& network);

// For `flow solve`: the answer of a router to a file, as one JSON object {"flows", "count", "cost", "messages",
// "rounds"}. Errors: the file, the router's name, or what the router says.
Result<std::string> solve_file_json(const std::string& path, std::string_view router, std::uint64_t seed);

}  // namespace tributary::flow
