// The log of decisions alone, among voters that crash, on disks that lose what was not synced.
#include "swarm/raft.h"

#include <gtest/gtest.h>

#include "swarm/ledger.h"
#include "swarm/raft_net.h"

namespace tributary::swarm {
namespace {

class RaftOf : public testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Voters, RaftOf, testing::Values(1, 3, 5));

TEST_P(RaftOf, ElectsOneLeaderAndAllLearnItsDecisions) {
  RaftNet net(GetParam(), 1);
  ASSERT_TRUE(net.reach([&] { return net.leader() != nullptr; }));
  ASSERT_TRUE(net.propose(1));
  EXPECT_TRUE(net.reach([&] {
    for (const auto id : net.voters())
      if (net.raft(id)->ledger().epoch != 1) return false;
    return true;
  }));
  EXPECT_EQ(net.leaders().size(), 1u);
  for (const auto id : net.voters()) EXPECT_EQ(net.raft(id)->leader(), net.leaders().front());
}

TEST_P(RaftOf, ForgetsNoDecisionWhenAllCrash) {
  RaftNet net(GetParam(), 2);
  ASSERT_TRUE(net.reach([&] { return net.leader() != nullptr; }));
  // More than a log keeps, so that the snapshot is restored too.
  for (std::uint64_t value = 1; value <= Raft::kKeptEntries + 20; ++value) {
    ASSERT_TRUE(net.propose(value));
    ASSERT_TRUE(net.reach([&] { return net.leader() && net.leader()->ledger().epoch == value; }));
  }
  for (const auto id : net.voters()) net.crash(id);
  for (const auto id : net.voters()) net.start(id);
  ASSERT_TRUE(net.reach([&] { return net.leader() != nullptr; }));
  EXPECT_EQ(net.leader()->ledger().epoch, Raft::kKeptEntries + 20);
  EXPECT_EQ(net.violation(), "");
}

TEST(Raft, AnotherLeadsWhenTheLeaderDies) {
  RaftNet net(3, 3);
  ASSERT_TRUE(net.reach([&] { return net.leader() != nullptr; }));
  ASSERT_TRUE(net.propose(1));
  ASSERT_TRUE(net.reach([&] { return net.leader()->ledger().epoch == 1; }));
  const auto dead = net.leaders().front();
  const auto term = net.leader()->term();
  net.crash(dead);
  const auto since = net.now();
  ASSERT_TRUE(net.reach([&] { return net.leader() != nullptr; }));
  EXPECT_LT(net.now() - since, seconds(4));
  EXPECT_GT(net.leader()->term(), term);
  EXPECT_EQ(net.leader()->ledger().epoch, 1u);
}

TEST(Raft, WithoutMajorityNothingIsDecided) {
  RaftNet net(5, 4);
  ASSERT_TRUE(net.reach([&] { return net.leader() != nullptr; }));
  const auto leader = net.leaders().front();
  std::vector<NodeId> others;
  for (const auto id : net.voters())
    if (id != leader) others.push_back(id);
  for (int i = 0; i < 3; ++i) net.crash(others[static_cast<std::size_t>(i)]);
  const auto before = net.committed();
  net.raft(leader)->propose(net.now(), RaftNet::decision(1));
  net.run(seconds(10));
  EXPECT_EQ(net.committed(), before);
  EXPECT_TRUE(net.leaders().empty()) << "a leader that reaches no majority steps down (CheckQuorum)";
  net.start(others[0]);
  EXPECT_TRUE(net.reach([&] { return net.leader() != nullptr; }));
}

TEST(Raft, VoterThatWasCutOffDoesNotUnseatTheLeader) {
  RaftNet net(3, 5);
  ASSERT_TRUE(net.reach([&] { return net.leader() != nullptr; }));
  const auto leader = net.leaders().front();
  const auto term = net.raft(leader)->term();
  const auto lonely = net.voters()[leader == net.voters()[0] ? 1 : 0];
  for (const auto id : net.voters()) {
    net.blocked.insert({id, lonely});
    net.blocked.insert({lonely, id});
  }
  net.run(seconds(10));
  EXPECT_EQ(net.raft(lonely)->term(), term) << "PreVote: asking does not raise the term";
  net.blocked.clear();
  net.run(seconds(5));
  EXPECT_EQ(net.leaders(), std::vector{leader});
  EXPECT_EQ(net.raft(leader)->term(), term);
}

TEST(Raft, FollowerThatMissedMoreThanTheLogKeepsGetsASnapshot) {
  RaftNet net(3, 6);
  ASSERT_TRUE(net.reach([&] { return net.leader() != nullptr; }));
  const auto behind = net.voters()[net.leaders().front() == net.voters()[2] ? 1 : 2];
  net.crash(behind);
  const auto count = Raft::kKeptEntries * 2;
  for (std::uint64_t value = 1; value <= count; ++value) {
    ASSERT_TRUE(net.propose(value));
    ASSERT_TRUE(net.reach([&] { return net.leader() && net.leader()->ledger().epoch == value; }));
  }
  net.start(behind);
  EXPECT_TRUE(net.reach([&] { return net.raft(behind)->ledger().epoch == count; }));
  EXPECT_EQ(net.violation(), "");
}

TEST(Raft, PromisesOnlyWhatTheDiskHas) {
  const std::vector<NodeId> voters = {NodeId(0), NodeId(1), NodeId(2)};
  Raft raft(RaftOptions{.self = NodeId(0), .voters = voters}, {}, Random(1), Time{});
  raft.receive(Time{}, NodeId(1), wire::VoteRequest{3, false, 0, 0});
  ASSERT_TRUE(raft.take_dirty());
  EXPECT_TRUE(raft.take_messages().empty()) << "the vote is not synced yet";
  raft.stored(Time{}, raft.store_sequence());
  const auto votes = raft.take_messages();
  ASSERT_EQ(votes.size(), 1u);
  EXPECT_TRUE(std::get<wire::VoteReply>(votes[0].second).granted);

  wire::AppendRequest request;
  request.term = 3;
  request.entries = {{3, wire::NewTerm{}}};
  raft.receive(Time{}, NodeId(1), request);
  ASSERT_TRUE(raft.take_dirty());
  const auto early = raft.store_sequence();
  EXPECT_TRUE(raft.take_messages().empty()) << "the entry is not synced yet";
  raft.stored(Time{}, early - 1);
  EXPECT_TRUE(raft.take_messages().empty()) << "an older write does not vouch for it";
  raft.stored(Time{}, early);
  ASSERT_EQ(raft.take_messages().size(), 1u);
}

TEST(Raft, VotesOnceATermEvenAcrossARestart) {
  const std::vector<NodeId> voters = {NodeId(0), NodeId(1), NodeId(2)};
  const RaftOptions options{.self = NodeId(0), .voters = voters};
  Raft raft(options, {}, Random(1), Time{});
  raft.receive(Time{}, NodeId(1), wire::VoteRequest{3, false, 0, 0});
  ASSERT_TRUE(raft.take_dirty());
  const auto disk = raft.durable();
  Raft again(options, disk, Random(2), Time{});
  again.receive(Time{}, NodeId(2), wire::VoteRequest{3, false, 0, 0});
  for (const auto& [to, body] : again.take_messages()) EXPECT_FALSE(std::get<wire::VoteReply>(body).granted);
}

TEST(Raft, VotesForNobodyWhoseLogIsShorter) {
  const std::vector<NodeId> voters = {NodeId(0), NodeId(1), NodeId(2)};
  wire::DurableLog disk;
  disk.term = 2;
  disk.entries = {{1, wire::NewTerm{}}, {2, wire::NewTerm{}}};
  Raft raft(RaftOptions{.self = NodeId(0), .voters = voters}, disk, Random(1), Time{});
  const auto granted = [&](std::uint64_t term, std::uint64_t last_index, std::uint64_t last_term) {
    raft.receive(Time{}, NodeId(1), wire::VoteRequest{term, true, last_index, last_term});
    raft.take_dirty();
    raft.stored(Time{}, raft.store_sequence());
    const auto messages = raft.take_messages();
    return std::get<wire::VoteReply>(messages.back().second).granted;
  };
  EXPECT_FALSE(granted(3, 1, 2));
  EXPECT_FALSE(granted(3, 9, 1)) << "longer, but of an older term";
  EXPECT_TRUE(granted(3, 2, 2));
  EXPECT_FALSE(granted(2, 2, 2)) << "no newer term";
}

TEST(Raft, StrangersHaveNoVoice) {
  const std::vector<NodeId> voters = {NodeId(0), NodeId(1), NodeId(2)};
  Raft raft(RaftOptions{.self = NodeId(0), .voters = voters}, {}, Random(1), Time{});
  raft.receive(Time{}, NodeId(9), wire::VoteRequest{7, false, 5, 5});
  raft.receive(Time{}, NodeId(9), wire::AppendRequest{7, 0, 0, {}, 0, {}});
  EXPECT_EQ(raft.term(), 0u);
  EXPECT_FALSE(raft.take_dirty());
  EXPECT_TRUE(raft.take_messages().empty());
}

// Crashes, restarts, loss and one-way blocks at random: never two leaders of a term, never two decisions at an index,
// and with everybody back, progress.
void churn(RaftNet& net, std::uint64_t& value) {
  for (int i = 0; i < 60 && net.violation().empty(); ++i) {
    const auto id = net.random().pick(net.voters());
    switch (net.random().below(5)) {
      case 0:
        net.crash(id);
        break;
      case 1:
        if (!net.raft(id)) net.start(id);
        break;
      case 2:
        net.blocked.insert({id, net.random().pick(net.voters())});
        break;
      case 3:
        net.blocked.clear();
        break;
      default:
        net.propose(++value);
    }
    net.run(milliseconds(net.random().between(1, 400)));
  }
}

TEST(Raft, KeepsItsPromisesUnderChurn) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    RaftNet net(seed % 2 ? 3 : 5, seed);
    net.loss = 0.1;
    std::uint64_t value = 0;
    churn(net, value);
    ASSERT_EQ(net.violation(), "") << "seed " << seed;
    net.blocked.clear();
    for (const auto id : net.voters())
      if (!net.raft(id)) net.start(id);
    const auto before = net.committed();
    ASSERT_TRUE(net.reach([&] { return net.leader() != nullptr; })) << "seed " << seed;
    net.propose(++value);
    ASSERT_TRUE(net.reach([&] { return net.committed() > before; })) << "seed " << seed;
    EXPECT_EQ(net.violation(), "") << "seed " << seed;
  }
}

TEST(Raft, ChurnFindsADiskThatLies) {
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    RaftNet net(3, seed);
    net.loss = 0.1;
    net.disk_lies = true;
    net.store_time = milliseconds(60);
    std::uint64_t value = 0;
    churn(net, value);
    if (!net.violation().empty()) return;
  }
  FAIL() << "lost writes broke no rule in 400 histories: the test is blind";
}

}  // namespace
}  // namespace tributary::swarm
