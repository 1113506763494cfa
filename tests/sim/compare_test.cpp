#include "sim/compare.h"

#include <gtest/gtest.h>

#include <map>

namespace tributary::sim {
namespace {

Scenario small() {
  auto parsed = parse_scenario(R"(
[[machines]]
stage = 0
compute_s = 0.5
[[machines]]
count = 3
stage = 1
compute_s = 0.5
slots = 2
[[machines]]
count = 2
stage = 2
compute_s = 0.25
slots = 2
[sizes]
message_bytes = 1e6
aggregation_bytes = 1e7
state_bytes = 1e7
microbatches_per_data_node = 6
)",
                               [](const std::string&) -> Result<std::string> { return Error{"no file"}; });
  EXPECT_TRUE(parsed.ok()) << parsed.error().message;
  return std::move(*parsed);
}

CompareLine example() {
  CompareLine line;
  line.key = cell_key("scenario", "version", {"gwtf", 0.1, 3, 11});
  line.result.time_s = 1.0 / 3;
  line.result.iterations = 11;
  line.result.control_bytes = 1e17;
  line.result.trouble = "node 3 waits for \"state\"\n";
  return line;
}

TEST(Compare, ALineKeepsEveryBit) {
  const auto line = example();
  const auto back = parse_line(to_line(line));
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back->key, line.key);
  EXPECT_EQ(back->result.time_s, line.result.time_s);
  EXPECT_EQ(back->result.control_bytes, line.result.control_bytes);
  EXPECT_EQ(back->result.messages, -1);
  EXPECT_EQ(back->result.trouble, line.result.trouble);
  EXPECT_EQ(to_line(line).find('\n'), std::string::npos);
}

TEST(Compare, ADamagedLineIsAnErrorWhereverTheDamageIs) {
  const std::string good = to_line(example());
  for (std::size_t k = 0; k < good.size(); ++k) {
    std::string flipped = good;
    flipped[k] = static_cast<char>(flipped[k] ^ 1);
    EXPECT_FALSE(parse_line(flipped).ok()) << k;
    EXPECT_FALSE(parse_line(good.substr(0, k)).ok()) << k;
  }
  EXPECT_FALSE(parse_line(std::string(kMostLineBytes + 1, 'x')).ok());
}

TEST(Compare, KeysTellRunsApart) {
  const CompareCell cell{"gwtf", 0.1, 3, 11};
  const std::string key = cell_key("scenario", "version", cell);
  EXPECT_EQ(key, cell_key("scenario", "version", cell));
  EXPECT_NE(key, cell_key("Scenario", "version", cell));
  EXPECT_NE(key, cell_key("scenario", "version 2", cell));
  EXPECT_NE(key, cell_key("scenario", "version", {"ours", 0.1, 3, 11}));
  EXPECT_NE(key, cell_key("scenario", "version", {"gwtf", 0.1000000001, 3, 11}));
  EXPECT_NE(key, cell_key("scenario", "version", {"gwtf", 0.1, 4, 11}));
  EXPECT_NE(key, cell_key("scenario", "version", {"gwtf", 0.1, 3, 12}));
}

TEST(Compare, ASummaryWeighsByTime) {
  CompareResult a, b, lost;
  a.time_s = 20, a.iterations = 2, a.accepted = a.parts = 10, a.wait_s = 1, a.messages = 100, a.control_bytes = 5;
  b.time_s = 60, b.iterations = 2, b.accepted = 10, b.parts = 12, b.wait_s = 3, b.messages = 300, b.control_bytes = 7;
  lost.trouble = "it stood still";
  const auto row = summarise("protocol", 0.1, {{&a, 5}, {&b, 10}});
  EXPECT_EQ(row.runs, 2u);
  EXPECT_DOUBLE_EQ(row.iteration_s, 20);
  EXPECT_DOUBLE_EQ(row.iteration_error_s, 10);  // of 10 and 30
  EXPECT_DOUBLE_EQ(row.accepted_per_10_s, 2.5);
  EXPECT_DOUBLE_EQ(row.parts_per_10_s, 2.75);
  EXPECT_DOUBLE_EQ(row.per_accepted_s, 4);
  EXPECT_DOUBLE_EQ(row.per_accepted_error_s, 2);  // of 2 and 6
  EXPECT_DOUBLE_EQ(row.wait_s, 2);
  EXPECT_DOUBLE_EQ(row.messages, 200);
  EXPECT_DOUBLE_EQ(row.lower_bound_s, 7.5);
  const auto with = summarise("protocol", 0.1, {{&a, 5}, {&lost, 5}});
  EXPECT_EQ(with.runs, 1u);
  EXPECT_EQ(with.troubles, std::vector<std::string>{"it stood still"});
  EXPECT_EQ(with.iteration_s, 10);
  EXPECT_EQ(summarise("ours", 0, {{&a, 5}, {&b, 0}}).lower_bound_s, 0);
}

