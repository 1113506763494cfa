// Everything that nodes of an island say to each other: one struct a message, plain data, no behaviour. The encoding is
// in codec.h, its limits too; docs/protocol.md tells when each is sent. Payloads (tensors) ride beside the body.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"

namespace tributary::wire {

inline constexpr NodeId kNobody{0xffffffffu};

// Where in the run's history a message belongs. The epoch rises with every rewind, the term with every election.
struct Stamp {
  std::uint32_t epoch = 0;
  Iteration iteration;
  auto operator<=>(const Stamp&) const = default;
};

// --- The plan and the log --------------------------------------------------------------------------------------------

struct Member {
  NodeId node;
  Incarnation incarnation;
  StageId stage;
  std::uint16_t slots = 1;
  bool listener = false;    // receives the stage's results and fetches its state; not yet on any path
  std::uint16_t share = 0;  // weight of the range of its stage's vector that it sums; 0: none
  bool operator==(const Member&) const = default;
};

struct Plan {
  std::vector<Member> members;             // ordered by node
  std::vector<std::vector<NodeId>> paths;  // by microbatch: [data node, relay of stage 1 .. S, the same data node]
  std::uint16_t in_flight = 1;             // microbatches that one data node keeps in the pipeline at a time
  bool operator==(const Plan&) const = default;
};

struct StageResult {
  std::uint64_t hash = 0;
  NodeId source;  // had the complete result when the commit was proposed
  bool operator==(const StageResult&) const = default;
};

// The decision that ends an iteration. Everything a replica needs to take the very same optimizer step.
struct Commit {
  std::uint32_t epoch = 0;
  Iteration iteration;
  std::vector<StageResult> results;  // by stage, 0..S
  double learning_rate = 0;
  double gradient_scale = 0;
  double gradient_norm = 0;
  double loss = 0;
  std::uint64_t tokens = 0;
  std::uint32_t excluded = 0;
  bool halt = false;  // the run pauses here: all save, and end
  Plan next;
  bool operator==(const Commit&) const = default;
};

// Begins an epoch: all take the state of `checkpoint` (the iterations done in it; 0: the initial state) and go on.
struct Start {
  std::uint32_t epoch = 0;
  Iteration checkpoint;
  Plan plan;
  bool operator==(const Start&) const = default;
};

// Microbatches of the running iteration that nobody can compute, or whose result is not finite.
struct Exclude {
  std::uint32_t epoch = 0;
  Iteration iteration;
  std::vector<MicrobatchId> microbatches;
  bool operator==(const Exclude&) const = default;
};

// Newcomers of the running iteration, as listeners: each takes the place of its own former life, if the plan has one.
// A member that is named as no listener has been one, and now takes part in full.
struct Admit {
  std::uint32_t epoch = 0;
  Iteration iteration;
  std::vector<Member> members;
  bool operator==(const Admit&) const = default;
};

struct CheckpointComplete {
  std::uint32_t epoch = 0;
  Iteration checkpoint;
  bool operator==(const CheckpointComplete&) const = default;
};

// A new leader's first entry: commits what earlier terms left (Raft, section 5.4.2).
struct NewTerm {
  bool operator==(const NewTerm&) const = default;
};

using Decision = std::variant<NewTerm, Start, Commit, Exclude, CheckpointComplete, Admit>;

struct LogEntry {
  std::uint64_t term = 0;
  Decision decision;
  bool operator==(const LogEntry&) const = default;
};

// The log's sum so far: what any node must know to take part. A function of the log alone.
struct Ledger {
  std::uint64_t index = 0;             // of the last log entry in it
  std::uint32_t epoch = 0;             // 0: not started
  Iteration checkpoint;                // from which this epoch began
  Iteration iteration;                 // the one to be done next
  bool halted = false;                 // no iteration follows in this epoch
  Plan plan;                           // for `iteration`
  std::vector<MicrobatchId> excluded;  // of `iteration`, ascending
  std::vector<Commit> recent;          // the last two of this epoch, oldest first, without their plans
  std::vector<Iteration> checkpoints;  // complete ones, ascending, the last two
  bool operator==(const Ledger&) const = default;
};

// --- Raft among the voters -------------------------------------------------------------------------------------------

struct VoteRequest {
  std::uint64_t term = 0;
  bool pre = false;  // asks "would you?", changes nothing
  std::uint64_t last_index = 0;
  std::uint64_t last_term = 0;
};
struct VoteReply {
  std::uint64_t term = 0;
  bool pre = false;
  bool granted = false;
};
struct AppendRequest {
  std::uint64_t term = 0;
  std::uint64_t previous_index = 0;
  std::uint64_t previous_term = 0;
  std::vector<LogEntry> entries;
  std::uint64_t commit_index = 0;
  std::optional<Ledger> snapshot;  // then previous_index and previous_term are its own
};
struct AppendReply {
  std::uint64_t term = 0;
  bool ok = false;
  std::uint64_t match_index = 0;  // ok: what is stored; else: a hint where to go on
};

// --- Membership and detection ----------------------------------------------------------------------------------------

struct Ping {
  std::uint64_t nonce = 0;
};
struct Pong {
  std::uint64_t nonce = 0;
  std::uint64_t tasks_done = 0;
  bool stuck = false;  // a task has taken far longer than its kind does here
};

// A stage's state on a node's disk, after so many iterations.
struct SavedState {
  StageId stage;
  Iteration checkpoint;
  auto operator<=>(const SavedState&) const = default;
};

// Where nodes listen, as one node knows it. Handled by the process, not by the protocol.
struct Addresses {
  struct Entry {
    NodeId node;
    std::string host;
    std::uint16_t port = 0;
  };
  std::vector<Entry> entries;
};

// To any voter, until the ledger answers. The leader gives the node a place, at once or in the next plan.
struct Hello {
  Incarnation incarnation;
  std::uint16_t slots = 1;
  bool data_node = false;
  std::uint64_t configuration_hash = 0;
  StageId stage;                        // the stage it would like, or holds; 0 for data nodes; wishes are not promises
  bool any_stage = true;                // false: can hold only `stage`
  std::vector<SavedState> checkpoints;  // on its disk
  bool shared_disk = false;             // it sees every stage's checkpoints, as others that say so do
  std::uint64_t tokenizer_hash = 0;
  std::uint64_t corpus_hash = 0;  // 0: the node holds no text
};
// From a voter that is not the leader, or from a leader that cannot take the node.
struct HelloReply {
  NodeId leader = kNobody;
  std::string refusal;   // not empty: for good
  bool expired = false;  // `incarnation` was declared dead; come back as a new one
  Incarnation incarnation;
};
struct Leave {
  Incarnation incarnation;
};

// --- From the leader -------------------------------------------------------------------------------------------------

// The whole ledger (small), to whoever has less of it. Also the answer to Hello.
struct LedgerUpdate {
  std::uint64_t term = 0;
  Ledger ledger;
};

// What the log says beyond what the receiver said it knew; entries that are committed. To whoever is little behind.
struct LedgerTail {
  std::uint64_t term = 0;
  std::uint64_t previous_index = 0;
  std::vector<LogEntry> entries;
};

// Ask a node to bring (part, microbatch) about, with those who have or will have its two neighbours.
struct Assignment {
  PartId part;
  MicrobatchId microbatch;
  NodeId previous = kNobody;
  NodeId next = kNobody;
  bool operator==(const Assignment&) const = default;
};
struct Owned {
  NodeId node;
  std::vector<std::uint32_t> keys;  // contribution keys, ascending: m, and M + m for the head
  bool operator==(const Owned&) const = default;
};
struct Share {
  NodeId owner;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool operator==(const Share&) const = default;
};
// Which node's contribution counts, and who sums which range. A function of the log and the reports; any later one of
// the same term has a higher revision. `sealed` false: only assignments and deaths, no reduction yet.
struct Orders {
  Stamp stamp;
  std::uint64_t term = 0;
  std::uint64_t revision = 0;
  std::vector<Assignment> assignments;
  std::vector<NodeId> dead;  // members of the plan known dead
  bool sealed = false;
  std::vector<Owned> owners;
  std::vector<Share> shares;
  std::vector<NodeId> receivers;  // of the results: live members of the stage, listeners too
  bool operator==(const Orders&) const = default;
};

// --- To the leader ---------------------------------------------------------------------------------------------------

struct LinkSample {
  NodeId peer;
  std::uint32_t delay_us = 0;         // smoothed round trip
  std::uint32_t kilobytes_per_s = 0;  // towards the peer, smoothed; 0: nothing large was sent yet
};
// A piece of a flow that a local router (`gwtf`, `labels`) has found: unit `id` at its sender goes on to `next`, as
// whose unit `next_id`. Where units are not told apart, `units` of them go there and the ids are 0.
struct FlowPiece {
  std::uint32_t id = 0;
  NodeId next;
  std::uint32_t next_id = 0;
  std::uint32_t units = 1;
  bool operator==(const FlowPiece&) const = default;
};
// All that a node has done of the iteration; each one replaces the former. Sent on change and now and then.
struct Report {
  Stamp stamp;
  std::uint64_t term = 0;
  std::uint64_t revision = 0;  // of the last Orders seen
  std::uint64_t ledger_index = 0;
  Incarnation incarnation;
  StageId stage;
  bool ready = false;                      // holds the state of `stamp.iteration`
  std::vector<std::uint32_t> folded;       // contribution keys, ascending
  std::vector<std::vector<NodeId>> hops;   // by entry of `folded` that is an embedding: who did it, by part
  std::vector<MicrobatchId> bad;           // not finite here
  std::vector<std::uint32_t> shares_done;  // complete ranges, as indices of the orders' shares
  bool result_complete = false;
  std::uint64_t result_hash = 0;
  double sum_squares = 0;
  std::uint64_t weights_hash = 0;  // of the state of `stamp.iteration`
  std::vector<double> losses;      // by entry of `folded` that is a head
  std::vector<std::uint64_t> tokens;
  Iteration saved;                      // newest checkpoint of this life
  std::vector<SavedState> checkpoints;  // on its disk, the newest few
  bool shared_disk = false;             // as in Hello
  std::uint32_t forward_us = 0;         // measured; of a data node: the head
  std::uint32_t backward_us = 0;        // measured; 0 for a data node
  std::vector<LinkSample> links;        // that have changed since the last report; all, now and then
  std::uint64_t repairs = 0;            // counters since the process began
  std::vector<FlowPiece> flows;         // as they stand; from them the leader strings the next plan's paths
};

// Between nodes of neighbouring stages, or of one: a local router's messages. What the words mean is the router's
// matter (flow/agent.h), not the encoding's; at most kMostRoutingWords.
inline constexpr std::size_t kMostRoutingWords = 1 << 14;
struct Routing {
  Stamp stamp;  // the iteration in which the routers that speak here began
  std::vector<std::uint64_t> words;
};

// --- Pipeline --------------------------------------------------------------------------------------------------------

// The activation for `part`, with the payload. `hops[p]` is whom the sender knows for part p.
struct Forward {
  Stamp stamp;
  MicrobatchId microbatch;
  PartId part;
  bool repair = false;  // the receiver stands in for somebody
  std::vector<NodeId> hops;
  std::vector<NodeId> suspects;  // of the sender, so that two nodes do not choose each other's dead for ever
};
// The gradient for `part`, with the payload.
struct Backward {
  Stamp stamp;
  MicrobatchId microbatch;
  PartId part;
  std::vector<NodeId> hops;
  std::vector<NodeId> suspects;
};
// Asks whoever does `part` for its activation (to part + 1) or gradient (to part - 1): now if kept, else when done.
struct Want {
  Stamp stamp;
  MicrobatchId microbatch;
  PartId part;
  bool gradient = false;
  bool again = false;  // send even if it was sent before
  std::vector<NodeId> hops;
  std::vector<NodeId> suspects;
};

// The activation of held-out batch `batch` for `part`, with the payload. Nothing of it is kept, folded or done again:
// the data node on `path` asks anew if the loss does not come back.
struct Evaluate {
  Stamp stamp;
  std::uint32_t batch = 0;
  PartId part;
  std::vector<NodeId> path;
};

// --- Aggregation -----------------------------------------------------------------------------------------------------

// The sum of exactly `keys` over the range, with the payload.
struct Partial {
  Stamp stamp;
  StageId stage;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::vector<std::uint32_t> keys;
};
// The final gradient over the range, with the payload; `set_hash` is that of the keys in it.
struct Gathered {
  Stamp stamp;
  StageId stage;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t set_hash = 0;
};
// Asks for ranges of a result: all of the committed one, or of the running iteration those that the receiver owns, or
// has and the asker owns.
struct WantResult {
  Stamp stamp;
  StageId stage;
  bool committed = false;
  std::vector<std::uint64_t> have;  // begins of ranges that the asker has, of the committed one
};

// --- State transfer --------------------------------------------------------------------------------------------------

struct WantState {
  Stamp stamp;  // the iteration is the least acceptable
  StageId stage;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};
// With the payload: weights and moments of the range as they are before `stamp.iteration`.
struct StateChunk {
  Stamp stamp;
  StageId stage;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t hash = 0;  // checksum of the payload
};
// Cannot serve: has no such state (yet). The asker tries another donor.
struct NoState {
  Stamp stamp;
  StageId stage;
  std::uint64_t begin = 0;
};

using Body = std::variant<VoteRequest, VoteReply, AppendRequest, AppendReply, Ping, Pong, Hello, HelloReply, Leave,
                          LedgerUpdate, Orders, Report, Forward, Backward, Want, Partial, Gathered, WantResult,
                          WantState, StateChunk, NoState, Addresses, Evaluate, LedgerTail, Routing>;

struct Message {
  Body body;
  Payload payload;
};

// For logs and traces.
const char* name_of(const Body& body);

}  // namespace tributary::wire
