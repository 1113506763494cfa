// What decisions mean, and the planner's choices; properties over random input.
#include "swarm/ledger.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "swarm/planner.h"

namespace tributary::swarm {
namespace {

wire::Commit commit(std::uint32_t epoch, std::uint64_t iteration, double loss = 0) {
  wire::Commit c;
  c.epoch = epoch;
  c.iteration = Iteration(iteration);
  c.loss = loss;
  return c;
}

TEST(Ledger, SecondCommitOfAnIterationChangesNothing) {
  wire::Ledger ledger;
  apply_decision(ledger, wire::Start{1, Iteration(0), {}});
  apply_decision(ledger, commit(1, 0, 0.5));
  auto after = ledger;
  apply_decision(after, commit(1, 0, 0.7));
  EXPECT_EQ(after.index, ledger.index + 1);
  after.index = ledger.index;
  EXPECT_EQ(after, ledger);
}

TEST(Ledger, DecisionsOfAnotherEpochOrIterationChangeNothing) {
  wire::Ledger ledger;
  apply_decision(ledger, wire::Start{1, Iteration(0), {}});
  apply_decision(ledger, commit(1, 0));
  apply_decision(ledger, wire::Start{2, Iteration(0), {}});
  const auto before = ledger;
  for (const wire::Decision& decision :
       {wire::Decision(commit(1, 0)), wire::Decision(commit(2, 1)), wire::Decision(wire::Start{2, Iteration(3), {}}),
        wire::Decision(wire::Start{4, Iteration(3), {}}),
        wire::Decision(wire::Exclude{1, Iteration(0), {MicrobatchId(1)}}),
        wire::Decision(wire::Exclude{2, Iteration(1), {MicrobatchId(1)}}),
        wire::Decision(wire::CheckpointComplete{1, Iteration(4)})}) {
    auto after = before;
    apply_decision(after, decision);
    after.index = before.index;
    EXPECT_EQ(after, before);
  }
}

TEST(Ledger, ExcludedStaysSortedAndEndsWithTheIteration) {
  wire::Ledger ledger;
  apply_decision(ledger, wire::Start{1, Iteration(0), {}});
  apply_decision(ledger, wire::Exclude{1, Iteration(0), {MicrobatchId(5), MicrobatchId(2)}});
  apply_decision(ledger, wire::Exclude{1, Iteration(0), {MicrobatchId(2), MicrobatchId(3)}});
  EXPECT_EQ(ledger.excluded, (std::vector{MicrobatchId(2), MicrobatchId(3), MicrobatchId(5)}));
  apply_decision(ledger, commit(1, 0));
  EXPECT_TRUE(ledger.excluded.empty());
  EXPECT_EQ(ledger.iteration, Iteration(1));
}

TEST(Ledger, KeepsTheLastTwoCommitsAndCheckpoints) {
  wire::Ledger ledger;
  apply_decision(ledger, wire::Start{1, Iteration(0), {}});
  for (std::uint64_t i = 0; i < 6; ++i) {
    apply_decision(ledger, commit(1, i));
    apply_decision(ledger, wire::CheckpointComplete{1, Iteration(i + 1)});
  }
  ASSERT_EQ(ledger.recent.size(), 2u);
  EXPECT_EQ(ledger.recent.back().iteration, Iteration(5));
  EXPECT_EQ(ledger.checkpoints, (std::vector{Iteration(5), Iteration(6)}));
  apply_decision(ledger, wire::Start{2, Iteration(5), {}});
  EXPECT_EQ(ledger.checkpoints, std::vector{Iteration(5)}) << "a later one belongs to the past that was left";
  EXPECT_EQ(ledger.iteration, Iteration(5));
}

TEST(FullSet, HasEachContributionOnceButTheExcluded) {
  EXPECT_EQ(full_set(StageId(1), 3, {MicrobatchId(1)}), (std::vector<std::uint32_t>{0, 2}));
  EXPECT_EQ(full_set(StageId(0), 3, {MicrobatchId(1)}), (std::vector<std::uint32_t>{0, 2, 3, 5}));
  EXPECT_EQ(key_of(PartId(0), MicrobatchId(2), 4, 8), 2u);
  EXPECT_EQ(key_of(PartId(4), MicrobatchId(2), 4, 8), 2u);
  EXPECT_EQ(key_of(PartId(5), MicrobatchId(2), 4, 8), 10u) << "the head's";
  EXPECT_NE(hash_of({1, 2}), hash_of({1, 3}));
}

TEST(Shares, CoverTheVectorOnceCutAtBlocks) {
  EXPECT_TRUE(rc::check([] {
    const auto size = *rc::gen::inRange<std::uint64_t>(1, 100000);
    const auto block = *rc::gen::element<std::uint64_t>(1, 4, 4096);
    const auto owners = *rc::gen::inRange<std::uint32_t>(1, 20);
    wire::Plan plan;
    std::vector<Candidate> candidates(owners);
    std::vector<const Candidate*> members;
    for (std::uint32_t i = 0; i < owners; ++i) {
      candidates[i].member = {NodeId(i), Incarnation(1), StageId(1), 1, false};
      for (std::uint32_t to = 0; to < owners; ++to)
        if (*rc::gen::arbitrary<bool>()) candidates[i].bytes_per_s[NodeId(to)] = *rc::gen::inRange(1, 1000) * 1e5;
      members.push_back(&candidates[i]);
      plan.members.push_back(candidates[i].member);
    }
    weigh_shares(members, plan);
    RunOptions run;
    run.state_sizes = {1, size};
    run.block = block;
    run.state_scale = *rc::gen::element(1.0, 1e6);
    auto shares = make_shares(run, plan, StageId(1));
    RC_ASSERT(!shares.empty() && shares.size() <= kMostPieces);
    std::sort(shares.begin(), shares.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
    std::uint64_t at = 0;
    for (const auto& share : shares) {
      RC_ASSERT(share.begin == at && share.end > share.begin);
      RC_ASSERT(share.begin % block == 0);
      at = share.end;
    }
    RC_ASSERT(at == size);
  }));
}

TEST(Shares, ASlowUplinkSumsLess) {
  wire::Plan plan;
  std::vector<Candidate> candidates(3);
  std::vector<const Candidate*> members;
  for (std::uint32_t i = 0; i < 3; ++i) {
    candidates[i].member = {NodeId(i), Incarnation(1), StageId(1), 1, false};
    for (std::uint32_t to = 0; to < 3; ++to)
      if (to != i) candidates[i].bytes_per_s[NodeId(to)] = i == 2 ? 1e6 : 1e8;
    members.push_back(&candidates[i]);
    plan.members.push_back(candidates[i].member);
  }
  weigh_shares(members, plan);
  EXPECT_GT(plan.members[0].share, 1000);
  EXPECT_GT(plan.members[1].share, 1000);
  // It sends its sum of the others' ranges anyway; of its own range it would have to send the result to both.
  EXPECT_LT(plan.members[2].share, 4096 / 50);
  for (auto& candidate : candidates)
    for (auto& [to, rate] : candidate.bytes_per_s) rate = 1e7;
  weigh_shares(members, plan);
  EXPECT_EQ(plan.members[2].share, 1366) << "equal links, equal ranges";
}

TEST(Planner, EveryPathTakesOneMemberOfEachStage) {
  EXPECT_TRUE(rc::check([] {
    RunOptions run;
    run.stages = *rc::gen::inRange<std::uint16_t>(1, 6);
    run.microbatches = *rc::gen::inRange<std::uint32_t>(1, 40);
    std::vector<Candidate> candidates;
    std::uint32_t id = 0;
    for (std::uint16_t s = 0; s <= run.stages; ++s) {
      const auto count = *rc::gen::inRange(1, 5);
      for (int i = 0; i < count; ++i) {
        Candidate c;
        // The first of each stage is no listener, or there is no plan.
        c.member = {NodeId(id++), Incarnation(1), StageId(s), *rc::gen::inRange<std::uint16_t>(1, 5),
                    i > 0 && *rc::gen::arbitrary<bool>()};
        c.forward = milliseconds(*rc::gen::inRange(0, 300));
        candidates.push_back(c);
      }
    }
    const auto plan = make_plan(run, candidates);
    RC_ASSERT(plan.members.size() == candidates.size());
    RC_ASSERT(plan.paths.size() == run.microbatches);
    RC_ASSERT(plan.in_flight >= 1);
    for (const auto& path : plan.paths) {
      RC_ASSERT(path.size() == run.stages + 2u && path.front() == path.back());
      for (std::size_t p = 0; p + 1 < path.size(); ++p) {
        const auto* member = member_of(plan, path[p]);
        RC_ASSERT(member && !member->listener && member->stage.value() == p);
      }
    }
  }));
}

Candidate relay(std::uint32_t id, std::uint16_t stage, int forward_ms) {
  Candidate c;
  c.member = {NodeId(id), Incarnation(1), StageId(stage), 4, false};
  c.forward = milliseconds(forward_ms);
  return c;
}

TEST(Planner, FastRelaysGetMore) {
  RunOptions run;
  run.microbatches = 12;
  const auto plan = make_plan(run, {relay(0, 0, 0), relay(1, 1, 20), relay(2, 1, 60)});
  std::map<NodeId, int> load;
  for (const auto& path : plan.paths) ++load[path[1]];
  EXPECT_EQ(load[NodeId(1)], 9);
  EXPECT_EQ(load[NodeId(2)], 3);
}

TEST(Planner, NewcomerGetsWorkThoughItsSpeedIsUnknown) {
  RunOptions run;
  run.microbatches = 6;
  const auto plan = make_plan(run, {relay(0, 0, 0), relay(1, 1, 5), relay(2, 1, 0)});
  int load = 0;
  for (const auto& path : plan.paths) load += path[1] == NodeId(2);
  EXPECT_EQ(load, 3);
}

TEST(Planner, NewRelayGoesWhereTheLeastIsDone) {
  RunOptions run;
  run.stages = 3;
  const std::vector<Candidate> members = {relay(1, 1, 20), relay(2, 1, 20), relay(3, 2, 20),
                                          relay(4, 2, 90), relay(5, 3, 20), relay(6, 3, 20)};
  EXPECT_EQ(neediest_stage(run, members), StageId(2));
}

}  // namespace
}  // namespace tributary::swarm