// Every policy's cell: the parts add up to the iteration, and the drawn iteration is whole.
TEST(Compare, PartsAddUpAndTimelinesHoldEveryPass) {
  const Scenario scenario = small();
  for (const auto& policy : compare_policies())
    for (const double churn : {0.0, 0.3}) {
      Timeline timeline;
      const auto result = run_cell(scenario, {policy, churn, 2, 4}, &timeline);
      ASSERT_TRUE(result.ok()) << result.error().message;
      ASSERT_EQ(result->trouble, "");
      const double parts = result->wait_s + result->transfer_s + result->compute_s + result->last_s + result->end_s;
      EXPECT_NEAR(parts, result->time_s / 4, 1e-6) << policy;
      EXPECT_NEAR(result->compute_s, 0.5 * 3 + 0.25 * 3 + 0.5, 1e-6) << policy << ", churn " << churn;
      EXPECT_EQ(result->crashes > 0, churn > 0);
      EXPECT_EQ(timeline.crashes.empty(), churn == 0) << policy;
      if (churn == 0) {
        EXPECT_EQ(result->redone_share, 0) << policy;
        EXPECT_EQ(result->accepted, 4 * scenario.microbatches());
      }
      // A forward and a backward pass at both stages and the head; nobody does two things at once.
      std::map<char, int> count;
      std::map<std::uint32_t, double> free_at;
      for (const auto& bar : timeline.bars) {
        ++count[static_cast<char>(bar.kind)];
        EXPECT_LE(bar.end_s, timeline.duration_s + 1e-9);
        if (std::string_view("FHBR").find(static_cast<char>(bar.kind)) == std::string_view::npos) continue;
        EXPECT_GE(bar.begin_s, free_at[bar.node] - 1e-9) << policy;
        free_at[bar.node] = bar.end_s;
      }
      EXPECT_EQ(count['F'], 12) << policy;
      EXPECT_EQ(count['H'], 6) << policy;
      EXPECT_EQ(count['B'], 12) << policy;
      EXPECT_GE(count['S'], churn == 0 ? 5 : 2) << policy;
      if (churn == 0) {
        EXPECT_EQ(count['R'], 0) << policy;
        EXPECT_EQ(count['A'], 18) << policy;
        EXPECT_EQ(count['G'], 18) << policy;
      }
      const auto paths = paths_of(scenario, timeline);
      ASSERT_EQ(paths.size(), 6u) << policy;
      for (const auto& path : paths)
        for (std::size_t stage = 0; stage < 3; ++stage) {
          ASSERT_NE(path[stage], Bar::kNone) << policy;
          EXPECT_EQ(scenario.machines[path[stage]].stage, stage);
        }
    }
}

TEST(Compare, PoliciesAreCheckedByName) {
  for (const auto& policy : compare_policies()) EXPECT_TRUE(check_policy(policy).ok());
  EXPECT_TRUE(check_policy("protocol/gwtf").ok());
  EXPECT_FALSE(check_policy("protocol/").ok());
  EXPECT_FALSE(check_policy("protocol/luck").ok());
  const auto wrong = run_cell(small(), {"luck", 0, 1, 1});
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().message.find("swarm-refusing"), std::string::npos);
}

}  // namespace
}  // namespace tributary::sim
