// `train` with relays: starts the configuration's nodes as processes of this machine, watches them, strikes them as the
// churn schedule says, starts the fallen again, and shows the swarm's progress.
#pragma once
#include "app/commands.h"
#include "app/run_folder.h"
#include "app/workload.h"

namespace tributary::app {

// Returns an exit code. The run resumes with the same command.
int train_swarm(const TrainArguments& arguments, const Workload& work, RunFolder& folder);

}  // namespace tributary::app
