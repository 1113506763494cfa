#include "swarm/chains.h"

#include <gtest/gtest.h>

namespace tributary::swarm {
namespace {

NodeId n(std::uint32_t id) { return NodeId(id); }
// Data nodes 0 and 1, relays 2 and 3 of stage 1, 4 and 5 of stage 2.
const std::map<NodeId, StageId> kStages = {{n(0), StageId(0)}, {n(1), StageId(0)}, {n(2), StageId(1)},
                                           {n(3), StageId(1)}, {n(4), StageId(2)}, {n(5), StageId(2)}};
using Path = std::vector<NodeId>;

TEST(Chains, FollowUnitsHomeAndUseEachOnce) {
  const auto chains = string_chains(2, kStages,
                                    {{n(0), {{1, n(2), 1}, {2, n(3), 7}}},
                                     {n(1), {{1, n(3), 7}}},  // the same unit as the other data node's
                                     {n(2), {{1, n(4), 3}}},
                                     {n(3), {{7, n(4), 4}}},
                                     {n(4), {{3, n(0), 9}, {4, n(0), 10}}}});
  ASSERT_EQ(chains.size(), 1u);
  const std::vector<Path> expected = {{n(0), n(2), n(4), n(0)}, {n(0), n(3), n(4), n(0)}};
  EXPECT_EQ(chains.at(n(0)), expected);
}

TEST(Chains, LeaveOutWhatIsBrokenOrSkipsAStage) {
  const auto chains = string_chains(2, kStages,
                                    {{n(0), {{1, n(2), 1}, {2, n(4), 1}, {3, n(9), 1}, {4, n(3), 5}}},
                                     {n(2), {{1, n(5), 1}}},    // whose relay says nothing
                                     {n(3), {{5, n(3), 5}}}});  // to itself
  EXPECT_TRUE(chains.empty());
}

TEST(Chains, UnitsThatAreNotToldApartComeHomeToTheirOwnDataNode) {
  const auto chains = string_chains(2, kStages,
                                    {{n(0), {{0, n(2), 0, 2}}},
                                     {n(2), {{0, n(4), 0, 1}, {0, n(5), 0, 1}}},
                                     {n(4), {{0, n(1), 0, 1}}},
                                     {n(5), {{0, n(0), 0, 0xffffffff}}}});
  const std::vector<Path> expected = {{n(0), n(2), n(4), n(0)}, {n(0), n(2), n(5), n(0)}};
  EXPECT_EQ(chains.at(n(0)), expected);
}

}  // namespace
}  // namespace tributary::swarm
