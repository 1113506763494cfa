#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "app/interrupt.h"
#include "app/metrics_server.h"
#include "app/progress.h"
#include "app/run_end.h"
#include "app/run_folder.h"
#include "app/single_process.h"
#include "app/supervisor.h"
#include "app/workload.h"
#include "model/checkpoint.h"

namespace tributary::app {
namespace {

constexpr std::size_t kKeptCheckpoints = 2;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// The state of a training run in this process; a checkpoint holds what of it outlives the process.
class Training {
 public:
  Training(const Workload& work, RunFolder& folder, node::TorchCompute& compute)
      : work_(work), folder_(folder), compute_(compute), steps_(compute, work.config, work.cut.stages()) {}

  // From the newest checkpoint that is whole, else from the start.
  Result<std::uint64_t> start() {
    const model::CheckpointKey key{folder_.checkpoints(), work_.shape, work_.cut};
    std::optional<Iteration> at = model::newest_checkpoint(key);
    std::string fault;
    while (at) {
      const auto loaded = steps_.load(*at);
      if (loaded) {
        progress_.say("resuming after iteration " + to_string(*at));
        if (auto rewound = folder_.rewind_metrics(at->value()); !rewound) return rewound.error();
        const auto& t = work_.config.training;
        tokens_ = at->value() * t.microbatches * t.batch * t.sequence;
        return at->value();
      }
      fault = loaded.error().message;
      progress_.say("checkpoint " + to_string(*at) + " cannot be used: " + fault);
      at = model::newest_checkpoint(key, at);
    }
    if (!fault.empty()) {
      return Error{"no checkpoint of this run can be used. Remove " + folder_.checkpoints().string() +
                   " to start anew. " + fault};
    }
    if (auto rewound = folder_.rewind_metrics(0); !rewound) return rewound.error();
    if (auto made = steps_.initialise(); !made) return made.error();
    return std::uint64_t{0};
  }

  Result<void> save(std::uint64_t done) {
    if (done == saved_) return {};
    if (auto saved = steps_.save(Iteration(done)); !saved) return saved;
    saved_ = done;
    model::prune_checkpoints(folder_.checkpoints(), kKeptCheckpoints);
    return {};
  }

  Result<void> iterate(std::uint64_t iteration) {
    const auto begin = Clock::now();
    auto report = steps_.run(Iteration(iteration));
    if (!report) return report.error();
    const double took = seconds_since(begin);
    // The mean over about ten iterations, so that the time left does not jump.
    mean_seconds_ = mean_seconds_ == 0 ? took : 0.9 * mean_seconds_ + 0.1 * took;
    tokens_ += report->tokens;
    nlohmann::ordered_json line = {{"iteration", iteration},
                                   {"loss", report->loss},
                                   {"tokens", tokens_},
                                   {"tokens_per_s", static_cast<double>(report->tokens) / took},
                                   {"seconds", took},
                                   {"learning_rate", report->learning_rate},
                                   {"gradient_norm", report->gradient_norm},
                                   {"excluded", report->excluded}};
    if (auto written = folder_.write_metrics(line.dump()); !written) return written;
    const std::uint64_t total = work_.config.training.iterations;
    progress_.update({iteration + 1, total, report->loss, static_cast<double>(report->tokens) / mean_seconds_,
                      mean_seconds_ * static_cast<double>(total - iteration - 1), ""});
    return {};
  }

  Result<void> evaluate(std::uint64_t done) { return app::evaluate(work_, folder_, progress_, compute_, done); }
  Result<void> finish() {
    progress_.say("time: " + steps_.time_shares());
    return write_model(work_, folder_, progress_);
  }

  Progress& progress() { return progress_; }

 private:
  const Workload& work_;
  RunFolder& folder_;
  node::TorchCompute& compute_;
  SingleProcess steps_;
  Progress progress_;
  double mean_seconds_ = 0;
  std::uint64_t tokens_ = 0;
  std::optional<std::uint64_t> saved_;
};

Result<void> run_training(Training& training, const TrainingSection& options) {
  auto start = training.start();
  if (!start) return start.error();
  std::uint64_t done = *start;
  const auto due = [&](std::uint64_t every) { return every > 0 && done % every == 0 && done < options.iterations; };
  while (done < options.iterations && !interrupted()) {
    if (auto iterated = training.iterate(done); !iterated) return iterated;
    ++done;
    if (due(options.checkpoint_every)) {
      if (auto saved = training.save(done); !saved) return saved;
    }
    if (due(options.eval_every)) {
      if (auto evaluated = training.evaluate(done); !evaluated) return evaluated;
    }
  }
  if (auto saved = training.save(done); !saved) return saved;
  if (done < options.iterations) {
    training.progress().say("stopped after iteration " + std::to_string(done) + "; the same command resumes");
    return {};
  }
  if (auto evaluated = training.evaluate(done); !evaluated) return evaluated;
  return training.finish();
}

}  // namespace

int train(const TrainArguments& arguments) {
  auto config = load_run_config(arguments.config);
  if (!config) return fail(config.error().message, kWrongUse);
  auto folder = RunFolder::open(arguments.runs, *config);
  if (!folder) return fail(folder.error().message);
  std::unique_ptr<MetricsServer> metrics;
  if (!arguments.metrics.empty()) {
    auto started = MetricsServer::start(arguments.metrics, folder->path(), false);
    if (!started) return fail(started.error().message);
    metrics = std::move(*started);
    std::printf("figures at %s\n", metrics->address().c_str());
    std::fflush(stdout);
  }
  auto work = load_workload(*config, arguments.runs / "cache");
  if (!work) return fail(work.error().message);
  if (!config->swarm.relays.empty() && !arguments.single) return train_swarm(arguments, *work, *folder);
  auto compute = node::TorchCompute::create(work->compute_options(folder->checkpoints(), true));
  if (!compute) return fail(compute.error().message);
  catch_interrupts("\nstopping after this iteration; once more to stop at once\n");
  Training training(*work, *folder, **compute);
  training.progress().say(describe(*work));
  if (work->held_out_batches() == 0) {
    training.progress().say("the held-out text is shorter than a batch: no evaluation; raise data.held_out");
  }
  const auto trained = run_training(training, config->training);
  return trained ? kDone : fail(trained.error().message);
}

}  // namespace tributary::app
