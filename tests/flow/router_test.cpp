#include "flow/router.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/random.h"
#include "flow/gwtf.h"
#include "flow/labels.h"
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
TEST(Optimal, IsExactForSeveralDataNodesToo) {
  const Cost bounds[] = {54680, 69355, 149425};
  for (int k = 0; k < 3; ++k) {
    const auto file = load(kSeveral[k]);
    const Bound bound = interchangeable_bound(file.network);
    EXPECT_EQ(bound.count, *file.optimum_count);
    EXPECT_EQ(bound.cost, bounds[k]);
    const auto solution = solve(file.network, "optimal", 1);
    EXPECT_EQ(solution.count, *file.optimum_count);
    EXPECT_EQ(solution.cost, *file.optimum_cost);
  }
}

// Every way of two flows or three through tiny networks, links missing or not.
Bound best_of_all(const Network& network, std::vector<std::int32_t> room, std::size_t first_data) {
  Bound best;
  const std::size_t stages = network.stages.size();
  for (std::size_t k = first_data; k < network.data_nodes.size(); ++k) {
    const std::uint32_t d = network.data_nodes[k];
    if (room[d] == 0) continue;
    std::vector<std::uint32_t> path{d};
    const std::function<void(Cost)> extend = [&](Cost cost) {
      const std::uint32_t at = path.back();
      for (const Link& link : network.links[at]) {
        const bool home = path.size() == stages + 1;
        if (home ? link.to != d : room[link.to] == 0) continue;
        if (home) {
          auto left = room;
          for (const std::uint32_t node : path) --left[node];
          Bound rest = best_of_all(network, left, k);
          ++rest.count;
          rest.cost += cost + link.cost;
          if (rest.count > best.count || (rest.count == best.count && rest.cost < best.cost)) best = rest;
          continue;
        }
        path.push_back(link.to);
        extend(cost + link.cost);
        path.pop_back();
      }
    };
    extend(0);
  }
  return best;
}
TEST(Optimal, EqualsTheBestOfAllWaysInTinyNetworks) {
  int with_flows = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    RandomNetworkOptions options;
    options.data_nodes = 1 + seed % 3;
    options.stages = 2 + seed % 2;
    options.relays = 2;
    options.most_capacity = 2;
    Network network = random_network(options, seed);
    Random random(seed);
    for (const std::uint32_t d : network.data_nodes) network.capacity[d] = 1;
    for (auto& links : network.links) std::erase_if(links, [&](const Link&) { return random.below(100) < 15; });
    const Bound best = best_of_all(network, network.capacity, 0);
    const auto solution = solve(network, "optimal", seed);
    EXPECT_EQ(solution.count, best.count) << "seed " << seed;
    EXPECT_EQ(solution.cost, best.cost) << "seed " << seed;
    with_flows += best.count > 1;
  }
  EXPECT_GT(with_flows, 20);
}

struct Gaps {
  std::vector<double> all;
  void add(Cost cost, Cost optimum) { all.push_back(gap(cost, optimum)); }
  double mean() const { return std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size()); }
  double part(std::size_t percent) {
    std::sort(all.begin(), all.end());
    return all[std::min(all.size() - 1, all.size() * percent / 100)];
  }
};

// 200 random networks; a tenth where the sanitizers' build asks for fewer seeds of everything.
std::uint64_t networks() {
  const char* wanted = std::getenv("TRIBUTARY_SEEDS");
  return wanted && std::strtoull(wanted, nullptr, 10) < 2000 ? 20 : 200;
}

// 200 networks of several shapes, capacities 1-5 and 1-20, uniform and ten-location costs; `data_nodes` of 0: 2 to 4.
RandomNetworkOptions shape(std::uint64_t seed, std::size_t data_nodes) {
  constexpr std::pair<std::size_t, std::size_t> kShapes[] = {{4, 4}, {6, 6}, {8, 8}, {12, 4}, {5, 10}};
  RandomNetworkOptions options;
  std::tie(options.stages, options.relays) = kShapes[seed % 5];
  options.data_nodes = data_nodes ? data_nodes : 2 + seed / 5 % 3;
  options.most_capacity = seed / 15 % 2 ? 20 : 5;
  options.ten_locations = seed / 30 % 2;
  return options;
}

TEST(Planned, WithOneDataNodeIsExact) {
  for (const char* name : kOneSource) {
    const auto file = load(name);
    const auto solution = solve(file.network, "planned", 1);
    EXPECT_EQ(solution.count, *file.optimum_count);
    EXPECT_EQ(solution.cost, *file.optimum_cost);
  }
  for (std::uint64_t seed = 0; seed < networks(); ++seed) {
    const Network network = random_network(shape(seed, 1), seed);
    const Bound bound = interchangeable_bound(network);
    const auto solution = solve(network, "planned", seed);
    EXPECT_EQ(solution.count, bound.count) << "seed " << seed;
    EXPECT_EQ(solution.cost, bound.cost) << "seed " << seed;
  }
}

