// A scenario played by the protocol's own objects in the simulated world, with durations for computation: how long its
// iterations take, what was done twice, and where the time went. Deterministic: the same scenario and seed, the same
// events.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "sim/scenario.h"
#include "sim/world.h"

namespace tributary::sim {

struct RehearsalOptions {
  std::uint64_t seed = 1;
  // Iterations before the churn begins and before anything counts: links and machines get measured in them.
  std::uint64_t warm_up = 2;
  bool trace = false;  // keep every task and transfer
  bool check = false;  // watch the protocol's rules too; one that is broken ends the rehearsal and is its trouble
  swarm::PlantedBugs bugs = {};
  std::function<void(std::uint64_t done, std::uint64_t of)> on_progress = [](std::uint64_t, std::uint64_t) {};
};

// Of one iteration; seconds. The parts of a microbatch's way are means over its microbatches.
struct RehearsedIteration {
  double start_s = 0;  // since the swarm began
  double duration_s = 0;
  double wait_s = 0;      // for admission, slots, busy machines and uplinks, and for deaths to be noticed
  double transfer_s = 0;  // on the wire, latency included
  double compute_s = 0;
  double last_s = 0;    // from the mean microbatch's end to the last one's
  double end_s = 0;     // from there to the commit: rest of the aggregation, replays, decisions
  double redone_s = 0;  // compute time, of all machines, on what had been computed before
  // The longest time in which no machine computed anything and no payload of a pass or a sum was on any wire. Words
  // without payloads, state for newcomers, and what died with its machine are idle.
  double idle_s = 0;
  double idle_from_s = 0;  // since the iteration's start
  std::uint32_t crashes = 0;
  std::uint32_t accepted = 0;  // microbatches in the update, with all their parts
};

// A bar in the trace: what a machine or its uplink did. The end of a process is one without length.
inline constexpr const char* kProcessEnds = "process ends";
struct TraceBar {
  NodeId node;
  bool uplink = false;
  std::string name;
  std::int64_t begin_ns = 0, end_ns = 0;
};

struct Rehearsal {
  std::vector<RehearsedIteration> iterations;  // after the warm-up
  double crash_free_s = 0;                     // the last warm-up iteration's duration
  double compute_s = 0;                        // of all machines, redone work included
  double virtual_s = 0;
  std::uint64_t messages = 0;
  double control_bytes = 0;  // everything but tensors, as encoded
  double payload_bytes = 0;
  std::uint64_t events = 0;
  std::uint64_t trace_hash = 0;
  swarm::Counters counters;
  std::vector<TraceBar> bars;
  std::string trouble;  // not empty: why the swarm did not get to the end

  double mean_iteration_s() const;
  double accepted_per_10_s() const;
  double redone_share() const;
};

// Errors: the router's name.
Result<Rehearsal> rehearse(const Scenario& scenario, const RehearsalOptions& options);

// Chrome's trace format (JSON), as Perfetto opens it: a process for each machine, with a lane for computing and one for
// its uplink.
std::string chrome_trace(const Scenario& scenario, const Rehearsal& rehearsal);

}  // namespace tributary::sim
