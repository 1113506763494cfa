#include "flow/router.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <nlohmann/json.hpp>

#include "base/random.h"
#include "flow/gwtf.h"
#include "flow/random_network.h"

namespace tributary::flow {
namespace {

const std::string kFiles = TRIBUTARY_TEST_DATA "/flow/";
constexpr const char* kOneSource[] = {"thesis-6x6-one-source.json", "thesis-8x4-one-source.json"};
constexpr const char* kSeveral[] = {"ten-locations-2-sources-6x5.json", "ten-locations-3-sources-8x8.json",
                                    "ten-locations-4-sources-5x12.json"};

NetworkFile load(const std::string& name) {
  auto file = load_network(kFiles + name);
  EXPECT_TRUE(file.ok()) << file.error().message;
  return std::move(*file);
}

Solution solve(const Network& network, std::string_view router, std::uint64_t seed) {
  auto solution = (*make_router(router))->solve(network, seed);
  EXPECT_TRUE(solution.ok()) << solution.error().message;
  const auto good = check(network, *solution);
  EXPECT_TRUE(good.ok()) << good.error().message;
  return std::move(*solution);
}

double gap(Cost cost, Cost optimum) { return 100 * (static_cast<double>(cost) / static_cast<double>(optimum) - 1); }

TEST(Optimal, EqualsTheExactOptimumOfTheSharedFiles) {
  for (const char* name : kOneSource) {
    const auto file = load(name);
    const auto solution = solve(file.network, "optimal", 1);
    EXPECT_EQ(solution.count, *file.optimum_count) << name;
    EXPECT_EQ(solution.cost, *file.optimum_cost) << name;
  }
}

// The files name the optimum with interchangeable sinks too.
TEST(Optimal, GivesTheLowerBoundForSeveralDataNodesAndSaysThatItIsOne) {
  const Cost bounds[] = {54680, 69355, 149425};
  for (int k = 0; k < 3; ++k) {
    const auto file = load(kSeveral[k]);
    const Bound bound = interchangeable_bound(file.network);
    EXPECT_EQ(bound.count, *file.optimum_count);
    EXPECT_EQ(bound.cost, bounds[k]);
    const auto refused = (*make_router("optimal"))->solve(file.network, 1);
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().message.find("one data node"), std::string::npos);
  }
}

TEST(Gwtf, IsMaximalAndNearTheOptimumOnTheSharedFiles) {
  double one_source = 0;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    for (const char* name : kOneSource) {
      const auto file = load(name);
      const auto solution = solve(file.network, "gwtf", seed);
      EXPECT_EQ(solution.count, *file.optimum_count) << name << ", seed " << seed;
      one_source += gap(solution.cost, *file.optimum_cost) / 10;
    }
    for (const char* name : kSeveral) {
      const auto file = load(name);
      const auto solution = solve(file.network, "gwtf", seed);
      EXPECT_EQ(solution.count, *file.optimum_count) << name << ", seed " << seed;
      EXPECT_LT(gap(solution.cost, *file.optimum_cost), 15) << name << ", seed " << seed;
    }
  }
  EXPECT_LT(one_source, 5);
}

// 200 networks of several shapes, capacities 1-5 and 1-20, uniform and ten-location costs.
TEST(Gwtf, IsMaximalOnRandomNetworksAndNearTheOptimumWithOneDataNode) {
  constexpr std::pair<std::size_t, std::size_t> kShapes[] = {{4, 4}, {6, 6}, {8, 4}, {3, 10}, {10, 5}};
  double sum = 0;
  int one_source = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    RandomNetworkOptions options;
    std::tie(options.stages, options.relays) = kShapes[seed % 5];
    options.data_nodes = seed / 5 % 2 ? 1 + seed / 40 % 3 : 1;
    options.most_capacity = seed / 10 % 2 ? 20 : 5;
    options.ten_locations = seed / 20 % 2;
    const Network network = random_network(options, seed);
    ASSERT_TRUE(network.check().ok());
    const Bound bound = interchangeable_bound(network);
    const auto solution = solve(network, "gwtf", seed);
    EXPECT_EQ(solution.count, bound.count) << "seed " << seed;
    if (options.data_nodes > 1) continue;
    sum += gap(solution.cost, bound.cost);
    ++one_source;
  }
  EXPECT_GE(one_source, 100);
  EXPECT_LT(sum / one_source, 5);
}

