// Trouble for a simulated swarm, drawn from its seed: crashes, freezes, black holes, partitions, departures, pauses. It
// ends at the swarm's horizon: then all links heal, and everybody who can comes back.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/chaos_swarm.h"
#include "sim/world.h"

namespace tributary::sim {

struct FaultOptions {
  bool enabled = true;
  bool log = false;  // prints what happens to machines
};

class Faults {
 public:
  // Schedules everything. `world` and `swarm` outlive it.
  Faults(World& world, const ChaosSwarm& swarm, FaultOptions options);
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;

  std::uint64_t crashes() const { return crashes_; }
  // How many there are to be, those that are left out included.
  std::uint32_t strikes() const { return strikes_; }
  // To be called when a message is sent: somebody may wait in ambush for it.
  void sent(NodeId from, const wire::Message& message);
  // To be called when a process has ended by itself: a paused run is resumed by somebody.
  void ended(NodeId id, const swarm::Exit& exit);

 private:
  void strike();
  void strike(std::uint32_t number);
  void crash(NodeId id);
  void crash_stage(NodeId member);
  void freeze(NodeId id);
  void block_one_way(NodeId from, NodeId to);
  void split(const std::vector<NodeId>& ids);
  void leave(NodeId id);
  void heal();
  void start(NodeId id);
  void start_later(NodeId id, Duration pause);
  const NodeSpec& spec_of(NodeId id) const { return swarm_.nodes[id.value()]; }
  void say(const char* what, NodeId id) const;

  World& world_;
  const ChaosSwarm& swarm_;
  const FaultOptions options_;
  Random random_;
  std::uint64_t crashes_ = 0;
  std::uint32_t strikes_ = 0;
  std::optional<std::size_t> ambush_;  // the next to send a message of that kind dies of it
};

}  // namespace tributary::sim
