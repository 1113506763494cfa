// One node of the label router: a state machine that gets messages and leaves messages and timers in its outbox. It has
// no clock. Internal to src/flow.
//
// The residual problem is a circulation over sides: in(v) -> out(v) if v has room, out(v) -> in(v) if it carries a
// flow, out(u) -> in(v) for one flow more over the link, in(v) -> out(u) for one less. At a data node the first costs
// -M and the second M, with M above all else, so that flows are many first and cheap second. State changes by commits
// only; reservations are never waited for: who cannot reserve aborts.
//
// Links come up while it works (link_up); a peer that is lost takes its label with it, and the tokens and walkers that
// were with it do not come back: whoever drives the nodes lets them begin anew, from the flows that stand. A message
// that cannot be meant for this node is ignored and counted.
#pragma once
#include <cstdint>
#include <map>
#include <utility>
#include <variant>
#include <vector>

#include "flow/labels.h"

namespace tributary::flow::labels {

using Side = std::uint32_t;  // node * 2, + 1 for its out side
inline Side in_side(std::uint32_t node) { return node * 2; }
inline Side out_side(std::uint32_t node) { return node * 2 + 1; }
inline std::uint32_t node_of(Side side) { return side / 2; }
inline bool is_out(Side side) { return side % 2; }

struct Step {
  Side side;
  Cost rest;  // of the path from here to its end
  bool operator==(const Step&) const = default;
};
// The cheapest walk found from a side, itself first; of cost 0 if it ends there.
struct Label {
  std::uint64_t version = 0;
  std::vector<Step> path;
  Cost cost() const { return path.empty() ? 0 : path.front().rest; }
};

struct LabelUpdate {
  Side side;
  Label label;
};
// A token on its way round a cycle; `at` is the side that it visits. A last visit of the first side ends a lap.
enum class Lap { kPrepare, kCommit, kAbort };
struct Token {
  Lap lap;
  std::size_t at;
  std::vector<Side> cycle;
};
// A first flow: it walks to the cheapest peer that it does not know to be full, reserving, and back where none is left.
enum class Walk { kForward, kBack, kConfirm };
struct Walker {
  Walk walk;
  std::size_t at;  // index in path
  std::vector<std::uint32_t> path;
};
using Body = std::variant<LabelUpdate, Token, Walker>;
struct Message {
  std::uint32_t from, to;
  Body body;
};
enum class Timer { kEvaluateIn, kEvaluateOut, kGrow };

struct NodeSetup {
  std::uint32_t id = 0;
  bool data_node = false, last_stage = false;
  std::int32_t capacity = 0;
  Cost one_flow = 0;      // M
  std::size_t sides = 0;  // of all nodes: no path is longer
};

class Node {
 public:
  Node(const NodeSetup& setup, const LabelsOptions& options);
  // A unit of flow that stands already, between those two peers; before start().
  void adopt(std::uint32_t from, std::uint32_t to);
  void start();
  // Sends out a walker for each flow that a data node could begin and has not.
  void walk();
  // A link to or from a peer, or what it costs now.
  void link_up(bool to_next, std::uint32_t peer, Cost cost);
  void peer_lost(std::uint32_t peer);
  void handle(const Message& message);
  void handle(Timer timer);
  std::vector<Message> take_outbox() { return std::exchange(outbox_, {}); }
  std::vector<Timer> take_timers() { return std::exchange(timers_, {}); }

  const std::map<std::uint32_t, std::int32_t>& flows_in() const { return flows_in_; }
  const std::map<std::uint32_t, std::int32_t>& flows_out() const { return flows_out_; }
  // None as long as no peer is lost.
  std::uint64_t ignored() const { return ignored_; }
  std::int32_t load() const { return load_; }

 private:
  struct Peer {
    std::uint32_t node;
    Cost cost;
    Label label;  // of its in side (next) or its out side (last)
    bool full = false;
  };

  void on(const LabelUpdate& update);
  void on(Token token);
  void on(Walker walker);
  bool reserve(Side from, Side to);
  void release(Side from, Side to);
  void commit(Side from, Side to);
  void arrived(Side from);
  void token_is_back();
  void walk_on(Walker walker);
  void pass_on(Walker walker);

  void evaluate(bool out);
  void consider(bool out, Cost arc, const Label& label, std::vector<Step>& best);
  void start_token(std::vector<Side> cycle);
  void soon(bool out);
  bool has_room() const { return load_ + reserved_room_ < setup_.capacity; }
  bool can_lose() const { return load_ - reserved_loss_ > 0; }
  // Null: there is none.
  static Peer* peer(std::vector<Peer>& peers, std::uint32_t node);
  bool plausible(const Token& token);
  bool plausible(const Walker& walker);
  void send(std::uint32_t to, Body body) { outbox_.push_back({setup_.id, to, std::move(body)}); }

  const NodeSetup setup_;
  std::vector<Peer> next_, last_;
  Label own_[2];  // in, out
  std::size_t length_;
  bool due_[2] = {false, false};
  bool changed_ = false;  // since the last timer to grow
  bool token_out_ = false;
  bool started_ = false;
  std::uint64_t ignored_ = 0;

  std::int32_t load_ = 0, reserved_room_ = 0, reserved_loss_ = 0;
  std::map<std::uint32_t, std::int32_t> flows_in_, reserved_in_, flows_out_;
  std::vector<Message> outbox_;
  std::vector<Timer> timers_;
};

}  // namespace tributary::flow::labels
