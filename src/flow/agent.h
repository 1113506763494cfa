// A node's part in a decentralised router, while a swarm trains: it knows its own flows and links and what its peers
// say, gets words and gives words. No clock, no network; src/swarm/local_routing.h drives it. Peers are named by
// numbers that all nodes share (NodeId values).
#pragma once
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "flow/words.h"

namespace tributary::flow {

struct AgentSetup {
  std::uint32_t id = 0;
  bool data_node = false;
  bool first_stage = false, last_stage = false;  // of relays
  std::int32_t capacity = 0;                     // flows through it at most; of a data node: that it begins
  std::size_t nodes = 0;                         // in the swarm, about: bounds the length of walks
  std::uint64_t seed = 0;
  bool settled = false;  // goes on from flows that are good already: tries no worse ones first
};
// Where a peer stands, seen from a node: in the next stage, in the stage before, beside it in its own.
enum class AgentSide { kNext, kLast, kBeside };
// A flow that stands already: [data node, relay of stage 1 .. S, the same data node].
using AgentPath = std::vector<std::uint32_t>;

// One piece of a flow as its node knows it: unit `id` goes on to `next`, where it is unit `next_id`. Where units are
// not told apart both are 0, and `units` of them go there.
struct AgentFlow {
  std::uint32_t id = 0, next = 0, next_id = 0, units = 1;
};
// To be called back: after a small part of the usual delay of messages, or after some of them without news.
enum class AgentTimer : std::uint32_t { kSoon, kSoonToo, kQuiet };

class Agent {
 public:
  struct Out {
    std::uint32_t to;
    Words words;
  };
  virtual ~Agent() = default;
  // Once, before all else but links. `flows`: those that all nodes agree to begin with, in one order.
  virtual void start(const std::vector<AgentPath>& flows) = 0;
  // A link, or what it costs now; both ends are told the same. Requires 0 <= cost <= kMostLinkCost.
  virtual void link_up(AgentSide side, std::uint32_t peer, Cost cost) = 0;
  virtual void peer_lost(std::uint32_t peer) = 0;
  // False: that is no message, or nothing that this peer may say here.
  virtual bool receive(std::uint32_t from, std::span<const std::uint64_t> words) = 0;
  virtual void timer(AgentTimer timer) = 0;
  // A new iteration begins: what is bounded by iteration may begin anew.
  virtual void renew() = 0;

  virtual std::vector<Out> take_outbox() = 0;
  virtual std::vector<AgentTimer> take_timers() = 0;
  virtual std::vector<AgentFlow> flows() const = 0;
};

inline constexpr Cost kMostLinkCost = Cost{1} << 26;  // microseconds: 67 s

// "gwtf" or "labels"; null: another name.
std::unique_ptr<Agent> make_agent(std::string_view router, const AgentSetup& setup);

}  // namespace tributary::flow
