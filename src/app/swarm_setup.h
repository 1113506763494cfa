// What a run's configuration means for the protocol and the transport: the same on every node of the run.
#pragma once
#include <filesystem>
#include <vector>

#include "app/workload.h"
#include "net/shaping.h"
#include "swarm/options.h"

namespace tributary::app {

// Places of a run that one command starts: data nodes have the first ids, then the relays, stage by stage.
struct Place {
  NodeId id;
  bool data_node = false;
  StageId stage;
  std::uint32_t replica = 0;
  double slowness = 1;
};
std::vector<Place> places(const RunConfig& config);

// The first `swarm.voters` places vote.
std::vector<NodeId> voters(const RunConfig& config);

swarm::RunOptions run_options(const Workload& work);

Result<net::LinkTable> link_table(const NetworkSection& network);
// Where a node stands in the table, when nobody says: round robin over the preset's regions.
std::string region_of(const net::LinkTable& links, NodeId node);

std::filesystem::path node_folder(const std::filesystem::path& run, NodeId node);
std::filesystem::path secret_path(const std::filesystem::path& run);

}  // namespace tributary::app
