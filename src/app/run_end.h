// What follows training, in one process or in many: the held-out loss of a checkpoint and the finished model's folder.
#pragma once
#include "app/progress.h"
#include "app/run_folder.h"
#include "app/workload.h"

namespace tributary::app {

// The held-out loss of a state in `compute` (which holds all stages), said and written to the metrics. Nothing if the
// held-out text is shorter than one batch.
Result<void> evaluate(const Workload& work, RunFolder& folder, Progress& progress, node::TorchCompute& compute,
                      std::uint64_t done);

// Says a held-out loss and writes it to the metrics.
Result<void> report_held_out(const Workload& work, RunFolder& folder, Progress& progress, std::uint64_t done,
                             double loss);

// The same of a checkpoint on disk.
Result<void> evaluate_checkpoint(const Workload& work, RunFolder& folder, Progress& progress, std::uint64_t done);

// Writes runs/NAME/model/ from the newest checkpoint and says the weights' SHA-256.
Result<void> write_model(const Workload& work, RunFolder& folder, Progress& progress);

// One line: family, parameters, stages, tokens of text.
std::string describe(const Workload& work);

}  // namespace tributary::app
