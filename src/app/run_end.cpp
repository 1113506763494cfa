#include "app/run_end.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "model/checkpoint.h"

namespace tributary::app {
namespace {

model::CheckpointKey checkpoint_key(const Workload& work, const RunFolder& folder) {
  return {folder.checkpoints(), work.shape, work.cut};
}

}  // namespace

Result<void> report_held_out(const Workload& work, RunFolder& folder, Progress& progress, std::uint64_t done,
                             double loss) {
  const double bits = work.bits_per_byte(loss);
  char text[96];
  std::snprintf(text, sizeof text, "after iteration %llu: held-out loss %.4f, %.4f bits per byte",
                static_cast<unsigned long long>(done), loss, bits);
  progress.say(text);
  const nlohmann::ordered_json line = {
      {"iteration", done == 0 ? 0 : done - 1}, {"held_out_loss", loss}, {"bits_per_byte", bits}};
  return folder.write_metrics(line.dump());
}

Result<void> evaluate(const Workload& work, RunFolder& folder, Progress& progress, node::TorchCompute& compute,
                      std::uint64_t done) {
  if (work.held_out_batches() == 0) return {};
  double sum = 0;
  for (std::uint32_t batch = 0; batch < work.held_out_batches(); ++batch) {
    swarm::Task task;
    task.kind = swarm::TaskKind::kEvaluate;
    task.microbatch = MicrobatchId(batch);
    const std::uint16_t head = work.cut.stages() + 1;
    for (std::uint16_t part = 0; part <= head; ++part) {
      ++task.id;
      task.part = PartId(part);
      task.stage = StageId(part == head ? 0 : part);
      auto result = compute.run(task);
      if (!result.ok) return Error{"held-out loss: " + result.error};
      task.input = std::move(result.output);
      if (part == head) sum += result.loss;
    }
  }
  return report_held_out(work, folder, progress, done, sum / work.held_out_batches());
}

Result<void> evaluate_checkpoint(const Workload& work, RunFolder& folder, Progress& progress, std::uint64_t done) {
  auto compute = node::TorchCompute::create(work.compute_options(folder.checkpoints(), true));
  if (!compute) return compute.error();
  for (std::uint16_t stage = 0; stage <= work.cut.stages(); ++stage) {
    swarm::Task task;
    task.id = stage + 1u;
    task.kind = swarm::TaskKind::kLoad;
    task.stage = StageId(stage);
    task.iteration = Iteration(done);
    const auto loaded = (*compute)->run(task);
    if (!loaded.ok) return Error{loaded.error};
  }
  return evaluate(work, folder, progress, **compute, done);
}

Result<void> write_model(const Workload& work, RunFolder& folder, Progress& progress) {
  const auto key = checkpoint_key(work, folder);
  const auto newest = model::newest_checkpoint(key);
  if (!newest) return Error{"the last checkpoint is gone from " + folder.checkpoints().string()};
  auto weights = model::load_checkpoint_weights(key, *newest);
  if (!weights) return weights.error();
  if (auto saved = model::save_model_folder(folder.model(), *weights, *work.tokenizer); !saved) return saved;
  progress.say("weights SHA-256 " + weights->sha256());
  progress.say("model in " + folder.model().string() + "; try: tributary generate " + folder.path().string() +
               " --prompt \"The\"");
  return {};
}

std::string describe(const Workload& work) {
  std::uint64_t parameters = 0;
  for (std::uint16_t stage = 0; stage <= work.cut.stages(); ++stage) {
    parameters += model::stage_layout(work.shape, work.cut, StageId(stage)).size;
  }
  char text[200];
  std::snprintf(text, sizeof text, "%s: %s with %.2f million parameters, %u stages; %.2f million tokens of text",
                work.config.name.c_str(), work.config.model.family.c_str(), static_cast<double>(parameters) * 1e-6,
                static_cast<unsigned>(work.cut.stages()), static_cast<double>(work.corpus->training().size()) * 1e-6);
  return text;
}

}  // namespace tributary::app
