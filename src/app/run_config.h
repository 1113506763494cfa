// A run's configuration: TOML file, environment and command line put together, every fault reported at once. Plain
// data.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/config.h"
#include "swarm/step.h"

namespace tributary::app {

struct ModelSection {
  std::string family = "llama";  // llama | gpt
  std::uint32_t layers = 6;
  std::uint32_t hidden = 256;
  std::uint32_t heads = 8;
  std::uint32_t kv_heads = 0;      // 0: as many as heads
  std::uint32_t intermediate = 0;  // 0: 8/3 hidden for llama, 4 hidden for gpt, rounded up to 32
  std::uint32_t context = 0;       // 0: training.sequence
  bool tied = true;
};

struct DataSection {
  std::vector<std::string> corpus;  // files and folders; relative to the configuration file
  std::string tokenizer = "bytes";  // or the path of a tokenizer.json
  double held_out = 0.01;
};

struct TrainingSection {
  std::uint64_t iterations = 300;
  std::uint32_t microbatches = 4;  // per iteration
  std::uint32_t batch = 8;         // sequences per microbatch
  std::uint32_t sequence = 256;
  std::string precision = "bf16";  // bf16 | fp32, of computation; weights are fp32
  std::string device = "cpu";      // cpu | cuda, of this node
  bool reproducible = false;
  double learning_rate = 2e-3;
  double min_learning_rate = 2e-4;
  std::uint64_t warmup = 20;
  std::string schedule = "cosine";  // cosine | linear | constant (and a linear fall in the last fifth)
  double weight_decay = 0.1;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double clip = 1.0;              // 0: none
  std::uint64_t eval_every = 50;  // iterations; 0: only at the end
  std::uint64_t checkpoint_every = 50;
  std::uint32_t threads = 0;  // per process; 0: all cores. Fix it if reproducible
  bool recompute_activations = false;
};

struct SwarmSection {
  std::uint32_t stages = 0;           // 0: as many as relays has entries, or 1
  std::vector<std::uint32_t> blocks;  // per stage; empty: evenly
  std::uint32_t data_nodes = 1;
  std::vector<std::uint32_t> relays;  // replicas of each stage; empty: one process does it all
  std::string wire = "bf16";          // bf16 | fp32 | int8
  std::string router =
      "planned";                 // earliest-finish | gwtf | labels | swarm | optimal: how microbatches get their paths
  std::uint32_t voters = 1;      // 1, 3 or 5
  std::vector<double> slow;      // per relay: factors on its compute time
  bool move_relays = false;      // to other stages, where that shortens the predicted iteration
  std::uint32_t slots = 4;       // microbatches that a relay holds between forward and backward
  std::uint64_t memory_mib = 0;  // of each node of a local swarm; 0: no cap
  double restart_after_s = 3;    // a node that died is started again after so long; below 0: never
};

struct NetworkSection {
  std::string preset = "none";  // none | ten-locations
  double latency_ms = 0;
  double bandwidth_mbps = 0;  // 0: not limited
  double jitter = 0;          // fraction of the latency
  double time_scale = 1;
};

struct ChurnEvent {
  std::uint64_t iteration = 0;
  std::string action;  // kill | leave | restart | freeze | thaw | blackhole | heal
  std::uint32_t stage = 0;
  std::uint32_t replica = 0;
};

struct RunConfig {
  std::string name = "run";
  std::uint64_t seed = 1;
  ModelSection model;
  DataSection data;
  TrainingSection training;
  SwarmSection swarm;
  NetworkSection network;
  std::vector<ChurnEvent> churn;  // [[churn.schedule]] tables

  // Derived; require a checked configuration.
  model::Config model_config(std::size_t vocabulary) const;
  model::StageCut cut(const model::Config& config) const;
  swarm::StepOptions step() const;
  std::uint32_t stages() const;
};

struct ConfigSources {
  std::filesystem::path file;
  std::vector<std::string> overrides;  // "training.iterations=5", in order
  bool environment = true;             // TRIBUTARY_TRAINING_ITERATIONS=5 and the like
};

// Command line > environment > file > defaults. Errors: all faults, one a line, with file, line and remedy.
Result<RunConfig> load_run_config(const ConfigSources& sources);
Result<RunConfig> parse_run_config(const std::string& toml, const std::string& name, const ConfigSources& sources);

// The whole configuration as TOML, defaults included; loads to the same configuration.
std::string write_run_config(const RunConfig& config);
// What must be equal for a run to be resumed: write_run_config without what changes no weights.
std::string resume_fingerprint(const RunConfig& config);

// The known key nearest to an unknown one by edit distance; none if nothing is near.
std::optional<std::string> nearest_key(const std::string& key, const std::vector<std::string>& known);

}  // namespace tributary::app
