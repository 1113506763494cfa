// `flow join`: on which stage newcomers serve, for one problem or for the joining tests of the GWTF thesis.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "app/lab_commands.h"
#include "flow/joining.h"
#include "text/files.h"

namespace tributary::app {
namespace {

using Json = nlohmann::ordered_json;

// "Best possible": all placements where there are few; else the same search from this many orders.
constexpr std::size_t kFewPlacements = 20, kManyOrders = 40;

Json value_json(const flow::JoinValue& value) {
  const double cost = value.per_microbatch();
  return {{"flows", value.flows},
          {"dearest_links", value.dearest},
          {"aggregation", value.aggregation},
          {"cost_per_microbatch", std::isfinite(cost) ? Json(cost) : Json()}};
}

flow::Placement place(const flow::JoinProblem& problem, const std::string& rule, std::uint64_t seed) {
  return rule == "gwtf" ? flow::join_gwtf(problem) : flow::join_planned(problem, seed);
}

int join_file(const FlowJoinArguments& arguments) {
  const auto text = text::read_file(arguments.file, flow::kMaxFileBytes);
  if (!text) return fail(text.error().message);
  auto problem = flow::parse_join_problem(*text);
  if (!problem) return fail(arguments.file.string() + ": " + problem.error().message);
  const flow::Placement nobody(problem->candidates.size(), 0);
  const auto before = flow::evaluate(*problem, nobody);
  const std::size_t exchanges =
      arguments.rebalance > 0 ? flow::rebalance_gwtf(*problem, arguments.seed, arguments.rebalance) : 0;
  const auto rebalanced = flow::evaluate(*problem, nobody);
  const auto placement = place(*problem, arguments.rule, arguments.seed);
  const auto after = flow::evaluate(*problem, placement);
  if (arguments.json) {
    Json out = {{"rule", arguments.rule}, {"before", value_json(before)}};
    if (arguments.rebalance > 0) {
      out["exchanges"] = exchanges;
      out["rebalanced"] = value_json(rebalanced);
      out["stages"] = problem->stages;
    }
    out["after"] = value_json(after);
    for (std::size_t k = 0; k < placement.size(); ++k)
      out["placed"].push_back({{"node", problem->candidates[k]}, {"stage", placement[k]}});
    std::printf("%s\n", out.dump().c_str());
    return kDone;
  }
  const auto say = [](const char* when, const flow::JoinValue& value) {
    std::printf("%s: %.2f a microbatch (%lld flows)\n", when, value.per_microbatch(),
                static_cast<long long>(value.flows));
  };
  say("before", before);
  if (arguments.rebalance > 0) {
    std::printf("%zu pairs of relays exchange their stages\n", exchanges);
    say("rebalanced", rebalanced);
  }
  for (std::size_t k = 0; k < placement.size(); ++k)
    std::printf("node %u joins stage %u\n", problem->candidates[k], placement[k]);
  say("after", after);
  return kDone;
}

int join_tests(const FlowJoinArguments& arguments) {
  Json rows = Json::array();
  bool header = !arguments.json;
  for (const auto& test : flow::join_tests()) {
    const auto& wanted = arguments.tests;
    if (std::find(wanted.begin(), wanted.end(), test.number) == wanted.end()) continue;
    double before = 0, best = 0, gwtf = 0, ours = 0, worst = 0;
    const auto n = static_cast<double>(arguments.networks);
    for (std::uint64_t seed = 1; seed <= arguments.networks; ++seed) {
      const auto problem = flow::random_join_problem(test, seed);
      const auto worth = [&](const flow::Placement& placement) {
        return flow::evaluate(problem, placement).per_microbatch();
      };
      const double rule = worth(flow::join_gwtf(problem)), planned = worth(flow::join_planned(problem, 1));
      const auto all = flow::join_exhaustively(problem, kFewPlacements);
      const double least = std::min({worth(all ? *all : flow::join_planned(problem, 2, kManyOrders)), rule, planned});
      before += worth(flow::Placement(problem.candidates.size(), 0)) / n;
      best += least / n;
      gwtf += rule / n;
      ours += planned / n;
      worst = std::max(worst, planned / least - 1);
      std::fprintf(stderr, "test %d: network %llu of %llu\n", test.number, static_cast<unsigned long long>(seed),
                   static_cast<unsigned long long>(arguments.networks));
    }
    if (arguments.json) {
      rows.push_back({{"test", test.number},
                      {"stages", test.stages},
                      {"relays", test.relays},
                      {"most_capacity", test.most_capacity},
                      {"link_cost", {test.least_cost, test.most_cost}},
                      {"joining", test.candidates},
                      {"before", before},
                      {"best", best},
                      {"gwtf", gwtf},
                      {"planned", ours},
                      {"planned_above_best", ours / best - 1},
                      {"planned_worst_above_best", worst}});
      continue;
    }
    if (header)
      std::printf("| test | stages x nodes | join | before | best | gwtf | planned |\n|---|---|---|---|---|---|---|\n");
    header = false;
    std::printf("| %-4d | %zux%-12zu | %-4zu | %-6.2f | %-6.2f | %.2f (+%.1f %%) | %.2f (+%.1f %%, worst %.1f %%) |\n",
                test.number, test.stages, test.relays, test.candidates, before, best, gwtf, 100 * (gwtf / best - 1),
                ours, 100 * (ours / best - 1), 100 * worst);
    std::fflush(stdout);
  }
  if (arguments.json) std::printf("%s\n", rows.dump().c_str());
  return kDone;
}

}  // namespace

int flow_join(const FlowJoinArguments& arguments) {
  if (!arguments.write.empty()) {
    if (arguments.tests.size() != 1) return fail("--write needs one test: --tests 9 --write FILE", kWrongUse);
    for (const auto& test : flow::join_tests()) {
      if (test.number != arguments.tests.front()) continue;
      const auto problem = flow::random_join_problem(test, arguments.seed);
      if (const auto written = text::write_file(arguments.write, flow::to_json(problem) + "\n"); !written)
        return fail(written.error().message);
      return kDone;
    }
  }
  const bool tests = !arguments.tests.empty();
  if (tests == !arguments.file.empty()) return fail("name a file, or --tests with their numbers", kWrongUse);
  return tests ? join_tests(arguments) : join_file(arguments);
}

}  // namespace tributary::app
