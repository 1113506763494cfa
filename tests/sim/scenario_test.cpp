// Scenarios beyond machines given one by one: what is drawn, sites and shared wires, conditions that change, everything
// that may happen to machines, and ideas turned off.
#include "sim/scenario.h"

#include <gtest/gtest.h>

#include <set>

#include "sim/conditions.h"
#include "sim/rehearsal.h"

namespace tributary::sim {
namespace {

Result<Scenario> parse(const std::string& toml) {
  return parse_scenario(toml, [](const std::string& name) -> Result<std::string> {
    if (name == "slow.csv") return std::string("time_s,slowness\n10,2\n20,1\n");
    if (name == "back.csv") return std::string("10,2\n9,1\n");
    if (name == "latency.csv") return std::string("# s\n0.001, 0.08\n0.09, 0.002\n");
    if (name == "churn.csv") return std::string("time_s,node,what\n25.5,2,crash\n33,2,start\n");
    if (name == "odd.csv") return std::string("12.5,2,explode\n");
    return Error{"there is no file " + name};
  });
}

Scenario parsed(const std::string& toml) {
  auto scenario = parse(toml);
  EXPECT_TRUE(scenario.ok()) << scenario.error().message;
  return scenario.ok() ? *scenario : Scenario();
}

constexpr const char* kTwoSites = R"(
[[sites]]
name = "north"
uplink_Bps = 1e6
[[sites]]
name = "south"
downlink_Bps = 2e6
[[machines]]
stage = 0
site = "north"
[[machines]]
count = 3
stage = 1
site = ["north", "south"]
downlink_Bps = [0, 0, 5e5]
[links]
latency_s = "latency.csv"
bandwidth_Bps = [[1e7, 1e6], [2e6, 1e7]]
)";

TEST(Scenario, DrawsMachinesTheSameForTheSameSeed) {
  const std::string text = R"(
[[machines]]
stage = 0
[[machines]]
stage = 1
count = 400
compute_s = {lognormal = [2.0, 0.5]}
slots = {uniform = [2, 4]}
clock_ppm = {uniform = [-100, 100]}
start_at_s = [0, 7]
)";
  const auto once = parsed(text), again = parsed(text), other = parsed("draw_seed = 2\n" + text);
  std::set<std::uint16_t> slots;
  int below = 0;
  for (std::size_t i = 1; i < once.machines.size(); ++i) {
    const auto& machine = once.machines[i];
    slots.insert(machine.slots);
    below += machine.compute_s < 2;
    EXPECT_LE(std::abs(machine.clock_ppm), 100);
    EXPECT_EQ(machine.start_at_s, i % 2 == 1 ? 0 : 7);
    EXPECT_EQ(machine.compute_s, again.machines[i].compute_s);
  }
  EXPECT_EQ(slots, (std::set<std::uint16_t>{2, 3, 4}));
  EXPECT_NEAR(below, 200, 40) << "half of a log-normal distribution is below its median";
  EXPECT_NE(once.machines[1].compute_s, other.machines[1].compute_s);
}

TEST(Scenario, LaysLinksBetweenSitesFromRowsAndFiles) {
  const auto scenario = parsed(kTwoSites);
  ASSERT_EQ(scenario.machines.size(), 4u);
  EXPECT_EQ(scenario.machines[2].site, "south");
  EXPECT_DOUBLE_EQ(scenario.latency_s[0 * 4 + 2], 0.08);
  EXPECT_DOUBLE_EQ(scenario.latency_s[2 * 4 + 0], 0.09);
  EXPECT_DOUBLE_EQ(scenario.bandwidth_Bps[2 * 4 + 0], 2e6);
  EXPECT_DOUBLE_EQ(scenario.bandwidth_Bps[1 * 4 + 0], 1e7);
  EXPECT_EQ(scenario.machines[3].downlink_Bps, 5e5);
}

// Llama-like: a block has 4 h^2 of attention, 3 h x 8/3 h of the feed-forward part and two norms.
TEST(Scenario, TakesSizesFromAModel) {
  const auto scenario = parsed(
      "[[machines]]\n[[machines]]\nstage = 1\n[[machines]]\nstage = 2\n"
      "[model]\nhidden = 96\nlayers = 6\nheads = 4\nsequence = 10\nbatch = 2\n[sizes]\nstate_bytes = 5\n");
  EXPECT_EQ(scenario.message_bytes, 2 * 10 * 96 * 2);
  EXPECT_EQ(scenario.aggregation_bytes, 4 * 3 * (12 * 96 * 96 + 2 * 96));
  EXPECT_EQ(scenario.state_bytes, 5) << "what is given wins";
}

