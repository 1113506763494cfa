// What the log means: a fold of decisions into the ledger that every node works from. Pure functions.
#pragma once
#include "wire/messages.h"

namespace tributary::swarm {

// Applies one decision. One that does not fit (another epoch, another iteration) changes nothing but the index: that is
// what makes a commit unique for its (epoch, iteration), whatever two leaders proposed.
void apply_decision(wire::Ledger& ledger, const wire::Decision& decision);

// The plan's member of that id, or null.
const wire::Member* member_of(const wire::Plan& plan, NodeId node);

// Contribution keys: m for parts 0..S, M + m for the head.
inline std::uint32_t key_of(PartId part, MicrobatchId microbatch, std::uint32_t stages, std::uint32_t microbatches) {
  return microbatch.value() + (part.value() == stages + 1 ? microbatches : 0);
}

// All keys of a stage but those of excluded microbatches, ascending.
std::vector<std::uint32_t> full_set(StageId stage, std::uint32_t microbatches,
                                    const std::vector<MicrobatchId>& excluded);
std::uint64_t hash_of(const std::vector<std::uint32_t>& keys);

}  // namespace tributary::swarm