TEST(Gwtf, ThePublishedMovesAloneAreMaximalToo) {
  for (const char* name : kOneSource) {
    const auto file = load(name);
    const auto solution = GwtfRouter({.published_moves_only = true}).solve(file.network, 1);
    ASSERT_TRUE(solution.ok());
    EXPECT_TRUE(check(file.network, *solution).ok());
    EXPECT_EQ(solution->count, *file.optimum_count);
    EXPECT_LT(gap(solution->cost, *file.optimum_cost), 15);
  }
}

TEST(Gwtf, SettlesWithinItsBoundOfProposals) {
  const auto file = load("thesis-6x6-one-source.json");
  const GwtfOptions options{.cooling_proposals = 20, .max_proposals = 30};
  const auto solution = GwtfRouter(options).solve(file.network, 1);
  ASSERT_TRUE(solution.ok());
  EXPECT_EQ(solution->count, *file.optimum_count);
  EXPECT_LT(solution->rounds, 30 * 4 + 100);
  EXPECT_GT(solution->messages, 0);
}

TEST(Swarm, IsMaximalButFartherFromTheOptimumThanGwtf) {
  double swarm = 0, gwtf = 0;
  for (std::uint64_t seed = 1; seed <= 5; ++seed)
    for (const char* name : kOneSource) {
      const auto file = load(name);
      const auto solution = solve(file.network, "swarm", seed);
      EXPECT_EQ(solution.count, *file.optimum_count) << name;
      swarm += gap(solution.cost, *file.optimum_cost);
      gwtf += gap(solve(file.network, "gwtf", seed).cost, *file.optimum_cost);
    }
  EXPECT_GT(swarm, gwtf);
}

// Any network, links missing or not: valid flows (check() in solve()), and the same ones for the same seed.
TEST(Routers, GiveValidFlowsAndTheSameForTheSameSeed) {
  const bool good = rc::check([] {
    RandomNetworkOptions options;
    options.data_nodes = *rc::gen::inRange<std::size_t>(1, 4);
    options.stages = *rc::gen::inRange<std::size_t>(1, 6);
    options.relays = *rc::gen::inRange<std::size_t>(1, 6);
    options.least_capacity = *rc::gen::inRange(0, 2);
    options.most_capacity = *rc::gen::inRange(1, 7);
    options.ten_locations = *rc::gen::arbitrary<bool>();
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    Network network = random_network(options, seed);
    const auto missing = *rc::gen::inRange(0, 60);
    Random random(seed);
    for (auto& links : network.links)
      std::erase_if(links, [&](const Link&) { return random.below(100) < static_cast<std::uint64_t>(missing); });
    RC_ASSERT(network.check().ok());
    const Bound bound = interchangeable_bound(network);
    for (const auto& name : router_names()) {
      if (name == "optimal" && options.data_nodes > 1) continue;
      const auto first = (*make_router(name))->solve(network, seed), again = (*make_router(name))->solve(network, seed);
      RC_ASSERT(first.ok());
      const auto valid = check(network, *first);
      if (!valid) RC_FAIL(valid.error().message);
      RC_ASSERT(first->flows == again->flows);
      RC_ASSERT(first->messages == again->messages);
      RC_ASSERT(first->count <= bound.count);
      if (first->count == bound.count) RC_ASSERT(first->cost >= bound.cost);
      if (name == "optimal") RC_ASSERT(first->count == bound.count && first->cost == bound.cost);
      if (name != "optimal" && missing == 0 && name == "gwtf") RC_ASSERT(first->count == bound.count);
    }
  });
  EXPECT_TRUE(good);
}

TEST(Routers, AnUnknownNameIsAnErrorThatListsTheKnownOnes) {
  const auto router = make_router("fastest");
  ASSERT_FALSE(router.ok());
  for (const auto& name : router_names()) EXPECT_NE(router.error().message.find(name), std::string::npos);
}

TEST(SolveFile, PrintsWhatTheCommandPromises) {
  const auto text = solve_file_json(kFiles + kOneSource[0], "gwtf", 3);
  ASSERT_TRUE(text.ok()) << text.error().message;
  const auto json = nlohmann::json::parse(*text);
  const auto file = load(kOneSource[0]);
  Solution solution;
  for (const auto& flow : json["flows"]) {
    solution.flows.emplace_back();
    for (const auto& node : flow) solution.flows.back().push_back(NodeId(node.get<std::uint32_t>()));
  }
  solution.count = json["count"];
  solution.cost = json["cost"];
  EXPECT_TRUE(check(file.network, solution).ok());
  EXPECT_GT(json["messages"].get<std::int64_t>(), 0);
  EXPECT_GT(json["rounds"].get<std::int64_t>(), 0);
  EXPECT_EQ(*text, *solve_file_json(kFiles + kOneSource[0], "gwtf", 3));
  const auto missing = solve_file_json("nowhere.json", "gwtf", 3);
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().message.find("nowhere.json"), std::string::npos);
}

