// The real world around one swarm::Node: a protocol thread that handles one event after the other, a compute thread
// that runs its tasks, a thread for the log's syncs, and the transport's own thread. The protocol thread never
// computes, syncs or waits for the network. Names no LibTorch.
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "net/transport.h"
#include "swarm/node.h"

namespace tributary::node {

struct ProcessOptions {
  swarm::NodeOptions node;
  net::TransportOptions transport;
  std::filesystem::path folder;     // of this node: its log, its status; exists
  std::vector<net::Address> seeds;  // whom to ask for the others
  std::uint64_t memory_budget = 0;  // bytes, to be shown; 0: none
  double slowness = 1;              // multiplies each task's time, to rehearse unequal machines
  std::function<Result<std::unique_ptr<swarm::Compute>>()> make_compute;           // called on the compute thread
  std::function<void(const swarm::Applied&)> on_applied = [](const auto&) {};      // on the protocol thread
  std::function<void(const swarm::Evaluated&)> on_evaluated = [](const auto&) {};  // likewise
  std::function<void()> on_repaired = [] {};  // on the protocol thread: a hop was led round a dead node
  // On the protocol thread: something of this machine's (the disk) is at fault; it is tried again until it goes well.
  std::function<void(const std::string&)> on_fault = [](const auto&) {};
  Duration status_every = seconds(1);
};

class Process {
 public:
  explicit Process(ProcessOptions options);
  ~Process();

  // Runs until the node has nothing more to do, or stop_now(). Errors: the port, the disk, the computation's set-up.
  Result<swarm::Exit> run();

  // From any thread, also before run().
  void ask_to_leave();
  void ask_to_halt();
  void stop_now();
  // While set, nothing passes to or from any peer, and connections stay up: to rehearse a network that is gone.
  void set_black_hole(bool on);
  // Where the other nodes were last known to listen. Requires that run() has returned.
  std::vector<net::Address> known_addresses() const;

 private:
  using Closure = std::function<void()>;
  void post(Closure closure);
  void handle(const swarm::Event& event);
  void carry_out(swarm::Effect& effect);
  void note_stand_in(const wire::Body& body) const;
  void learn_addresses();
  void on_message(NodeId from, net::Message message);
  void on_peer_up(const net::PeerInfo& peer);
  void on_peer_down(NodeId peer);
  void tell_addresses(NodeId to);
  void compute_loop(std::stop_token stop);
  void store_loop(std::stop_token stop);
  void disk_said(const Result<void>& done, std::string Process::*fault);
  Result<void> write_log(const wire::DurableLog& log) const;
  Result<void> write_status(const std::string& state);
  Time now() const;

  ProcessOptions options_;
  const std::chrono::steady_clock::time_point began_;
  std::unique_ptr<net::Transport> transport_;

  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<Closure> inbox_;           // guarded by mutex_
  std::deque<swarm::Task> tasks_;       // guarded by mutex_; at most one in practice
  std::deque<swarm::StoreLog> stores_;  // guarded by mutex_; only the last matters
  std::atomic<bool> stopped_ = false;
  std::atomic<bool> fault_ = false;
  std::string fault_message_;  // guarded by mutex_

  // Protocol thread only.
  std::unique_ptr<swarm::Node> node_;
  std::optional<swarm::Exit> exit_;
  std::map<NodeId, net::Address> addresses_;
  std::set<NodeId> connected_;
  std::uint64_t bad_messages_ = 0;
  std::map<NodeId, std::uint64_t> bad_tensors_;  // by sender
  std::string log_fault_, save_fault_;           // empty: the last write went well
  Time status_at_{};
  std::string status_written_;

  std::jthread compute_thread_;
  std::jthread store_thread_;
};

// What a node last wrote of itself into its folder, as JSON; `tributary status` collects these.
std::filesystem::path status_path(const std::filesystem::path& folder);

// The log on a voter's disk. Errors: damaged, unreadable. No file: an empty log.
Result<wire::DurableLog> load_log(const std::filesystem::path& folder);

}  // namespace tributary::node
