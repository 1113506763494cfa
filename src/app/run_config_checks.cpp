#include "app/run_config_checks.h"

#include <algorithm>
#include <cmath>

namespace tributary::app {
namespace {

class Checks {
 public:
  void need(bool condition, std::string fault) {
    if (!condition) faults_.push_back(std::move(fault));
  }
  void one_of(const char* key, const std::string& value, std::initializer_list<const char*> allowed) {
    std::string list;
    for (const char* word : allowed) {
      if (value == word) return;
      if (!list.empty()) list += ", ";
      list += '"';
      list += word;
      list += '"';
    }
    faults_.push_back(std::string(key) + " is \"" + value + "\"; it must be one of " + list);
  }
  void range(const char* key, double value, double least, double most) {
    if (std::isfinite(value) && value >= least && value <= most) return;
    char text[160];
    std::snprintf(text, sizeof text, "%s is %g; it must be from %g to %g", key, value, least, most);
    faults_.emplace_back(text);
  }
  void append(std::vector<std::string> more) {
    faults_.insert(faults_.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  }
  std::vector<std::string> take() { return std::move(faults_); }

 private:
  std::vector<std::string> faults_;
};

bool is_plain_name(const std::string& name) {
  return !name.empty() && name.size() <= 64 && name[0] != '.' && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
  });
}

void check_training(const TrainingSection& t, Checks& checks) {
  checks.range("training.iterations", static_cast<double>(t.iterations), 1, 1e9);
  checks.range("training.microbatches", t.microbatches, 1, 65536);
  checks.range("training.batch", t.batch, 1, 65536);
  checks.range("training.sequence", t.sequence, 1, 1 << 20);
  checks.one_of("training.precision", t.precision, {"bf16", "fp32"});
  checks.one_of("training.device", t.device, {"cpu", "cuda"});
  checks.need(!t.reproducible || t.device == "cpu",
              "training.reproducible needs training.device = \"cpu\": a GPU does not promise the same bits");
  checks.one_of("training.schedule", t.schedule, {"cosine", "linear", "constant"});
  checks.range("training.learning_rate", t.learning_rate, 0, 10);
  checks.range("training.min_learning_rate", t.min_learning_rate, 0, t.learning_rate);
  checks.range("training.warmup", static_cast<double>(t.warmup), 0, static_cast<double>(t.iterations));
  checks.range("training.weight_decay", t.weight_decay, 0, 10);
  checks.range("training.beta1", t.beta1, 0, 0.999999);
  checks.range("training.beta2", t.beta2, 0, 0.999999);
  checks.range("training.epsilon", t.epsilon, 1e-16, 1);
  checks.range("training.clip", t.clip, 0, 1e6);
  checks.range("training.threads", t.threads, 0, 256);
}

void check_swarm(const RunConfig& config, Checks& checks) {
  const auto& s = config.swarm;
  checks.one_of("swarm.wire", s.wire, {"bf16", "fp32", "int8"});
  checks.one_of("swarm.router", s.router, {"planned", "earliest-finish", "gwtf", "labels", "swarm", "optimal"});
  checks.need(s.voters == 1 || s.voters == 3 || s.voters == 5,
              "swarm.voters is " + std::to_string(s.voters) + "; it must be 1, 3 or 5");
  checks.range("swarm.data_nodes", s.data_nodes, 1, 64);
  for (const auto replicas : s.relays) checks.range("swarm.relays", replicas, 1, 10000);
  checks.need(s.relays.empty() || s.stages == 0 || s.relays.size() == s.stages,
              "swarm.relays has " + std::to_string(s.relays.size()) + " entries, but swarm.stages is " +
                  std::to_string(s.stages) + "; they must agree");
  checks.need(s.blocks.empty() || s.blocks.size() == config.stages(),
              "swarm.blocks has " + std::to_string(s.blocks.size()) + " entries; it needs one for each of the " +
                  std::to_string(config.stages()) + " stages");
  std::size_t relays = 0;
  for (const auto replicas : s.relays) relays += replicas;
  checks.need(s.slow.empty() || s.slow.size() == relays, "swarm.slow has " + std::to_string(s.slow.size()) +
                                                             " factors; it needs one for each of the " +
                                                             std::to_string(relays) + " relays");
  for (const double factor : s.slow) checks.range("swarm.slow", factor, 1, 1000);
  if (config.stages() < 1 || config.stages() > config.model.layers) {
    checks.need(false, "swarm.stages is " + std::to_string(config.stages()) + "; it must be from 1 to model.layers, " +
                           std::to_string(config.model.layers));
  } else if (!s.blocks.empty() && s.blocks.size() == config.stages()) {
    model::Config shape;
    shape.layers = config.model.layers;
    if (auto cut = model::cut_as_given(shape, s.blocks); !cut)
      checks.need(false, "swarm.blocks: " + cut.error().message);
  }
  const auto& n = config.network;
  checks.one_of("network.preset", n.preset, {"none", "ten-locations"});
  checks.range("network.latency_ms", n.latency_ms, 0, 60000);
  checks.range("network.bandwidth_mbps", n.bandwidth_mbps, 0, 1e6);
  checks.range("network.jitter", n.jitter, 0, 1);
  checks.range("network.time_scale", n.time_scale, 0.001, 1000);
  for (const auto& event : config.churn) {
    checks.one_of("churn.schedule.action", event.action,
                  {"kill", "leave", "restart", "freeze", "thaw", "blackhole", "heal"});
    if (event.stage == 0 || event.stage > s.relays.size()) {
      checks.need(false, "churn.schedule.stage is " + std::to_string(event.stage) + "; it must be from 1 to " +
                             std::to_string(s.relays.size()) + ", the number of entries of swarm.relays");
    } else {
      checks.need(event.replica < s.relays[event.stage - 1], "churn.schedule.replica is " +
                                                                 std::to_string(event.replica) + "; stage " +
                                                                 std::to_string(event.stage) + " has replicas 0 to " +
                                                                 std::to_string(s.relays[event.stage - 1] - 1));
    }
  }
}

std::uint32_t round_up(std::uint64_t value, std::uint32_t to) {
  return static_cast<std::uint32_t>((value + to - 1) / to * to);
}

}  // namespace

