#include "swarm/placement.h"

#include <gtest/gtest.h>

#include "swarm/stand_ins.h"

namespace tributary::swarm {
namespace {

constexpr std::uint16_t kStages = 3;

RunOptions run_options() {
  RunOptions run;
  run.stages = kStages;
  run.state_sizes.assign(kStages + 1u, 1000);
  run.microbatches = 12;
  run.payload_bytes = 1000;
  return run;
}

// One data node, then three relays a stage; those of the last stage are `slowness` times as slow.
std::vector<Candidate> members(int slowness) {
  std::vector<Candidate> out;
  for (std::uint32_t i = 0; i < 1 + 3 * kStages; ++i) {
    Candidate candidate;
    const auto stage = i == 0 ? 0u : 1 + (i - 1) / 3;
    candidate.member = {NodeId(i), Incarnation(1), StageId(static_cast<std::uint16_t>(stage)), 12, false};
    candidate.forward = milliseconds(stage == kStages ? 10 * slowness : 10);
    candidate.backward = stage == 0 ? Duration::zero() : 2 * candidate.forward;
    for (std::uint32_t other = 0; other < 1 + 3 * kStages; ++other)
      if (other != i) candidate.round_trip[NodeId(other)] = milliseconds(2);
    out.push_back(std::move(candidate));
  }
  return out;
}

Placement placement(const RunOptions& run, const std::vector<Candidate>& all, const std::set<NodeId>& movable,
                    const Placement::Target& former = {}) {
  const auto plan = make_plan(run, all);
  return Placement(run, all, movable, plan.paths, plan.in_flight, former, 7);
}

std::set<NodeId> relays() {
  std::set<NodeId> out;
  for (std::uint32_t i = 1; i < 1 + 3 * kStages; ++i) out.insert(NodeId(i));
  return out;
}

TEST(Placement, SpreadsSlowMachinesOverTheStages) {
  const auto run = run_options();
  auto search = placement(run, members(5), relays());
  for (int slice = 0; slice < 100; ++slice) search.search();
  EXPECT_LT(search.best_s(), 0.7 * search.now_s());
  std::map<StageId, double> speed;
  std::map<StageId, int> count;
  for (const auto& [node, stage] : search.target().stages) {
    speed[stage] += node >= NodeId(7) ? 0.2 : 1;
    ++count[stage];
  }
  for (std::uint16_t s = 1; s <= kStages; ++s) {
    EXPECT_GE(count[StageId(s)], 2) << s;
    EXPECT_GE(speed[StageId(s)], 1.4) << s;  // the last stage had 0.6 of 6.6
  }
}

TEST(Placement, StepTakesAtMostOneFromAStageAndNobodyForAFewIterations) {
  const auto run = run_options();
  auto search = placement(run, members(5), relays());
  for (int slice = 0; slice < 50; ++slice) search.search();
  const auto moves = search.moves(1000, relays());
  ASSERT_FALSE(moves.empty());
  std::map<std::uint32_t, int> leaving;
  for (const auto& move : moves) EXPECT_EQ(++leaving[(move.node.value() - 1) / 3], 1);
  EXPECT_TRUE(search.moves(0, relays()).empty());
  // With one relay at work in each stage, nobody can be spared.
  EXPECT_TRUE(search.moves(1000, {NodeId(1), NodeId(4), NodeId(7)}).empty());
}

TEST(Placement, AGoodOneIsLeftAlone) {
  const auto run = run_options();
  auto search = placement(run, members(1), relays());
  for (int slice = 0; slice < 50; ++slice) search.search();
  EXPECT_TRUE(search.moves(1000, relays()).empty());
}

TEST(Placement, GoesOnFromTheFormerSearch) {
  const auto run = run_options();
  auto first = placement(run, members(5), relays());
  for (int slice = 0; slice < 100; ++slice) first.search();
  const auto second = placement(run, members(5), relays(), first.target());
  EXPECT_LT(second.best_s(), 1.02 * first.best_s());
}

TEST(Placement, NothingToChooseIsNoError) {
  const auto run = run_options();
  auto fixed = placement(run, members(5), {});
  fixed.search();
  EXPECT_TRUE(fixed.moves(1000, relays()).empty());
  EXPECT_TRUE(fixed.target().stages.empty());
  auto all = members(5);
  std::erase_if(all, [](const Candidate& c) { return c.member.stage == StageId(2); });
  Placement gap(run, all, relays(), {}, 4, {}, 7);
  gap.search();
  EXPECT_TRUE(gap.moves(1000, relays()).empty());
}

TEST(StandIns, SpreadADeadRelaysWorkEvenly) {
  wire::Plan plan;
  plan.members.push_back({NodeId(0), Incarnation(1), StageId(0), 4, false});
  for (std::uint32_t i = 1; i <= 3; ++i) plan.members.push_back({NodeId(i), Incarnation(1), StageId(1), 4, false});
  for (std::uint32_t m = 0; m < 12; ++m) plan.paths.push_back({NodeId(0), NodeId(1 + m % 3), NodeId(0)});
  const auto chosen = choose_stand_ins(plan, StageId(1));
  std::map<std::pair<NodeId, NodeId>, int> count;
  for (std::uint32_t m = 0; m < 12; ++m) ++count[{NodeId(1 + m % 3), chosen.at(m)}];
  for (const auto& [pair, times] : count) {
    EXPECT_NE(pair.first, pair.second);
    EXPECT_EQ(times, 2);
  }
  EXPECT_EQ(count.size(), 6u);
}

}  // namespace
}  // namespace tributary::swarm
