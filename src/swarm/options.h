// What a node of an island must be told. Constants of the run are the same on every node (their hash is compared when a
// node joins); the rest is the node's own.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "swarm/step.h"
#include "wire/messages.h"

namespace tributary::swarm {

// Ideas that rehearsals can turn off one at a time, to see what each is worth. None of them touches what is computed.
struct Switches {
  bool early_aggregation = true;  // a stage's sums begin when it is whole; off: when the whole iteration is
  bool uneven_shares = true;      // ranges of the reduction by the speed of links; off: equal
  bool extra_in_flight = true;    // more microbatches on their way than the thinnest stage has slots; off: as many
  bool admit_at_once = true;      // newcomers fetch state in the iteration in which they come; off: in the next
  bool promote = true;            // ... and take part in it as soon as they have it; off: in the next
  bool move_relays = true;        // to other stages, where the predicted iteration is shorter ("planned" only)
};

// Constants of the run.
struct RunOptions {
  std::uint16_t stages = 1;                // S: stages of blocks; stage 0 comes on top
  std::vector<std::uint64_t> state_sizes;  // by stage, 0..S: elements of its flat vector
  std::uint64_t block = 4096;              // elements over which norms are summed; ranges are not cut inside one
  std::uint32_t microbatches = 8;          // M: per iteration
  std::uint64_t iterations = 100;
  std::uint64_t checkpoint_every = 0;   // iterations; 0: only at the end
  std::vector<NodeId> voters;           // 1, 3 or 5
  std::uint16_t replicas_at_start = 1;  // of each stage, before the first iteration begins ...
  Duration wait_at_start = seconds(2);  // ... or this long after every stage has one
  std::uint64_t payload_bytes = 0;      // of an activation on the wire; for predictions
  double state_scale = 1;               // elements on the wire for each of the vector; not 1 in rehearsals only
  std::uint64_t evaluate_every = 0;     // iterations between held-out losses; 0: none during the run
  std::uint32_t evaluate_batches = 0;   // of held-out text, each as large as a microbatch; at most 256
  double most_excluded = 0.25;          // of an iteration's microbatches; more stops the run
  std::string router = "planned";       // earliest-finish, or a flow::Router's name: how microbatches get their paths
  Switches switches;
  StepOptions step;
  std::uint64_t hash = 0;            // of the configuration
  std::uint64_t tokenizer_hash = 0;  // what the run is trained on must be the same everywhere too
  std::uint64_t corpus_hash = 0;     // 0: this node holds no text
};

// Pace of detection and repair: floors and multiples of what is measured, never deadlines by themselves.
struct PaceOptions {
  Duration ping = milliseconds(100);           // to a peer that is waited for and silent
  Duration suspect_floor = milliseconds(350);  // silence, plus the multiples of the round trip below
  double suspect_round_trips = 1.5;
  double suspect_deviations = 4;
  Duration report = milliseconds(500);  // a report is repeated this often though nothing changed
  double stuck_factor = 10;             // a task this many times its kind's mean is stuck ...
  Duration stuck_floor = seconds(2);    // ... but not before
  double retry_factor = 3;              // ask again after this many times the usual wait ...
  Duration retry_floor = seconds(1);
  Duration retry_first = seconds(5);  // ... or this, while there is no usual wait yet
  // Faults of the order that would make one deadline hide another. Empty: none.
  std::string check() const;
};

struct NodeOptions {
  RunOptions run;
  PaceOptions pace;
  NodeId self;
  Incarnation incarnation;
  bool data_node = false;
  std::uint16_t slots = 4;  // microbatches between forward and backward at a time
  StageId stage;            // wished for; 0 with any_stage: wherever needed
  bool any_stage = true;
  bool shared_disk = false;                   // sees every stage's checkpoints, as all nodes do that say so
  std::vector<wire::SavedState> checkpoints;  // on this node's disk
  std::uint64_t seed = 0;                     // for election jitter only
  std::uint64_t chunk_elements = 1 << 18;     // of state transfer
};

// Faults planted by tests to prove that the checkers find them (tests/sim/planted_test.cpp). Always off outside tests.
struct PlantedBugs {
  bool skip_retract = false;
  bool fold_twice = false;
  bool free_early = false;
  bool forget_kept_gradient = false;
  bool trust_old_incarnation = false;
  bool accept_overlapping_partials = false;
  bool count_stale_results = false;
  bool skip_epoch_check = false;
  bool apply_before_commit = false;
  bool stale_state_chunk = false;
};

}  // namespace tributary::swarm