TEST(Network, EveryFaultOfAFileIsNamed) {
  const std::pair<const char*, const char*> kFaults[] = {
      {"[]", "no JSON object"},
      {"{", "no JSON object"},
      {R"({"stages": [], "capacity": []})", "\"data_nodes\" is missing"},
      {R"({"data_nodes": [0], "stages": [[1]], "capacity": [1, 1]})", "\"cost\" or \"links\""},
      {R"({"data_nodes": [0], "stages": [[1]], "capacity": [1, -1], "links": []})", "capacity of node 1"},
      {R"({"data_nodes": [0], "stages": [[1]], "capacity": [1, 1.5], "links": []})", "capacity of node 1"},
      {R"({"data_nodes": [0], "stages": [[1, 1]], "capacity": [1, 1], "links": []})", "two places"},
      {R"({"data_nodes": [0], "stages": [[2]], "capacity": [1, 1], "links": []})", "node 2 has no capacity"},
      {R"({"data_nodes": [0], "stages": [[1]], "capacity": [1, 1, 1], "links": []})", "node 2 is in no stage"},
      {R"({"data_nodes": [0], "stages": [[1], [2]], "capacity": [1, 1, 1], "links": [[0, 2, 1]]})", "skips a stage"},
      {R"({"data_nodes": [0], "stages": [[1]], "capacity": [1, 1], "links": [[0, 1, 1], [0, 1, 2]]})", "twice"},
      {R"({"data_nodes": [0], "stages": [[1]], "capacity": [1, 1], "links": [[0, 1, -1]]})", "[0,1,-1]"},
      {R"({"data_nodes": [0], "stages": [[1]], "capacity": [1, 1], "links": [[0, 1, 99999999999]]})",
       "[from, to, cost]"},
      {R"({"data_nodes": [0], "stages": [[1]], "capacity": [1, 1], "cost": [[null, 1]]})", "one row for each"},
      {R"({"data_nodes": [0], "stages": [[1]], "capacity": [1, 1], "cost": [[null, "x"], [1, null]]})", "0 -> 1"},
      {R"({"data_nodes": [], "stages": [[0]], "capacity": [1], "links": []})", "no data node"},
      {R"({"data_nodes": [0], "stages": [], "capacity": [1], "links": []})", "stages"},
  };
  for (const auto& [text, part] : kFaults) {
    const auto parsed = parse_network(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_NE(parsed.error().message.find(part), std::string::npos) << text << "\n" << parsed.error().message;
  }
  const auto small =
      parse_network(R"({"data_nodes": [0], "stages": [[1]], "capacity": [3, 2], "links": [[0, 1, 5], [1, 0, 7]]})");
  ASSERT_TRUE(small.ok()) << small.error().message;
  EXPECT_EQ(interchangeable_bound(small->network).cost, 24);
}

TEST(Solution, CheckFindsEveryKindOfWrongAnswer) {
  const auto file = load(kOneSource[1]);
  const auto good = solve(file.network, "optimal", 1);
  const auto wrong = [&](auto change) {
    Solution solution = good;
    change(solution);
    return !check(file.network, solution).ok();
  };
  EXPECT_TRUE(wrong([](Solution& s) { ++s.cost; }));
  EXPECT_TRUE(wrong([](Solution& s) { ++s.count; }));
  EXPECT_TRUE(wrong([](Solution& s) { s.flows[0].pop_back(); }));
  EXPECT_TRUE(wrong([](Solution& s) { s.flows[0].back() = NodeId(1); }));
  EXPECT_TRUE(wrong([](Solution& s) { s.flows[0][1] = NodeId(31); }));
  EXPECT_TRUE(wrong([](Solution& s) { s.flows[0][1] = NodeId(4000000000); }));
  EXPECT_TRUE(wrong([](Solution& s) {
    for (int k = 0; k < 30; ++k) s.flows.push_back(s.flows[0]);
  }));
}

}  // namespace
}  // namespace tributary::flow
