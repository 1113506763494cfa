#include "swarm/chains.h"

#include <utility>

namespace tributary::swarm {
namespace {

struct Unit {
  NodeId next;
  std::uint32_t next_id = 0;
  std::uint32_t left = 0;
};
using Units = std::multimap<std::pair<NodeId, std::uint32_t>, Unit>;  // by node and id

constexpr std::uint32_t kMostUnits = 4096;  // of one piece

}  // namespace

Chains string_chains(std::uint16_t stages, const std::map<NodeId, StageId>& stage_of,
                     const std::map<NodeId, std::vector<wire::FlowPiece>>& pieces) {
  Units units;
  for (const auto& [node, list] : pieces) {
    const auto at = stage_of.find(node);
    if (at == stage_of.end()) continue;
    const auto next_stage = (at->second.value() + 1u) % (stages + 1u);
    for (const auto& piece : list) {
      const auto next = stage_of.find(piece.next);
      if (next == stage_of.end() || next->second.value() != next_stage) continue;
      units.emplace(std::pair(node, piece.id), Unit{piece.next, piece.next_id, std::min(piece.units, kMostUnits)});
    }
  }
  const auto take = [&](NodeId node, std::uint32_t id) -> const Unit* {
    const auto [from, to] = units.equal_range({node, id});
    for (auto at = from; at != to; ++at)
      if (at->second.left > 0) {
        --at->second.left;
        return &at->second;
      }
    return nullptr;
  };
  Chains chains;
  for (const auto& [node, stage] : stage_of) {
    if (stage != StageId(0)) continue;
    const auto own = pieces.find(node);
    if (own == pieces.end()) continue;
    for (const auto& piece : own->second)
      for (std::uint32_t unit = 0; unit < std::min(piece.units, kMostUnits); ++unit) {
        std::vector<NodeId> path = {node};
        auto id = piece.id;
        const Unit* step = take(node, id);
        while (step && path.size() <= stages) {
          path.push_back(step->next);
          id = step->next_id;
          step = take(path.back(), id);
        }
        if (!step || path.size() != stages + 1u) continue;
        path.push_back(node);
        chains[node].push_back(std::move(path));
      }
  }
  return chains;
}

}  // namespace tributary::swarm