TEST(Planned, WithSeveralDataNodesIsNearTheExactOptimumAndMissesNoFlow) {
  Gaps files, random;
  for (const char* name : kSeveral) {
    const auto file = load(name);
    const auto solution = solve(file.network, "planned", 1);
    EXPECT_EQ(solution.count, *file.optimum_count);
    files.add(solution.cost, *file.optimum_cost);
  }
  EXPECT_LT(files.part(100), 0.3);
  for (std::uint64_t seed = 0; seed < networks(); ++seed) {
    const Network network = random_network(shape(seed, 0), seed);
    const auto solution = solve(network, "planned", seed), optimum = solve(network, "optimal", seed);
    EXPECT_EQ(solution.count, optimum.count) << "seed " << seed;
    EXPECT_GE(solution.cost, optimum.cost) << "seed " << seed;
    random.add(solution.cost, optimum.cost);
  }
  std::printf("planned, %llu networks of 2-4 data nodes: mean gap %.3f %%, 95th percentile %.3f, worst %.3f\n",
              static_cast<unsigned long long>(networks()), random.mean(), random.part(95), random.part(100));
  EXPECT_LT(random.mean(), 0.3);
  EXPECT_LT(random.part(95), 1);
  EXPECT_LT(random.part(100), 2.5);
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

// Asynchronous, with random delays and messages that overtake each other.
TEST(Labels, WithOneDataNodeAreExactWhenQuietAndNearBefore) {
  int tried = 0, late = 0;
  const auto try_on = [&](const Network& network, std::uint64_t seed, const std::string& what) {
    const Bound bound = interchangeable_bound(network);
    LabelsProgress progress;
    const auto solution = LabelsRouter().solve(network, seed, &progress);
    ASSERT_TRUE(solution.ok());
    EXPECT_TRUE(check(network, *solution).ok());
    EXPECT_EQ(solution->count, bound.count) << what;
    EXPECT_EQ(solution->cost, bound.cost) << what;
    ++tried;
    late += std::any_of(progress.points.begin(), progress.points.end(), [&](const auto& point) {
      return point.round >= 250 && (point.count < bound.count || gap(point.cost, bound.cost) > 1);
    });
  };
  for (const char* name : kOneSource)
    for (std::uint64_t seed = 1; seed <= 10; ++seed) try_on(load(name).network, seed, name);
  for (std::uint64_t seed = 0; seed < 100; ++seed)
    try_on(random_network(shape(seed, 1), seed), seed, "seed " + std::to_string(seed));
  EXPECT_LE(late, tried / 50) << "so many were not within 1 % after 250 round trips";
}

TEST(Labels, WithSeveralDataNodesAreWithinTwoPercentOnAverage) {
  Gaps gaps;
  for (const char* name : kSeveral)
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      const auto file = load(name);
      const auto solution = solve(file.network, "labels", seed);
      EXPECT_EQ(solution.count, *file.optimum_count) << name;
      gaps.add(solution.cost, *file.optimum_cost);
    }
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Network network = random_network(shape(seed, 0), seed);
    const auto solution = solve(network, "labels", seed), optimum = solve(network, "optimal", seed);
    EXPECT_EQ(solution.count, optimum.count) << "seed " << seed;
    gaps.add(solution.cost, optimum.cost);
  }
  std::printf("labels, 2-4 data nodes: mean gap %.2f %%, 95th percentile %.2f, worst %.2f\n", gaps.mean(),
              gaps.part(95), gaps.part(100));
  EXPECT_LT(gaps.mean(), 2);
}

TEST(Dtfm, IsMaximalAndItsDearestLinksAreCheaperThanThoseOfSwarm) {
  for (const char* name : kOneSource) {
    const auto file = load(name);
    const auto sum_of_dearest = [&](const Solution& solution) {
      std::vector<Cost> dearest(file.network.stages.size() + 1, 0);
      for (const auto& flow : solution.flows)
        for (std::size_t k = 0; k + 1 < flow.size(); ++k)
          dearest[k] = std::max(dearest[k], *file.network.cost(flow[k].value(), flow[k + 1].value()));
      return std::accumulate(dearest.begin(), dearest.end(), Cost{0});
    };
    const auto dtfm = solve(file.network, "dtfm", 1), swarm = solve(file.network, "swarm", 1);
    EXPECT_EQ(dtfm.count, *file.optimum_count);
    EXPECT_LT(sum_of_dearest(dtfm), sum_of_dearest(swarm)) << name;
  }
}

TEST(Swarm, EachFormIsMaximalButFartherFromTheOptimumThanGwtf) {
  double gwtf = 0;
  for (std::uint64_t seed = 1; seed <= 5; ++seed)
    for (const char* name : kOneSource) {
      const auto file = load(name);
      gwtf += gap(solve(file.network, "gwtf", seed).cost, *file.optimum_cost);
    }
  for (const char* form : {"swarm", "swarm-refusing", "swarm-round-robin"}) {
    double swarm = 0;
    for (std::uint64_t seed = 1; seed <= 5; ++seed)
      for (const char* name : kOneSource) {
        const auto file = load(name);
        const auto solution = solve(file.network, form, seed);
        EXPECT_EQ(solution.count, *file.optimum_count) << name << ", " << form;
        swarm += gap(solution.cost, *file.optimum_cost);
      }
    EXPECT_GT(swarm, gwtf) << form;
  }
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
    const auto optimum = (*make_router("optimal"))->solve(network, seed);
    RC_ASSERT(optimum.ok());
    for (const auto& name : router_names()) {
      const auto first = (*make_router(name))->solve(network, seed), again = (*make_router(name))->solve(network, seed);
      RC_ASSERT(first.ok());
      const auto valid = check(network, *first);
      if (!valid) RC_FAIL(valid.error().message);
      RC_ASSERT(first->flows == again->flows);
      RC_ASSERT(first->messages == again->messages);
      RC_ASSERT(first->count <= bound.count);
      RC_ASSERT(first->count <= optimum->count);
      if (first->count == optimum->count) RC_ASSERT(first->cost >= optimum->cost);
      if (name == "optimal" && options.data_nodes == 1)
        RC_ASSERT(first->count == bound.count && first->cost == bound.cost);
      if (missing == 0 && (name == "gwtf" || name == "planned")) RC_ASSERT(first->count == bound.count);
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
