// Every key of the configuration, once: readers, writers and the list of known keys all walk this table.
#pragma once
#include "app/run_config.h"

namespace tributary::app {

// Calls visit(key, field) for each; keys are dotted paths.
template <class Config, class Visit>
void for_each_field(Config& c, Visit&& visit) {
  visit("name", c.name);
  visit("seed", c.seed);
  visit("model.family", c.model.family);
  visit("model.layers", c.model.layers);
  visit("model.hidden", c.model.hidden);
  visit("model.heads", c.model.heads);
  visit("model.kv_heads", c.model.kv_heads);
  visit("model.intermediate", c.model.intermediate);
  visit("model.context", c.model.context);
  visit("model.tied", c.model.tied);
  visit("data.corpus", c.data.corpus);
  visit("data.tokenizer", c.data.tokenizer);
  visit("data.held_out", c.data.held_out);
  visit("training.iterations", c.training.iterations);
  visit("training.microbatches", c.training.microbatches);
  visit("training.batch", c.training.batch);
  visit("training.sequence", c.training.sequence);
  visit("training.precision", c.training.precision);
  visit("training.device", c.training.device);
  visit("training.reproducible", c.training.reproducible);
  visit("training.learning_rate", c.training.learning_rate);
  visit("training.min_learning_rate", c.training.min_learning_rate);
  visit("training.warmup", c.training.warmup);
  visit("training.schedule", c.training.schedule);
  visit("training.weight_decay", c.training.weight_decay);
  visit("training.beta1", c.training.beta1);
  visit("training.beta2", c.training.beta2);
  visit("training.epsilon", c.training.epsilon);
  visit("training.clip", c.training.clip);
  visit("training.eval_every", c.training.eval_every);
  visit("training.checkpoint_every", c.training.checkpoint_every);
  visit("training.threads", c.training.threads);
  visit("training.recompute_activations", c.training.recompute_activations);
  visit("swarm.stages", c.swarm.stages);
  visit("swarm.blocks", c.swarm.blocks);
  visit("swarm.data_nodes", c.swarm.data_nodes);
  visit("swarm.relays", c.swarm.relays);
  visit("swarm.wire", c.swarm.wire);
  visit("swarm.router", c.swarm.router);
  visit("swarm.move_relays", c.swarm.move_relays);
  visit("swarm.voters", c.swarm.voters);
  visit("swarm.slow", c.swarm.slow);
  visit("swarm.slots", c.swarm.slots);
  visit("swarm.memory_mib", c.swarm.memory_mib);
  visit("swarm.restart_after_s", c.swarm.restart_after_s);
  visit("network.preset", c.network.preset);
  visit("network.latency_ms", c.network.latency_ms);
  visit("network.bandwidth_mbps", c.network.bandwidth_mbps);
  visit("network.jitter", c.network.jitter);
  visit("network.time_scale", c.network.time_scale);
}

// The keys of one table of churn.schedule.
template <class Event, class Visit>
void for_each_churn_field(Event& e, Visit&& visit) {
  visit("iteration", e.iteration);
  visit("action", e.action);
  visit("stage", e.stage);
  visit("replica", e.replica);
}

}  // namespace tributary::app
