// Scenarios: what is read, what is refused, and that a rehearsal is as long as the cost model says.
#include "sim/rehearsal.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "flow/predict.h"

namespace tributary::sim {
namespace {

std::string world_file(const std::string& name) {
  std::ifstream file(std::string(TRIBUTARY_TEST_DATA) + "/sim/worlds/" + name + ".json");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

Scenario world(const std::string& name) {
  auto scenario = parse_world(world_file(name));
  EXPECT_TRUE(scenario.ok()) << scenario.error().message;
  return *scenario;
}

// A line of machines, so that there is but one plan.
Scenario line() {
  Scenario scenario;
  scenario.machines = {{0, "", 0.5, 6}, {1, "", 1.0, 2}, {2, "", 1.5, 3}};
  scenario.latency_s.assign(9, 0.05);
  scenario.bandwidth_Bps.assign(9, 4e6);
  scenario.message_bytes = 1e6;
  scenario.microbatches_per_data_node = 6;
  scenario.iterations = 3;
  return scenario;
}

TEST(Rehearsal, TakesAsLongAsPredicted) {
  const auto scenario = line();
  flow::PredictWorld predicted;
  for (const auto& machine : scenario.machines) {
    flow::PredictNode node;
    node.stage = machine.stage;
    (machine.stage == 0 ? node.head_s : node.forward_s) = machine.compute_s;
    node.capacity = machine.slots;
    predicted.nodes.push_back(node);
  }
  predicted.latency_s = scenario.latency_s;
  predicted.bandwidth_Bps = scenario.bandwidth_Bps;
  predicted.message_bytes = scenario.message_bytes;
  predicted.backward_ratio = scenario.backward_ratio;
  flow::PredictPlan plan;
  for (std::uint32_t m = 0; m < 6; ++m) plan.microbatches.push_back({m, 0, {1, 2}});
  const auto prediction = flow::predict(predicted, plan);
  ASSERT_TRUE(prediction.ok()) << prediction.error().message;
  const auto rehearsal = rehearse(scenario, {});
  ASSERT_TRUE(rehearsal.ok());
  EXPECT_EQ(rehearsal->trouble, "");
  EXPECT_NEAR(rehearsal->mean_iteration_s() / prediction->iteration_end_s, 1, 0.03);
}

TEST(Rehearsal, WithoutCrashesComesNearTheLowerBound) {
  for (const auto& [name, factor] : {std::pair("b0", 1.4), std::pair("c1", 1.5)}) {
    auto scenario = world(name);
    scenario.iterations = 2;
    const auto rehearsal = rehearse(scenario, {});
    ASSERT_TRUE(rehearsal.ok());
    EXPECT_EQ(rehearsal->trouble, "");
    EXPECT_LT(rehearsal->mean_iteration_s(), factor * scenario.lower_bound_s) << name;
    EXPECT_EQ(rehearsal->redone_share(), 0) << name;
    EXPECT_EQ(rehearsal->counters.duplicates, 0u) << "nothing travels twice without need";
  }
}

TEST(Rehearsal, UnderChurnAcceptsEveryMicrobatchAndIsTheSameTwice) {
  auto scenario = world("b0");
  scenario.iterations = 3;
  scenario.churn.kind = ChurnKind::kPerIteration;
  scenario.churn.probability = 0.4;
  const auto once = rehearse(scenario, {.seed = 2, .warm_up = 2, .trace = true});
  const auto again = rehearse(scenario, {.seed = 2, .warm_up = 2, .trace = true});
  ASSERT_TRUE(once.ok() && again.ok());
  EXPECT_EQ(once->trouble, "");
  EXPECT_EQ(once->trace_hash, again->trace_hash);
  std::uint32_t crashes = 0;
  for (const auto& iteration : once->iterations) {
    EXPECT_EQ(iteration.accepted, scenario.microbatches());
    crashes += iteration.crashes;
  }
  EXPECT_GT(crashes, 2u);
  EXPECT_GT(once->redone_share(), 0);
  const auto trace = nlohmann::json::parse(chrome_trace(scenario, *once));
  EXPECT_GT(trace["traceEvents"].size(), 500u);
}

TEST(Rehearsal, ATraceOfChurnStrikesWhenItSays) {
  auto scenario = world("b0");
  scenario.iterations = 3;
  scenario.churn.kind = ChurnKind::kTrace;
  scenario.churn.trace = {{200, 8, "crash"}, {290, 8, "start"}, {210, 12, "leave"}};
  const auto rehearsal = rehearse(scenario, {});
  ASSERT_TRUE(rehearsal.ok());
  EXPECT_EQ(rehearsal->trouble, "");
  std::uint32_t crashes = 0;
  for (const auto& iteration : rehearsal->iterations) crashes += iteration.crashes;
  EXPECT_EQ(crashes, 1u);
}

Result<Scenario> parse(const std::string& toml) {
  return parse_scenario(toml, [](const std::string& name) -> Result<std::string> {
    if (name == "b0.json") return world_file("b0");
    return Error{"there is no file " + name};
  });
}

TEST(Scenario, IsReadWithMachinesLinksAndChurn) {
  const auto scenario = parse(R"(
name = "two"
iterations = 5
[[machines]]
stage = 0
site = "Tokyo"
compute_s = 0.5
[[machines]]
count = 2
stage = 1
site = "London"
slots = 3
[links]
preset = "ten-locations"
[churn]
kind = "poisson"
per_node_hour = 2
)");
  ASSERT_TRUE(scenario.ok()) << scenario.error().message;
  EXPECT_EQ(scenario->machines.size(), 3u);
  EXPECT_EQ(scenario->stages(), 1u);
  EXPECT_DOUBLE_EQ(scenario->latency_s[1], 0.210);
  EXPECT_EQ(scenario->churn.kind, ChurnKind::kPoisson);
  const auto from_world = parse("world = \"b0.json\"\niterations = 2\n");
  ASSERT_TRUE(from_world.ok()) << from_world.error().message;
  EXPECT_EQ(from_world->machines.size(), 20u);
  EXPECT_EQ(from_world->iterations, 2u);
}

TEST(Scenario, FaultsNameThePlaceAndTheRemedy) {
  const std::string good = "[[machines]]\nstage = 0\n[[machines]]\nstage = 1\n";
  const std::pair<std::string, std::string> bad[] = {
      {"", "no machines"},
      {"[[machines]]\nstage = 0\n", "only data nodes"},
      {"[[machines]]\nstage = 1\n[[machines]]\nstage = 0\n", "listed by stage"},
      {good + "itertions = 4\n", "line 5: machines[1].itertions is unknown"},
      {"iterations = 0\n" + good, "line 1: iterations must be a whole number"},
      {good + "[churn]\nkind = \"hourly\"\n",
       "churn.kind must be none, per-iteration, poisson, diurnal, spot or trace"},
      {good + "[churn]\nkind = \"trace\"\nevents = [[1, 9, \"crash\"]]\n", "names node 9"},
      {good + "[churn]\nevents = [[1, 0]]\n", "events holds"},
      {good + "[links]\npreset = \"mars\"\n", "links.preset"},
      {"world = \"no.json\"\n", "no file no.json"},
      {"= 3", "line 1"},
  };
  for (const auto& [text, message] : bad) {
    const auto scenario = parse(text);
    ASSERT_FALSE(scenario.ok()) << text;
    EXPECT_NE(scenario.error().message.find(message), std::string::npos) << scenario.error().message;
  }
  EXPECT_FALSE(parse_world("{}").ok());
  EXPECT_FALSE(parse_world("[").ok());
}

}  // namespace
}  // namespace tributary::sim
