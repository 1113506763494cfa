// Three faults once hid as slowness: everybody waited for a word that nobody would send, until a time-out of some ten
// or sixty seconds asked again. Here machines crash and come back at many instants around those faults, and nothing may
// stand still for longer than it takes to notice a death. Time is virtual: the same figures on every machine.
#include <gtest/gtest.h>

#include <cstdio>

#include "sim/idle.h"
#include "sim/rehearsal.h"

namespace tributary::sim {
namespace {

constexpr double kMostIdleS = 3;  // a death is noticed within two seconds here

Scenario parse(const std::string& text) {
  auto parsed = parse_scenario(text, [](const std::string&) -> Result<std::string> { return Error{"no file"}; });
  EXPECT_TRUE(parsed.ok()) << parsed.error().message;
  return std::move(*parsed);
}

struct Strike {
  double at_s = 0;  // since the first iteration that counts began
  std::uint32_t node = 0;
  const char* what = "";
};
struct Troubled {
  double idle_s = 0, duration_s = 0;  // of that iteration
  std::uint32_t crashes = 0;
};
class Rehearsed {
 public:
  explicit Rehearsed(Scenario scenario) : scenario_(std::move(scenario)) {
    const auto calm = rehearse(scenario_, {});
    EXPECT_EQ(calm->trouble, "");
    start_s_ = calm->iterations.front().start_s;
    duration_s_ = calm->iterations.front().duration_s;
    EXPECT_LT(calm->iterations.front().idle_s, 0.5);
  }
  double calm_s() const { return duration_s_; }
  Troubled with(const std::vector<Strike>& strikes) const {
    Scenario scenario = scenario_;
    for (const auto& strike : strikes)
      scenario.churn.trace.push_back({start_s_ + strike.at_s, strike.node, strike.what});
    const auto run = rehearse(scenario, {});
    EXPECT_EQ(run->trouble, "");
    const auto& first = run->iterations.front();
    return {first.idle_s, first.duration_s, first.crashes};
  }

 private:
  Scenario scenario_;
  double start_s_ = 0, duration_s_ = 0;
};

TEST(Idle, TheLongestGapIsThatBetweenSpans) {
  const auto gap = [](std::vector<Span> spans) { return longest_gap(std::move(spans), 10, 20); };
  EXPECT_EQ(gap({}).end_s - gap({}).begin_s, 10);
  const Span end = gap({{14, 15}, {5, 12}, {11, 13}});
  EXPECT_EQ(end.begin_s, 15);
  EXPECT_EQ(end.end_s, 20);
  // An instant cuts a gap; what lasts longer hides what lies in it; what comes later does not count.
  const Span cut = gap({{10, 11}, {16, 16}, {16, 30}, {12, 17}, {25, 26}});
  EXPECT_EQ(cut.begin_s, 11);
  EXPECT_EQ(cut.end_s, 12);
}

// A stand-in asks the relay before it for the activation, and that relay dies unanswered. Its own stand-in, chosen by
// the data node, must then be asked as soon as it shows itself.
TEST(Stall, AStandInAsksWhoeverTookOverBeforeIt) {
  // Node 1 is far from the others of its kind, so that they notice its death later than the data node does.
  const Rehearsed swarm(parse(R"(
iterations = 1
[[machines]]
stage = 0
site = "near"
compute_s = 4
slots = 4
[[machines]]
stage = 1
site = "far"
compute_s = 1
[[machines]]
stage = 1
site = "home"
compute_s = 1
[[machines]]
count = 2
stage = 2
site = "home"
compute_s = 0.2
[[sites]]
name = "near"
[[sites]]
name = "far"
[[sites]]
name = "home"
[links]
latency_s = [[0.01, 0.01, 0.01], [0.01, 0.01, 0.6], [0.01, 0.6, 0.01]]
bandwidth_Bps = 1e6
[sizes]
message_bytes = 1e5
aggregation_bytes = 1e5
state_bytes = 1e5
microbatches_per_data_node = 2
[switches]
move_relays = false
)"));
  // Around the end of the second head, when the gradient looks for the dead relay's stand-in.
  for (const std::uint32_t node : {3u, 4u})
    for (double crash = 7; crash < 10.5; crash += 0.3)
      for (const double later : {0.3, 0.6}) {
        const auto run = swarm.with({{crash, node, "crash"}, {crash + later, 1, "crash"}});
        EXPECT_EQ(run.crashes, 2u);
        EXPECT_LT(run.idle_s, kMostIdleS) << "node " << node << " at " << crash << ", node 1 " << later << " later";
      }
}

// Stage 2 has summed long before stage 1 ends. A relay of it dies and comes back: what it held is another's now.
class SummedBefore : public testing::Test {
 protected:
  const Rehearsed swarm_{parse(R"(
iterations = 1
[[machines]]
stage = 0
compute_s = 0.1
slots = 4
[[machines]]
count = 4
stage = 1
compute_s = 2
slots = 3
[[machines]]
count = 3
stage = 2
compute_s = 0.2
slots = 3
[links]
latency_s = 0.1
bandwidth_Bps = 2e6
[sizes]
message_bytes = 2e5
aggregation_bytes = 1e7
state_bytes = 1e6
microbatches_per_data_node = 6
[switches]
move_relays = false
)")};

  // One relay crashes `at` and comes back, another one does so `later`; with `before`, that one had done so already.
  void expect_no_stall(bool before) const {
    for (double at = 7; at < 12; at += 1.2)
      for (const double later : {1.0, 2.5, 4.0})
        for (const double away : {3.0, 5.0}) {
          std::vector<Strike> strikes;
          if (before) strikes = {{1.5, 5, "crash"}, {3.8, 5, "start"}};
          const double second = at + 3.1 + later;
          strikes.insert(strikes.end(), {{at, 7, "crash"}, {at + 3.1, 7, "start"}});
          strikes.insert(strikes.end(), {{second, 5, "crash"}, {second + away, 5, "start"}});
          const auto run = swarm_.with(strikes);
          EXPECT_GE(run.crashes, before ? 3u : 2u);
          EXPECT_LT(run.idle_s, kMostIdleS) << "at " << at << ", the next " << later << " after it was back";
          EXPECT_LT(run.duration_s, 2 * swarm_.calm_s());
        }
  }
};

// The measure itself: with the only data node at a stand nothing goes on once the relays have done what they had.
TEST_F(SummedBefore, IdleTimeShowsAStandstill) {
  const auto run = swarm_.with({{8, 0, "freeze"}, {38, 0, "thaw"}});
  EXPECT_GT(run.idle_s, 15);
  EXPECT_LT(run.idle_s, 30.5);
  EXPECT_GT(run.duration_s, swarm_.calm_s() + run.idle_s - 1);
}

// What its former life had been given, its next one does not have.
TEST_F(SummedBefore, ANewLifeIsGivenWhatTheFormerOneHeld) { expect_no_stall(false); }
// A range that others have the result of is given to its new owner in place of partial sums.
TEST_F(SummedBefore, ResultsComeInPlaceOfPartialSums) { expect_no_stall(true); }

}  // namespace
}  // namespace tributary::sim
