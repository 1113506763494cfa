// The simulated world: a seeded queue of events in virtual time, links with latency and bandwidth, machines that crash,
// freeze and come back with their disks. It drives the same swarm::Node objects as the real world does.
//
// Links keep the order of messages of a pair, as a connection does. A node's uplink sends one payload at a time;
// messages without payload overtake them, as in the transport. When a
// process dies, what it had sent completely still arrives, and its peers learn of the closed connection one latency
// later.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include "sim/symbolic_compute.h"
#include "swarm/node.h"

namespace tributary::sim {

struct NodeSpec {
  swarm::NodeOptions options;
  double slowness = 1;    // multiplies every task's duration
  double clock_rate = 1;  // seconds that its clock counts in one of the world's
  Duration store_time{};  // of its log on its disk; zero: the world's
};

struct WorldOptions {
  std::uint64_t seed = 1;
  // One way, between two nodes; jitter is a fraction added at random.
  std::function<Duration(NodeId, NodeId)> latency = [](NodeId, NodeId) { return milliseconds(5); };
  double jitter = 0.1;
  std::function<double(NodeId, NodeId)> bandwidth = [](NodeId, NodeId) { return 1e9; };  // bytes/s; not 0
  // What a message weighs on its way; by default its real size.
  std::function<double(const wire::Message&)> message_bytes = [](const wire::Message& message) {
    return 200 + static_cast<double>(payload_size(message.payload));
  };
  Duration store_time = milliseconds(2);
  // Of a task on a machine of slowness 1.
  std::function<Duration(const swarm::Task&)> task_time = [](const swarm::Task&) { return milliseconds(1); };
  // How long a task takes that has so much work, slowness included, and begins at that time.
  std::function<Duration(NodeId, Time begin, Duration work)> task_takes = [](NodeId, Time, Duration work) {
    return work;
  };
  // What else a payload goes through that left its uplink from `begin` to `end`: when its last byte is on the last
  // wire, latency not counted.
  std::function<Time(NodeId, NodeId, double bytes, Time begin, Time end)> beyond_uplink =
      [](NodeId, NodeId, double, Time, Time end) { return end; };
  std::function<std::unique_ptr<swarm::Compute>(NodeId, std::shared_ptr<Disk>)> make_compute;
  bool shared_disk = false;      // all machines see one
  bool encode_messages = false;  // every message goes through the wire encoding and back
  swarm::PlantedBugs bugs;
};

class World {
 public:
  explicit World(WorldOptions options);

  // --- What happens to machines
  void start(const NodeSpec& spec);  // a process starts (again); keeps its disk; a running one is killed first
  void crash(NodeId node);
  // The machine is gone from the net: no goodbye, and no answer to those who call it until it starts again.
  void vanish(NodeId node);
  void ask_to_leave(NodeId node);
  void ask_to_halt(NodeId node);  // the whole run; heeded if `node` leads
  void freeze(NodeId node);
  void thaw(NodeId node);
  // Messages from -> to wait until healed (the connection lives) or, if `lossy`, are lost.
  void block(NodeId from, NodeId to, bool lossy);
  void heal(NodeId from, NodeId to);
  void heal_all();

  // --- Time
  Time now() const { return now_; }
  void at(Time time, std::function<void()> action);
  // Handles the next event; false if there is none.
  bool step();
  void run_until(Time time);

