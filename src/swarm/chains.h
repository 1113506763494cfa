// The leader's share of a local router: it strings the pieces of flows in the reports to whole ways. It judges none.
#pragma once
#include <map>
#include <vector>

#include "wire/messages.h"

namespace tributary::swarm {

using Chains = std::map<NodeId, std::vector<std::vector<NodeId>>>;  // by data node: [data node, relays, data node] each

// `stage_of`: of the nodes that the next plan has in full; pieces of others, and of others to them, are left out, and
// so is what does not lead through one relay of each stage and back to a data node. Each unit is in one chain at most.
// A chain that ends at another data node than its own (units that are not told apart) is led back to its own. In order
// of the data nodes' pieces. Pure.
Chains string_chains(std::uint16_t stages, const std::map<NodeId, StageId>& stage_of,
                     const std::map<NodeId, std::vector<wire::FlowPiece>>& pieces);

}  // namespace tributary::swarm
