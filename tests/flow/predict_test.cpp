#include "flow/predict.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/random.h"
#include "flow/scenario_file.h"

namespace tributary::flow {
namespace {

using Json = nlohmann::json;

std::string text_of(const std::string& name) {
  std::ifstream in(TRIBUTARY_TEST_DATA "/sim/" + name);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

Json play(const Json& scenario) {
  const auto file = parse_scenario(scenario.dump());
  EXPECT_TRUE(file.ok()) << file.error().message;
  const auto played = play_scenario_json(*file);
  EXPECT_TRUE(played.ok()) << played.error().message;
  return Json::parse(*played);
}

class FixedScenario : public testing::TestWithParam<const char*> {};
TEST_P(FixedScenario, EveryFieldIsEqual) {
  const Json scenario = Json::parse(text_of(GetParam()));
  const Json played = play(scenario);
  for (const auto& [key, value] : scenario["expected"].items()) EXPECT_EQ(played[key], value) << key;
  EXPECT_EQ(played, scenario["expected"]);
}
INSTANTIATE_TEST_SUITE_P(Predict, FixedScenario, testing::Values("fifo-capacity.json", "crash-backward-repair.json"));

// All links 1/4 s and 2 MB/s, messages of 1 MB: a hop takes 3/4 s.
PredictWorld small_world(std::vector<PredictNode> nodes) {
  PredictWorld world;
  world.nodes = std::move(nodes);
  const std::size_t n = world.nodes.size();
  world.latency_s.assign(n * n, 0.25);
  world.bandwidth_Bps.assign(n * n, 2e6);
  world.message_bytes = 1e6;
  return world;
}

// By hand, from the scenario with the crash at 8 s: the same until the detection at 12; relay 3 tells all and the data
// node launches microbatch 0 again at 12.25, as relay 1 is known dead through relay 2: delivered 13, F 13-14.5, F on
// relay 3 15.25-16.25, H 17-17.5, B on 3 18.25-20.25, B on 2 21-24, done 24.75.
TEST(Predict, ARestartBeginsAtTheDataNodeAgain) {
  Json scenario = Json::parse(text_of("crash-backward-repair.json"));
  scenario["backward_recovery"] = "restart";
  const Json played = play(scenario);
  EXPECT_EQ(played["microbatch_done_s"], Json({24.75, 13.0}));
  EXPECT_EQ(played["detections"], scenario["expected"]["detections"]);
}

// Relay 1 dies at 1.5, in the middle of F0 (0.75-1.75). The data node knows at 5.5 and sends again to relay 2:
// delivered 6.25; relay 2 has been free since 2.75 and does F 6.25-7.75.
TEST(Predict, AForwardMessageGoesToTheReplacement) {
  Json scenario = Json::parse(text_of("crash-backward-repair.json"));
  scenario["crashes"] = Json::array({{{"t", 1.5}, {"node", 1}}});
  const Json played = play(scenario);
  EXPECT_EQ(played["detections"], Json::array({{{"t", 5.5}, {"node", 0}, {"dead", 1}}}));
  const Json task = {{"node", 2}, {"microbatch", 0}, {"kind", "F"}, {"start", 6.25}, {"end", 7.75}};
  EXPECT_NE(std::find(played["completed_tasks"].begin(), played["completed_tasks"].end(), task),
            played["completed_tasks"].end());
}

// A transmission that would end at the very instant of its sender's crash is lost (F0 of relay 1 ends 1.75, its
// transmission 2.25); one that ended before is delivered.
TEST(Predict, WhatWouldEndAtTheInstantOfTheCrashIsLost) {
  Json scenario = Json::parse(text_of("crash-backward-repair.json"));
  const auto sends_of_1 = [&](double crash) {
    scenario["crashes"][0]["t"] = crash;
    int count = 0;
    const Json played = play(scenario);
    for (const auto& send : played["completed_sends"]) count += send["from"] == 1;
    return count;
  };
  EXPECT_EQ(sends_of_1(2.25), 0);
  EXPECT_EQ(sends_of_1(2.3125), 1);
}

// Relay 3 has one slot. F0 holds it; microbatch 1 waits until B0 has ended.
TEST(Predict, SlotsAreHeldFromForwardToBackward) {
  const auto world = small_world({{0, 0, 0.5, 2}, {1, 1, 0, 1}});
  const PredictPlan plan{.microbatches = {{0, 0, {1}}, {1, 0, {1}}}};
  PredictTrace trace;
  const auto played = predict(world, plan, {}, &trace);
  ASSERT_TRUE(played.ok());
  ASSERT_EQ(trace.tasks.size(), 6u);
  // F0 0.75-1.75, H 2.5-3, B0 3.75-5.75, then F1 5.75-6.75, H1 7.5-8, B1 8.75-10.75: done 6.5 and 11.5.
  EXPECT_EQ(played->done_s, (std::vector<double>{6.5, 11.5}));
  EXPECT_EQ(played->stage_end_s, (std::vector<double>{10.75}));
}

// Two ready tasks on a relay: F1 from 2.25 and B0 from 2; with a slot free, first in first out takes F1 at 2.75.
TEST(Predict, BackwardFirstPrefersTheGradient) {
  auto world = small_world({{0, 0, 0, 3}, {1, 1, 0, 3}});
  PredictPlan plan{.microbatches = {{0, 0, {1}}, {1, 0, {1}}, {2, 0, {1}}}};
  const auto order_of = [&](TaskOrder order) {
    plan.order = order;
    PredictTrace trace;
    EXPECT_TRUE(predict(world, plan, {}, &trace).ok());
    std::string kinds;
    for (const auto& task : trace.tasks)
      if (task.node == 1) kinds += task.kind + std::to_string(task.microbatch);
    return kinds;
  };
  // F0 0.75-1.75, F1 1.75-2.75, F2 (there at 1.75) 2.75-3.75; B0 is ready at 3.25, B1 at 4.25.
  EXPECT_EQ(order_of(TaskOrder::kFifo), "F0F1F2B0B1B2");
  world.nodes[1].forward_s =
      2;  // F0 0.75-2.75, F1 to 4.75; F2 is ready since 1.75, B0 at 4.25, B1 at 6.25, B0 ends 8.75
  EXPECT_EQ(order_of(TaskOrder::kFifo), "F0F1F2B0B1B2");
  EXPECT_EQ(order_of(TaskOrder::kBackwardFirst), "F0F1B0B1F2B2");
}

TEST(Predict, AggregationIsTheRingOrLessWithUnevenShares) {
  auto world = small_world({{0, 0, 0.5, 2}, {1, 1, 0, 2}, {1, 1, 0, 2}, {1, 1, 0, 2}, {2, 1, 0, 2}});
  world.aggregation_bytes = 3e6;
  PredictPlan plan{.microbatches = {{0, 0, {1, 4}}}};
  const auto played = predict(world, plan);
  ASSERT_TRUE(played.ok());
  // 2 * 2 / 3 * 3 MB / 2 MB/s + 4 * 0.25 s
  EXPECT_EQ(played->iteration_end_s, played->pipeline_end_s + 3);
  plan.aggregate_per_stage = true;
  const auto early = predict(world, plan);
  EXPECT_EQ(early->iteration_end_s, early->stage_end_s[0] + 3);
  EXPECT_LT(early->stage_end_s[1], early->stage_end_s[0]);
  // Equal links: each uploads 2 x 2/3 of the bytes, and the latency counts twice.
  const auto equal = uneven_aggregation(world, {1, 2, 3}, 3e6);
  EXPECT_NEAR(equal.seconds, 2 + 0.5, 1e-9);
  // One slow uplink: its share shrinks, and less than the ring's slowest link remains.
  for (const std::size_t to : {1, 2, 3}) world.bandwidth_Bps[3 * 5 + to] = 0.5e6;
  const auto uneven = uneven_aggregation(world, {1, 2, 3}, 3e6);
  EXPECT_LT(uneven.shares[2], 0.05);
  EXPECT_LT(uneven.seconds, ring_seconds(world, {1, 2, 3}, 3e6));
  EXPECT_NEAR(uneven.shares[0] + uneven.shares[1] + uneven.shares[2], 1, 1e-9);
}

TEST(Predict, AStageWithoutAnyLiveRelayNeverEnds) {
  Json scenario = Json::parse(text_of("crash-backward-repair.json"));
  scenario["crashes"] = Json::array({{{"t", 3.0}, {"node", 1}}, {{"t", 3.0}, {"node", 2}}});
  const auto played = play_scenario_json(*parse_scenario(scenario.dump()));
  ASSERT_FALSE(played.ok());
  EXPECT_NE(played.error().message.find("never ends"), std::string::npos);
}

struct Drawn {
  PredictWorld world;
  PredictPlan plan;
  PredictFaults faults;
};
// Dyadic times; one relay of each stage never dies.
Drawn draw(std::uint64_t seed) {
  Random random(seed);
  Drawn drawn;
  const auto data = static_cast<std::uint32_t>(random.between(1, 3)),
             stages = static_cast<std::uint32_t>(random.between(1, 4)),
             relays = static_cast<std::uint32_t>(random.between(1, 4));
  std::vector<PredictNode> nodes;
  for (std::uint32_t d = 0; d < data; ++d) nodes.push_back({0, 0, 0.25, static_cast<int>(random.between(1, 4))});
  drawn.faults.replacements.resize(stages + 1);
  for (std::uint32_t s = 1; s <= stages; ++s)
    for (std::uint32_t r = 0; r < relays; ++r) {
      drawn.faults.replacements[s].push_back(static_cast<std::uint32_t>(nodes.size()));
      if (r > 0 && random.chance(0.4))
        drawn.faults.crashes.push_back(
            {static_cast<double>(random.between(0, 400)) / 16, static_cast<std::uint32_t>(nodes.size())});
      nodes.push_back({s, static_cast<double>(random.between(1, 12)) / 8, 0, static_cast<int>(random.between(1, 3))});
    }
  drawn.world = small_world(std::move(nodes));
  for (auto& latency : drawn.world.latency_s) latency = static_cast<double>(random.between(0, 8)) / 16;
  for (std::uint32_t m = 0; m < 12; ++m) {
    PredictMicrobatch microbatch{m, static_cast<std::uint32_t>(random.below(data)), {}};
    for (std::uint32_t s = 1; s <= stages; ++s) microbatch.path.push_back(random.pick(drawn.faults.replacements[s]));
    drawn.plan.microbatches.push_back(std::move(microbatch));
  }
  drawn.plan.order = random.chance(0.5) ? TaskOrder::kFifo : TaskOrder::kBackwardFirst;
  drawn.faults.recovery = random.chance(0.5) ? BackwardRecovery::kRepair : BackwardRecovery::kRestart;
  drawn.faults.detection_s = static_cast<double>(random.between(0, 40)) / 8;
  return drawn;
}

// Whatever crashes, as long as one relay of each stage lives: every microbatch ends, no node does two things at once,
// no relay computes after its death, and a Predictor used again gives the same.
TEST(Predict, EveryMicrobatchEndsAndNobodyDoesTwoThingsAtOnce) {
  int crashes = 0;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    const Drawn drawn = draw(seed);
    crashes += static_cast<int>(drawn.faults.crashes.size());
    PredictTrace trace;
    Predictor predictor(drawn.world);
    predictor.run(drawn.plan);
    const Prediction played = predictor.run(drawn.plan, drawn.faults, &trace);
    ASSERT_TRUE(drawn.faults.check(drawn.world).ok());
    ASSERT_TRUE(std::isfinite(played.pipeline_end_s)) << "seed " << seed;
    EXPECT_EQ(predict(drawn.world, drawn.plan, drawn.faults)->done_s, played.done_s);
    std::vector<double> free(drawn.world.nodes.size(), 0), uplink(free);
    for (const auto& task : trace.tasks) {
      EXPECT_GE(task.start_s, free[task.node]) << "seed " << seed;
      free[task.node] = task.end_s;
      for (const auto& crash : drawn.faults.crashes)
        if (crash.node == task.node) {
          EXPECT_LT(task.end_s, crash.at_s) << "seed " << seed;
        }
    }
    for (const auto& send : trace.sends) {
      EXPECT_GE(send.start_s, uplink[send.from]) << "seed " << seed;
      uplink[send.from] = send.end_s;
    }
    // Each microbatch had its backward pass in every stage at least once, and its head.
    std::vector<int> heads(12, 0), backward(12, 0);
    for (const auto& task : trace.tasks) (task.kind == 'H' ? heads : backward)[task.microbatch] += task.kind != 'F';
    for (int m = 0; m < 12; ++m) {
      EXPECT_GE(heads[m], 1) << "seed " << seed;
      EXPECT_GE(backward[m], static_cast<int>(drawn.world.stages())) << "seed " << seed;
    }
  }
  EXPECT_GT(crashes, 3000);
}

// Whatever crashes before a stage has aggregated, each part of each microbatch is in the gradients of a relay that
// lives then; and that costs time.
TEST(Predict, ExactlyOnceLeavesNoPartWithTheDead) {
  int replayed = 0, lost_without = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    Drawn drawn = draw(seed);
    if (drawn.faults.crashes.empty()) continue;
    drawn.faults.recovery = BackwardRecovery::kRepair;
    const auto lost_parts = [&](const Prediction& played) {
      int lost = 0;
      for (std::size_t k = 0; k < played.gradient_at.size(); ++k)
        for (const auto& crash : drawn.faults.crashes)
          lost +=
              crash.node == played.gradient_at[k] && crash.at_s < played.aggregated_s[k % played.aggregated_s.size()];
      return lost;
    };
    lost_without += lost_parts(*predict(drawn.world, drawn.plan, drawn.faults));
    drawn.faults.exactly_once = true;
    drawn.plan.aggregate_per_stage = seed % 2 == 0;
    drawn.world.aggregation_bytes = seed % 3 ? 4e6 : 0;
    PredictTrace trace;
    const auto played = predict(drawn.world, drawn.plan, drawn.faults, &trace);
    ASSERT_TRUE(std::isfinite(played->iteration_end_s)) << "seed " << seed;
    EXPECT_EQ(lost_parts(*played), 0) << "seed " << seed;
    for (const std::uint32_t node : played->gradient_at) EXPECT_LT(node, drawn.world.nodes.size()) << "seed " << seed;
    for (const auto& task : trace.tasks) replayed += task.kind == 'R';
  }
  EXPECT_GT(lost_without, 500);
  EXPECT_GT(replayed, 500);
}

TEST(Predict, SeveralIterationsRememberWhoHasDied) {
  const auto world = small_world({{0, 0, 0.5, 2}, {1, 1, 0, 2}, {1, 1.5, 0, 2}});
  const PredictPlan plan{.microbatches = {{0, 0, {1}}}};
  PredictFaults faults{.crashes = {{8, 1}}, .dead = {}, .detection_s = 4, .recovery = {}, .replacements = {{}, {1, 2}}};
  const auto all = predict_iterations(world, plan, faults, 3);
  ASSERT_TRUE(all.ok());
  ASSERT_EQ(all->size(), 3u);
  // F 0.75-1.75, H 2.5-3, B 3.75-5.75, done 6.5; the crash is 1.5 s into the second: F is lost, known at 5.5, on relay
  // 2 F 6.25-7.75, H 8.5-9, B 9.75-12.75, done 13.5. The third goes through relay 2 at once.
  EXPECT_EQ((*all)[0].iteration_end_s, 6.5);
  EXPECT_EQ((*all)[1].iteration_end_s, 13.5);
  EXPECT_EQ((*all)[2].iteration_end_s, 8);
}

TEST(ScenarioFile, EveryFaultIsNamed) {
  const Json good = Json::parse(text_of("crash-backward-repair.json"));
  const auto refused = [&](const char* pointer, Json value, const char* part) {
    Json bad = good;
    bad[Json::json_pointer(pointer)] = std::move(value);
    const auto parsed = parse_scenario(bad.dump());
    ASSERT_FALSE(parsed.ok()) << pointer;
    EXPECT_NE(parsed.error().message.find(part), std::string::npos) << pointer << ": " << parsed.error().message;
  };
  EXPECT_FALSE(parse_scenario("[]").ok());
  EXPECT_FALSE(parse_scenario("{").ok());
  refused("/nodes", 3, "\"nodes\" must be a list");
  refused("/nodes/1/id", 2, "ids must be");
  refused("/nodes/1/stage", "x", "\"stage\"");
  refused("/nodes/1/stage", 7, "stages must be numbered");
  refused("/nodes/1/capacity", 0, "capacity of node 1");
  refused("/nodes/1/forward_s", -1, "compute time of node 1");
  refused("/nodes/0", Json{{"id", 0}, {"stage", 0}, {"capacity", 1}}, "\"head_s\" is missing");
  refused("/latency_s", Json::array(), "\"latency_s\" must have a row");
  refused("/latency_s/0/1", -1, "link 0 -> 1");
  refused("/bandwidth_Bps/0", Json::array({1}), "\"bandwidth_Bps\" must have a row");
  refused("/message_bytes", "many", "\"message_bytes\" must be a number");
  refused("/order", "lifo", "\"order\"");
  refused("/backward_recovery", "pray", "\"backward_recovery\"");
  refused("/microbatches/0/path", Json::array({1}), "one relay for each of the 2 stages");
  refused("/microbatches/0/path", Json::array({3, 1}), "is not of stage 1");
  refused("/microbatches/1/id", 0, "is there twice");
  refused("/microbatches/0/data_node", 3, "is no data node");
  refused("/crashes/0/node", 0, "only relays crash");
  refused("/crashes/0/t", Json(), "\"t\" must be a number");
  refused("/replacements", Json{{"1", {3}}}, "is not of stage 1");
  refused("/replacements", Json{{"one", {1}}}, "is no stage");
  EXPECT_NE(load_scenario("nowhere.json").error().message.find("nowhere.json"), std::string::npos);
}

}  // namespace
}  // namespace tributary::flow
