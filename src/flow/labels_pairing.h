// The second part of the label router, for several data nodes: flows of interchangeable data nodes come home and get
// better ways. Internal to src/flow.
#pragma once
#include "flow/network.h"

namespace tributary::flow::labels {

struct Paired {
  Solution solution;  // its messages and rounds count this part only
};

// `paths`: from a data node to any data node. Every flow is an agent of its data node, all at work at the same time:
//  - exchange: the data nodes of two flows tell each other the hops and these hops' link costs, which their relays gave
//    them, and exchange relays where that gains (two laps along both flows);
//  - move: a wave through the stages finds the cheapest way through relays with room, from any data node with room for
//    one; a reservation along it, then the old way is given up.
// Whoever finds a flow busy, or a reservation impossible by then, lets it be and tries again later.
Paired pair_with_data_nodes(const Network& network, const std::vector<std::vector<std::uint32_t>>& paths,
                            std::uint64_t seed, int moves);

}  // namespace tributary::flow::labels
