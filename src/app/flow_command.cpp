#include <cstdio>
#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "flow/router.h"

namespace tributary::app {

int flow_solve(const FlowSolveArguments& arguments) {
  auto solved = flow::solve_file_json(arguments.file, arguments.router, arguments.seed);
  if (!solved) return fail(solved.error().message);
  if (arguments.json) {
    std::printf("%s\n", solved->c_str());
    return kDone;
  }
  const auto solution = nlohmann::json::parse(*solved);
  for (const auto& path : solution["flows"]) {
    std::string line;
    for (const auto& node : path) line += (line.empty() ? "" : " -> ") + node.dump();
    std::printf("%s\n", line.c_str());
  }
  std::printf("%s flows, cost %s; %s messages in %s rounds\n", solution["count"].dump().c_str(),
              solution["cost"].dump().c_str(), solution["messages"].dump().c_str(), solution["rounds"].dump().c_str());
  return kDone;
}

}  // namespace tributary::app
