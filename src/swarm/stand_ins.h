// Who does a relay's microbatches first when it dies: an even spread over its stage, chosen in advance from the plan
// alone, so that neighbours who know of the same death choose the same stand-in without a word.
#pragma once
#include <vector>

#include "wire/messages.h"

namespace tributary::swarm {

// By microbatch: the relay of `stage` that takes over from the one on the microbatch's path. The others of the stage
// get shares in proportion to what the plan gives them, which is what it thinks of their speed; one that has no path
// yet counts as an average one. Empty for a stage with one relay, and for stage 0.
std::vector<NodeId> choose_stand_ins(const wire::Plan& plan, StageId stage);

}  // namespace tributary::swarm
