// A node's part in a local router (swarm.router = "gwtf" or "labels"): it drives a flow::Agent with what this node may
// know, its own compute time, its own links and what nodes of its own stage and of those beside it say, while training
// runs. The flows that come of it ride in the reports (fill()); the leader strings them to the next plan's paths.
//
// The agents of a swarm begin together, in an iteration that is their generation, from the flows in its plan, and go on
// over iterations. They begin anew when the plan's members have changed, when a peer that was lost is heard again, and
// now and then anyhow, so that nothing that was lost on its way is lost for long. Who hears from a generation of the
// running iteration that is newer than its own joins it.
//
// Costs of links are microseconds: d(u, v) = (c_u + c_v) / 2 + round trip / 2 + bytes / rate (gwtf.md), measured by u;
// v tells u its compute time c_v, and is told the cost.
//
// Protocol thread only. Does nothing at all with another router.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "flow/agent.h"
#include "swarm/context.h"

namespace tributary::swarm {

class LocalRouting {
 public:
  static constexpr std::size_t kMostEarly = 1024;
  // In stages that are larger, so many peers on average, the same for both ends of a link.
  static constexpr std::uint32_t kMostPeers = 32;

  explicit LocalRouting(Context& context);

  // An iteration begins, with the ledger's plan; `member`: this node takes part in full.
  void begin(bool member, StageId stage);
  void receive(NodeId from, const wire::Routing& message);
  void peer_lost(NodeId peer);
  // The round trip to that peer is known.
  void measured(NodeId peer);
  void tick();
  Time next_wake() const;
  void fill(wire::Report& report) const;

  // For tests: what the links to the next stage cost, by peer.
  const std::map<NodeId, flow::Cost>& links() const { return links_; }

 private:
  enum class Kind : std::uint64_t { kGreet, kLinkCost, kAgent, kBye };

  void start(bool settled);
  bool same_members() const;
  std::vector<flow::AgentPath> standing_flows() const;
  // Its stage, if it is a peer in the generation's plan; counted from this node's: 0 beside, 1 next.
  bool is_peer(NodeId node, int away) const;
  void greet(NodeId peer);
  void link(NodeId peer);
  void say(NodeId to, Kind kind, std::vector<std::uint64_t> words);
  void take(NodeId from, const std::vector<std::uint64_t>& words);
  void flush();
  flow::Cost compute_us() const;
  Duration usual_delay() const;

  Context& context_;
  const bool used_;
  bool member_ = false;
  StageId stage_;
  std::unique_ptr<flow::Agent> agent_;
  wire::Stamp generation_;
  std::vector<wire::Member> members_;             // full ones, when it began
  std::map<NodeId, StageId> peers_;               // of this stage and those beside it that this node deals with
  std::set<NodeId> up_;                           // that the agent deals with
  std::set<NodeId> lost_;                         // since the generation began
  std::map<NodeId, flow::Cost> greeted_, links_;  // of the next stage: compute times as told, costs
  flow::Cost told_compute_ = 0;
  bool anew_ = false;  // with the next iteration
  std::map<flow::AgentTimer, Time> timers_;
  std::deque<std::pair<NodeId, wire::Routing>> early_;
};

}  // namespace tributary::swarm
