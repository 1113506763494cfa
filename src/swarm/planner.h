// The leader's choices, as pure functions: who does what in the next iteration. The seam for other routers.
#pragma once
#include <map>
#include <optional>
#include <vector>

#include "swarm/chains.h"
#include "swarm/options.h"
#include "wire/messages.h"

namespace tributary::swarm {

struct Candidate {
  wire::Member member;
  Duration forward = Duration::zero();    // measured time of a microbatch; zero: unknown, as fast as the others
  Duration backward = Duration::zero();   // likewise; zero: unknown, or a data node
  std::map<NodeId, Duration> round_trip;  // to its neighbours, where measured
  std::map<NodeId, double> bytes_per_s;   // likewise
};

// Paths for all microbatches over the members that are no listeners, by measured compute times and links, as run.router
// says: "planned" by the predicted time of the iteration, going on from the `previous` paths (predicted_paths.h);
// "earliest-finish" sends each where it is expected to finish first, and so does "swarm", whose senders choose anew;
// another flow::Router finds flows within the relays' slots at the least sum of link costs d(i,j) = (c_i + c_j)/2 +
// round trip (gwtf.md), which the microbatches take in turn; "gwtf" and "labels" have found theirs among the relays
// (`chains`). What a router does not serve falls back to earliest-finish. Requires a usable member in every stage.
// Members come back ordered by node.
wire::Plan make_plan(const RunOptions& run, const std::vector<Candidate>& candidates,
                     const std::vector<std::vector<NodeId>>& previous = {}, std::uint64_t seed = 0,
                     const Chains& chains = {});
// Whether that router runs among the relays rather than at the leader.
bool is_local(const std::string& router);

// The stage where one more relay helps most: one that the next death would empty, or else the one whose members do the
// fewest microbatches per second.
StageId neediest_stage(const RunOptions& run, const std::vector<Candidate>& members);

// Who sums how much of a stage's vector: weights (Member::share) by which the longest upload of partial sums and
// results takes the least time; all alike unless `uneven`. A link that was not measured is taken for as fast as the
// sender's others, or else as all. At most kMostShares members get one.
inline constexpr std::size_t kMostShares = 256;
void weigh_shares(const std::vector<const Candidate*>& members, wire::Plan& plan, bool uneven = true);

// The ranges that these weights mean, in pieces of the order in which they are to be sent (a function of the log, so
// that those of two leaders are the same). Cut at multiples of run.block; at most kMostPieces.
inline constexpr std::size_t kMostPieces = 64;
std::vector<wire::Share> make_shares(const RunOptions& run, const wire::Plan& plan, StageId stage);

}  // namespace tributary::swarm
