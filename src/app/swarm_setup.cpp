#include "app/swarm_setup.h"

#include <algorithm>

#include "model/config.h"

namespace tributary::app {

std::vector<Place> places(const RunConfig& config) {
  std::vector<Place> out;
  for (std::uint32_t i = 0; i < config.swarm.data_nodes; ++i)
    out.push_back({NodeId(static_cast<std::uint32_t>(out.size())), true, StageId(0), i, 1});
  std::size_t relay = 0;
  for (std::size_t s = 0; s < config.swarm.relays.size(); ++s)
    for (std::uint32_t replica = 0; replica < config.swarm.relays[s]; ++replica, ++relay)
      out.push_back({NodeId(static_cast<std::uint32_t>(out.size())), false, StageId(static_cast<std::uint16_t>(s + 1)),
                     replica, relay < config.swarm.slow.size() ? config.swarm.slow[relay] : 1});
  return out;
}

std::vector<NodeId> voters(const RunConfig& config) {
  std::vector<NodeId> out;
  for (std::uint32_t i = 0; i < config.swarm.voters; ++i) out.push_back(NodeId(i));
  return out;
}

swarm::RunOptions run_options(const Workload& work) {
  const auto& config = work.config;
  swarm::RunOptions run;
  run.stages = work.cut.stages();
  for (std::uint16_t s = 0; s <= run.stages; ++s)
    run.state_sizes.push_back(model::stage_layout(work.shape, work.cut, StageId(s)).size);
  run.microbatches = config.training.microbatches;
  run.iterations = config.training.iterations;
  run.checkpoint_every = config.training.checkpoint_every;
  run.payload_bytes = work.compute_options({}, false).payload_bytes();
  run.evaluate_every = config.training.eval_every;
  run.evaluate_batches = work.held_out_batches();
  run.voters = voters(config);
  const auto& relays = config.swarm.relays;
  run.replicas_at_start =
      static_cast<std::uint16_t>(relays.empty() ? 1 : *std::min_element(relays.begin(), relays.end()));
  run.wait_at_start = seconds(20);
  run.router = config.swarm.router;
  run.switches.move_relays = config.swarm.move_relays;
  run.step = config.step();
  run.hash = checksum64(resume_fingerprint(config));
  run.tokenizer_hash = work.tokenizer->hash();
  run.corpus_hash = work.corpus ? work.corpus->hash() : 0;
  return run;
}

Result<net::LinkTable> link_table(const NetworkSection& network) {
  auto table = net::LinkTable::preset(network.preset);
  if (!table) return table.error();
  if (network.preset == "none" && (network.latency_ms > 0 || network.bandwidth_mbps > 0)) {
    net::LinkShape shape;
    shape.latency = seconds(network.latency_ms * 1e-3);
    shape.jitter = seconds(network.latency_ms * 1e-3 * network.jitter);
    shape.bandwidth_bytes_per_s = network.bandwidth_mbps * 1e6 / 8;
    table = net::LinkTable::uniform(shape);
  }
  return network.time_scale == 1 ? *table : table->scaled(network.time_scale);
}

std::string region_of(const net::LinkTable& links, NodeId node) {
  const auto& regions = links.regions();
  return regions.empty() ? std::string() : regions[node.value() % regions.size()];
}

std::filesystem::path node_folder(const std::filesystem::path& run, NodeId node) {
  return run / "nodes" / to_string(node);
}
std::filesystem::path secret_path(const std::filesystem::path& run) { return run / "secret"; }

}  // namespace tributary::app