TEST(Scenario, FaultsOfTheNewKeysNameThePlaceAndTheRemedy) {
  const std::string good = "[[machines]]\nstage = 0\n[[machines]]\nstage = 1\n";
  const std::pair<std::string, std::string> bad[] = {
      {good + "compute_s = {uniform = [3, 2]}\n", "line 5: machines[1].compute_s.uniform must be [least, most]"},
      {good + "compute_s = {lognormal = [1, -1]}\n", "compute_s.lognormal must be [median, sigma]"},
      {good + "compute_s = {normal = [1, 1]}\n", "compute_s must be a number from 1e-06 to 1e+06, a list of such"},
      {good + "slots = 2.5\n", "slots must be a whole number"},
      {good + "count = 5000\n", "makes more than 5000 machines"},
      {good + "trace = \"no.csv\"\n", "there is no file no.csv"},
      {good + "trace = \"back.csv\"\n", "back.csv: line 2: times must rise"},
      {good + "[links]\nlatency_s = [[1, 2], [3]]\n", "there is no site \"\" in [[sites]]"},
      {good + "[links]\nlatency_s = [[1, 200]]\n", "line 6: links.latency_s holds a figure"},
      {std::string(kTwoSites) + "[churn]\nfile = \"odd.csv\"\n", "odd.csv: line 1 must be time_s,node,what"},
      {good + "[churn]\nkind = \"diurnal\"\n", "churn.by_hour is needed"},
      {good + "[churn]\nby_hour = [1, 2]\n", "must hold 24 factors"},
      {good + "[[churn.partitions]]\nfrom_s = 5\nto_s = 4\nsites = [\"x\"]\n", "to_s must be after from_s"},
      {good + "[[churn.partitions]]\nfrom_s = 3\nto_s = 4\nsites = [\"x\"]\n", "no machine is at a site \"x\""},
      {good + "[switches]\nuneven = false\n", "switches.uneven is unknown; there are early_aggregation"},
      {good + "[[islands]]\ncount = 2\n", "[[islands]] stand in a scenario of their own"},
      {"[[islands]]\ntopology = \"star\"\n", "topology must be all-reduce or syncer"},
      {"[[islands]]\nchips = 1e9\nchip_years = 0.001\n", "more than 3e7 iterations and failures"},
      {good + "[model]\nlayers = 2\nkv_heads = 16\n", "kv_heads must not be above heads"},
      {"[[sites]]\nname = \"a\"\n[[sites]]\nname = \"a\"\n" + good, "\"a\" is there already"},
  };
  for (const auto& [text, message] : bad) {
    const auto scenario = parse(text);
    ASSERT_FALSE(scenario.ok()) << text;
    EXPECT_NE(scenario.error().message.find(message), std::string::npos) << scenario.error().message;
  }
}

TEST(Conditions, ATraceSlowsOnlyTheWorkInItsTime) {
  const auto scenario = parsed("[[machines]]\n[[machines]]\nstage = 1\ntrace = \"slow.csv\"\n");
  Conditions conditions(scenario, 1);
  const auto takes = [&](double begin, double work) {
    return to_seconds(conditions.task_takes(NodeId(1), Time(seconds(begin)), seconds(work)));
  };
  EXPECT_DOUBLE_EQ(takes(0, 3), 3);
  EXPECT_DOUBLE_EQ(takes(8, 3), 2 + 2) << "two seconds as usual, one at half the speed";
  EXPECT_DOUBLE_EQ(takes(12, 6), 8 + 2) << "four in the slow eight seconds, two thereafter";
  EXPECT_DOUBLE_EQ(to_seconds(conditions.task_takes(NodeId(0), Time(seconds(12)), seconds(6))), 6);
}

