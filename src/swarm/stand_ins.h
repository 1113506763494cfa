// Who does a relay's microbatches first when it dies: an even spread over its stage, chosen in advance from the plan
// alone, so that neighbours who know of the same death choose the same stand-in without a word.
#pragma once
#include <map>
#include <utility>

#include "wire/messages.h"

namespace tributary::swarm {

// By (stage, microbatch): the relay that takes over from the one on the microbatch's path. The others of the stage get
// shares in proportion to what the plan gives them, which is what it thinks of their speed; one that has no path yet
// counts as an average one. A stage with one relay has no entries, stage 0 neither.
std::map<std::pair<StageId, MicrobatchId>, NodeId> choose_stand_ins(const wire::Plan& plan);

}  // namespace tributary::swarm