  // --- Looking
  const swarm::Node* node(NodeId id) const;  // null if it does not run
  bool running(NodeId id) const { return node(id) != nullptr; }
  bool frozen(NodeId id) const;
  std::vector<NodeId> nodes() const;
  const std::map<NodeId, std::string>& exits() const { return exits_; }
  std::uint64_t trace_hash() const { return trace_; }
  std::uint64_t events() const { return event_count_; }
  std::uint64_t messages() const { return message_count_; }
  swarm::Counters counters() const;
  // How often a process of that machine has started.
  std::uint64_t starts(NodeId id) const;
  // After each event of that node; for checkers.
  std::function<void(NodeId, const swarm::Node&)> on_event = [](NodeId, const swarm::Node&) {};
  std::function<void(NodeId, const swarm::Applied&)> on_applied = [](NodeId, const swarm::Applied&) {};
  std::function<void(NodeId, const swarm::Evaluated&)> on_evaluated = [](NodeId, const swarm::Evaluated&) {};
  std::function<void(NodeId, const swarm::Distrusted&)> on_distrusted = [](NodeId, const swarm::Distrusted&) {};
  std::function<void(NodeId, const swarm::Exit&)> on_exit = [](NodeId, const swarm::Exit&) {};
  // A process has ended, whatever the reason; `node` as it was.
  std::function<void(NodeId, const swarm::Node&)> on_end = [](NodeId, const swarm::Node&) {};
  std::function<void(NodeId, const swarm::Task&, Time begin, Time end)> on_task = [](NodeId, const swarm::Task&, Time,
                                                                                     Time) {};
  // A message has left completely, over an uplink that was free for it from `begin` on.
  std::function<void(NodeId, NodeId, const wire::Message&, Time begin, Time end, Time arrival)> on_transfer =
      [](NodeId, NodeId, const wire::Message&, Time, Time, Time) {};
  std::function<void(NodeId, NodeId, const wire::Message&)> on_send = [](NodeId, NodeId, const wire::Message&) {};

 private:
  struct Machine {
    NodeSpec spec;
    std::unique_ptr<swarm::Node> node;
    std::unique_ptr<swarm::Compute> compute;
    std::shared_ptr<Disk> disk = std::make_shared<Disk>();
    wire::DurableLog log;
    std::uint64_t life = 0;  // rises with each start and crash
    bool frozen = false;
    bool vanished = false;
    std::vector<swarm::Event> held;  // while frozen
    Time uplink_free{}, control_free{};
    std::map<NodeId, double> told_rate;  // by peer: the link's speed as the node knows it
    Time wake_at = kNever;
    std::set<NodeId> connected;
    std::uint64_t starts = 0;
  };
  struct Link {
    Time last_arrival{};
    bool blocked = false;
    bool lossy = false;
    bool connected = false;
    std::vector<std::pair<std::uint64_t, wire::Message>> held;  // with the receiver's life
  };
  struct Scheduled {
    Time time;
    std::uint64_t order;
    std::function<void()> action;
    bool operator>(const Scheduled& other) const { return std::tie(time, order) > std::tie(other.time, other.order); }
  };

  Machine& machine_of(NodeId id);
  Link& link_of(NodeId from, NodeId to) { return links_[from][to]; }
  void handle(NodeId id, const swarm::Event& event);
  void deliver(NodeId id, std::uint64_t life, const swarm::Event& event);
  void carry_out(NodeId id, Machine& machine, swarm::Effect& effect);
  void send(NodeId from, Machine& machine, swarm::Send& effect);
  void leave(NodeId from, NodeId to, std::uint64_t life, wire::Message message, Time begin, Time through);
  void arrive(NodeId from, NodeId to, std::uint64_t life, wire::Message message);
  void run_task(NodeId id, Machine& machine, const swarm::Task& task);
  void schedule_wake(NodeId id, Machine& machine);
  void end_process(NodeId id, Machine& machine);
  Duration latency(NodeId from, NodeId to);
  void trace(std::uint64_t word) { trace_ = mix64(trace_, word); }

  const WorldOptions options_;
  Random random_;
  Time now_{};
  std::uint64_t order_ = 0;
  std::uint64_t trace_ = 0;
  std::uint64_t event_count_ = 0;
  std::uint64_t message_count_ = 0;
  std::priority_queue<Scheduled, std::vector<Scheduled>, std::greater<>> queue_;
  std::map<NodeId, Machine> machines_;
  std::vector<Machine*> by_id_;                     // the same, of small ids
  std::map<NodeId, std::map<NodeId, Link>> links_;  // by sender, receiver
  std::map<NodeId, std::string> exits_;
  std::shared_ptr<Disk> shared_disk_ = std::make_shared<Disk>();
  swarm::Counters gone_;  // of processes that have ended
};

}  // namespace tributary::sim