TEST(Conditions, StallsTakeTheShareOfTimeThatTheirRateSays) {
  auto scenario = parsed("[[machines]]\n[[machines]]\nstage = 1\nstalls_per_hour = 360\nstall_mean_s = 5\n");
  Conditions conditions(scenario, 3);
  Time now{};
  for (int i = 0; i < 20'000; ++i) now += conditions.task_takes(NodeId(1), now, seconds(1));
  // 10 s between two stalls of 5 s.
  EXPECT_NEAR(to_seconds(now.time_since_epoch()) / 20'000, 1.5, 0.05);
}

TEST(Conditions, SharedWiresCarryOnePayloadAfterTheOther) {
  const auto scenario = parsed(kTwoSites);
  Conditions conditions(scenario, 1);
  const auto through = [&](int from, int to, double begin, double end) {
    return to_seconds(conditions.beyond_uplink(NodeId(from), NodeId(to), 1e6, Time(seconds(begin)), Time(seconds(end)))
                          .time_since_epoch());
  };
  EXPECT_DOUBLE_EQ(through(0, 1, 0, 0.1), 0.1) << "within a site nothing is shared";
  EXPECT_DOUBLE_EQ(through(0, 2, 0, 0.1), 1) << "the site's uplink is slower than the link";
  EXPECT_DOUBLE_EQ(through(1, 2, 0, 0.1), 2) << "and carries its machines' payloads in turn";
  EXPECT_DOUBLE_EQ(through(2, 3, 5, 5.5), 7) << "a downlink that is slower than the link before it";
  EXPECT_DOUBLE_EQ(through(2, 3, 6, 6.5), 9) << "and busy";
}

// Two data nodes and two stages of three relays at two sites; an iteration takes some seconds.
constexpr const char* kSmall = R"(
iterations = 8
[[machines]]
count = 2
stage = 0
site = ["north", "south"]
compute_s = 0.3
[[machines]]
count = 3
stage = 1
site = ["north", "south"]
compute_s = 0.4
slots = 3
[[machines]]
count = 3
stage = 2
site = ["north", "south"]
compute_s = 0.5
slots = 3
[links]
latency_s = 0.02
bandwidth_Bps = 2e7
[sizes]
message_bytes = 2e6
aggregation_bytes = 2e7
state_bytes = 2e7
microbatches_per_data_node = 4
)";

Rehearsal play(const std::string& more, std::uint64_t seed = 1) {
  const auto scenario = parsed(std::string(kSmall) + more);
  const auto rehearsal = rehearse(scenario, {.seed = seed});
  EXPECT_TRUE(rehearsal.ok());
  EXPECT_EQ(rehearsal->trouble, "") << more;
  EXPECT_EQ(rehearsal->iterations.size(), scenario.iterations) << more;
  for (const auto& iteration : rehearsal->iterations) EXPECT_EQ(iteration.accepted, scenario.microbatches()) << more;
  return *rehearsal;
}

std::uint32_t crashes(const Rehearsal& rehearsal) {
  std::uint32_t sum = 0;
  for (const auto& iteration : rehearsal.iterations) sum += iteration.crashes;
  return sum;
}

TEST(Trouble, OfEveryKindIsSurvivedWithEveryMicrobatch) {
  const auto calm = play("");
  std::string all_day = "[1";
  for (int hour = 1; hour < 24; ++hour) all_day += ", 1";
  all_day += "]";
  const std::string crashing[] = {
      "[churn]\nkind = \"diurnal\"\nper_node_hour = 60\naway_mean_s = 5\nby_hour = " + all_day + "\n",
      "[churn]\nkind = \"poisson\"\nper_node_hour = 60\naway_mean_s = 5\ndata_nodes = true\n",
      "[churn]\nleader_per_hour = 200\naway_mean_s = 3\n",
      "[churn.sites]\nper_hour = 100\ndown_mean_s = 4\n",
  };
  for (const auto& churn : crashing) {
    const auto troubled = play(churn);
    EXPECT_GT(crashes(troubled), 0u) << churn;
    EXPECT_GT(troubled.mean_iteration_s(), calm.mean_iteration_s()) << churn;
  }
}

TEST(Trouble, NoticeLetsASpotMachineLeaveWithoutLosingWork) {
  const std::string churn = "[churn]\nkind = \"spot\"\nper_node_hour = 60\naway_mean_s = 5\nnotice_s = ";
  const auto sudden = play(churn + "0.01\n"), warned = play(churn + "60\n");
  EXPECT_GT(crashes(sudden), crashes(warned));
  EXPECT_GT(sudden.redone_share(), warned.redone_share());
}

TEST(Trouble, WhatOnlyLooksLikeADeathIsSuspectedAndComesBack) {
  const auto calm = play("");
  EXPECT_EQ(calm.counters.false_suspicions, 0u);
  const std::string looks[] = {
      "[churn.freezes]\nper_node_hour = 100\nmean_s = 1\n",
      "[churn.delays]\nper_node_hour = 100\ndelay_s = 0.8\nmean_s = 3\n",
      "[[churn.partitions]]\nfrom_s = 20\nto_s = 22\nsites = [\"south\"]\n",
  };
  for (const auto& churn : looks) EXPECT_GT(play(churn).counters.false_suspicions, 0u) << churn;
}

TEST(Trouble, ChurnFromAFileStrikesAsWritten) {
  const auto rehearsal = play("[churn]\nfile = \"churn.csv\"\naway_mean_s = 0\n");
  EXPECT_EQ(crashes(rehearsal), 1u);
  EXPECT_EQ(rehearsal.counters.joins, play("").counters.joins + 1) << "the one that came back";
}

TEST(Trouble, MachinesThatComeLaterTakeWork) {
  const auto without = play("");
  const auto scenario = parsed(std::string(kSmall).insert(
      std::string(kSmall).find("[links]"), "[[machines]]\nstage = 2\ncompute_s = 0.2\nslots = 4\nstart_at_s = 15\n"));
  const auto with = rehearse(scenario, {});
  ASSERT_TRUE(with.ok());
  EXPECT_EQ(with->trouble, "");
  EXPECT_LT(with->iterations.back().duration_s, without.iterations.back().duration_s);
}

TEST(Trouble, UnevenMachinesAndClocksOnlyTakeTime) {
  const auto calm = play("");
  auto scenario = parsed(kSmall);
  for (std::size_t i = 0; i < scenario.machines.size(); ++i) {
    scenario.machines[i].clock_ppm = i % 2 == 0 ? 20'000 : -20'000;
    scenario.machines[i].stalls_per_hour = 100;
    scenario.machines[i].store_s = 0.1;
  }
  scenario.jitter = 0.5;
  scenario.drift_share = 0.5;
  scenario.drift_period_s = 30;
  const auto uneven = rehearse(scenario, {}), again = rehearse(scenario, {});
  ASSERT_TRUE(uneven.ok() && again.ok());
  EXPECT_EQ(uneven->trouble, "");
  EXPECT_EQ(uneven->trace_hash, again->trace_hash);
  EXPECT_EQ(uneven->redone_share(), 0) << "nobody is taken for dead";
  EXPECT_GT(uneven->mean_iteration_s(), calm.mean_iteration_s());
}

TEST(Switches, EachIdeaCanBeTurnedOffAlone) {
  const auto all = play("");
  const std::string churn = "[churn]\nkind = \"poisson\"\nper_node_hour = 60\naway_mean_s = 5\n";
  EXPECT_GE(play("[switches]\nextra_in_flight = false\n").mean_iteration_s(), 0.99 * all.mean_iteration_s());
  EXPECT_GE(play("[switches]\nuneven_shares = false\n").mean_iteration_s(), 0.99 * all.mean_iteration_s());
  const auto quick = play(churn), slow = play(churn + "[switches]\ndetection_factor = 20\n"),
             later = play(churn + "[switches]\nadmit_at_once = false\n");
  EXPECT_GT(slow.mean_iteration_s(), 1.1 * quick.mean_iteration_s());
  EXPECT_NE(later.trace_hash, quick.trace_hash);
  auto scenario = parsed(kSmall);
  // The last stage is whole first, and its sums take longest.
  scenario.aggregation_bytes = 5e7;
  for (std::size_t i = 2; i < 5; ++i) scenario.machines[i].compute_s = 1;
  for (std::size_t i = 5; i < 8; ++i)
    for (std::size_t j = 5; j < 8; ++j) scenario.bandwidth_Bps[i * 8 + j] = 5e6;
  const auto early = rehearse(scenario, {});
  scenario.switches.early_aggregation = false;
  const auto late = rehearse(scenario, {});
  ASSERT_TRUE(early.ok() && late.ok());
  EXPECT_GT(late->mean_iteration_s(), 1.02 * early->mean_iteration_s());
}

}  // namespace
}  // namespace tributary::sim