std::vector<std::string> check_run_config(const RunConfig& config) {
  Checks checks;
  checks.need(is_plain_name(config.name),
              "name is \"" + config.name + "\"; it must be 1 to 64 letters, digits, '-', '_' or '.'");
  checks.one_of("model.family", config.model.family, {"llama", "gpt"});
  checks.need(!config.data.corpus.empty(),
              "data.corpus is empty; name at least one text file or folder: corpus = [\"texts\"]");
  checks.range("data.held_out", config.data.held_out, 0, 0.5);
  check_training(config.training, checks);
  checks.append(config.model_config(256).check());
  checks.need(config.model.context == 0 || config.training.sequence <= config.model.context,
              "training.sequence is longer than model.context");
  check_swarm(config, checks);
  return checks.take();
}

model::Config RunConfig::model_config(std::size_t vocabulary) const {
  model::Config c;
  c.family = model.family == "gpt" ? model::Family::kGpt : model::Family::kLlama;
  c.vocabulary = static_cast<std::uint32_t>(vocabulary);
  c.layers = model.layers;
  c.hidden = model.hidden;
  c.heads = model.heads;
  c.kv_heads = model.kv_heads == 0 ? model.heads : model.kv_heads;
  c.intermediate = model.intermediate;
  if (c.intermediate == 0) {
    c.intermediate = c.family == model::Family::kGpt ? 4 * c.hidden : round_up(8ull * c.hidden / 3, 32);
  }
  c.context = model.context == 0 ? training.sequence : model.context;
  c.tied = model.tied;
  return c;
}

std::uint32_t RunConfig::stages() const {
  if (swarm.stages > 0) return swarm.stages;
  if (!swarm.relays.empty()) return static_cast<std::uint32_t>(swarm.relays.size());
  return swarm.blocks.empty() ? 1 : static_cast<std::uint32_t>(swarm.blocks.size());
}

model::StageCut RunConfig::cut(const model::Config& config) const {
  auto cut = swarm.blocks.empty() ? model::cut_evenly(config, stages()) : model::cut_as_given(config, swarm.blocks);
  TRIBUTARY_CHECK(cut.ok(), cut.error().message);
  return *cut;
}

swarm::StepOptions RunConfig::step() const {
  swarm::StepOptions options;
  options.learning_rate = training.learning_rate;
  options.min_learning_rate = training.min_learning_rate;
  options.warmup = training.warmup;
  options.iterations = training.iterations;
  options.schedule = training.schedule == "cosine"   ? swarm::Schedule::kCosine
                     : training.schedule == "linear" ? swarm::Schedule::kLinear
                                                     : swarm::Schedule::kConstantThenDecay;
  options.clip = training.clip;
  return options;
}

}  // namespace tributary::app
