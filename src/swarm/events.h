// What reaches a node and what it does: the whole surface between the protocol and its world. Both worlds (src/node,
// src/sim) speak these and nothing else.
#pragma once
#include <string>
#include <variant>
#include <vector>

#include "base/time.h"
#include "swarm/compute.h"
#include "wire/codec.h"
#include "wire/messages.h"

namespace tributary::swarm {

// Events.
struct Received {
  NodeId from;
  wire::Message message;
};
struct Computed {
  TaskResult result;
};
struct Stored {
  std::uint64_t sequence = 0;
};
struct PeerUp {
  NodeId peer;
};
// The connection is gone: the process died, or the path did.
struct PeerDown {
  NodeId peer;
};
// How fast something large left for the peer, as the world's transport saw it.
struct LinkMeasured {
  NodeId peer;
  double bytes_per_s = 0;
};
struct Woken {};
// Finish what must be finished, then leave (SIGTERM).
struct LeaveAsked {};
// Pause the whole run after the running iteration, with a checkpoint. Heeded by the voter that leads.
struct HaltAsked {};

using Event = std::variant<Received, Computed, Stored, PeerUp, PeerDown, Woken, LeaveAsked, HaltAsked, LinkMeasured>;

// Effects. The host carries them out in order.
struct Send {
  NodeId to;
  wire::Message message;
};
struct RunTask {
  Task task;
};
// Write the log beside, sync, rename; then the event Stored. One at a time is enough: a later one contains the earlier.
struct StoreLog {
  std::uint64_t sequence = 0;
  wire::DurableLog log;
};
enum class ExitReason { kFinished, kHalted, kLeft, kRefused, kStopped };
// The node has nothing more to do; no effect follows.
struct Exit {
  ExitReason reason = ExitReason::kFinished;
  std::string message;
};
// For progress, metrics and checkers: an iteration's commit has been applied here.
struct Applied {
  wire::Commit commit;
  StageId stage;
  std::uint64_t weights_hash = 0;
};

// The held-out loss with the weights after so many iterations: the mean over the batches, in nats a token.
struct Evaluated {
  Iteration iteration;
  double loss = 0;
};

// A peer sent what no honest node sends: a tensor of a wrong size, or with numbers that are not finite. The host names
// it, and ends the connection.
struct Distrusted {
  NodeId peer;
  std::string why;
};

using Effect = std::variant<Send, RunTask, StoreLog, Exit, Applied, Evaluated, Distrusted>;

}  // namespace tributary::swarm
