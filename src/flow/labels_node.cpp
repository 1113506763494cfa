#include "flow/labels_node.h"

#include <algorithm>

#include "base/check.h"

namespace tributary::flow::labels {

Node::Node(NodeSetup setup, const LabelsOptions& options) : setup_(std::move(setup)), length_(options.first_length) {
  const auto peers = [](const auto& links) {
    std::vector<Peer> list;
    for (const auto& [node, cost] : links) list.push_back({node, cost, {}, false});
    return list;
  };
  next_ = peers(setup_.next);
  last_ = peers(setup_.last);
  own_[0].path = {{in_side(setup_.id), 0}};
  own_[1].path = {{out_side(setup_.id), 0}};
}

void Node::start() {
  timers_.push_back(Timer::kGrow);
  soon(false);
  soon(true);
  if (!setup_.data_node) return;
  for (std::int32_t k = 0; k < setup_.capacity; ++k) {
    ++reserved_room_;
    walk_on({Walk::kForward, 0, {setup_.id}});
  }
}

void Node::handle(const Message& message) {
  std::visit([&](const auto& body) { on(body); }, message.body);
}

void Node::handle(Timer timer) {
  if (timer != Timer::kGrow) {
    const bool out = timer == Timer::kEvaluateOut;
    due_[out] = false;
    return evaluate(out);
  }
  if (length_ >= setup_.sides) return;
  if (!std::exchange(changed_, false)) {
    length_ = std::min(setup_.sides, length_ + length_ / 2 + 1);
    soon(false);
    soon(true);
  }
  if (length_ < setup_.sides) timers_.push_back(Timer::kGrow);
}

Node::Peer* Node::peer(std::vector<Peer>& peers, std::uint32_t node) {
  const auto found = std::find_if(peers.begin(), peers.end(), [&](const Peer& each) { return each.node == node; });
  TRIBUTARY_CHECK(found != peers.end(), "a message from a stranger");
  return &*found;
}

// Any change is looked at after a short while, together with those that follow.
void Node::soon(bool out) {
  if (std::exchange(due_[out], true)) return;
  timers_.push_back(out ? Timer::kEvaluateOut : Timer::kEvaluateIn);
}

void Node::on(const LabelUpdate& update) {
  const std::uint32_t from = node_of(update.side);
  const bool of_next = !is_out(update.side);
  Label& known = peer(of_next ? next_ : last_, from)->label;
  if (update.label.version <= known.version) return;
  known = update.label;
  soon(of_next);
}

// A path that holds the own side cannot be taken; if the way until there is negative, it is a cycle that gains.
void Node::consider(bool out, Cost arc, const Label& label, std::vector<Step>& best) {
  const Side self = own_[out].path.front().side;
  if (label.path.empty()) return;
  const Cost whole = arc + label.cost();
  for (std::size_t k = 0; k < label.path.size(); ++k) {
    if (label.path[k].side != self) continue;
    if (whole - label.path[k].rest >= 0) return;
    std::vector<Side> cycle{self};
    for (std::size_t i = 0; i < k; ++i) cycle.push_back(label.path[i].side);
    return start_token(std::move(cycle));
  }
  if (label.path.size() + 1 > length_ || whole > best.front().rest) return;
  // Equal costs: the shorter path, then the lower numbers, so that labels come to rest.
  const auto sides_before = [&] {
    if (label.path.size() + 1 != best.size()) return label.path.size() + 1 < best.size();
    return std::lexicographical_compare(label.path.begin(), label.path.end(), best.begin() + 1, best.end(),
                                        [](const Step& a, const Step& b) { return a.side < b.side; });
  };
  if (whole == best.front().rest && !sides_before()) return;
  best.assign(1, {self, whole});
  best.insert(best.end(), label.path.begin(), label.path.end());
}

void Node::evaluate(bool out) {
  const Cost one_flow = setup_.data_node ? setup_.one_flow : 0;
  std::vector<Step> best{{own_[out].path.front().side, 0}};
  if (out) {
    for (const Peer& each : next_) consider(true, each.cost, each.label, best);
    if (can_lose()) consider(true, one_flow, own_[0], best);
  } else {
    for (const Peer& each : last_) {
      const auto units = flows_in_.find(each.node);
      if (units == flows_in_.end() || units->second <= reserved_in_[each.node]) continue;
      consider(false, -each.cost, each.label, best);
    }
    if (has_room()) consider(false, -one_flow, own_[1], best);
  }
  if (best == own_[out].path && own_[out].version > 0) return;
  changed_ = true;
  own_[out].path = std::move(best);
  ++own_[out].version;
  soon(!out);
  // An in side matters to all that could send here, an out side to those that it sends to.
  if (!out)
    for (const Peer& each : last_) send(each.node, LabelUpdate{own_[0].path.front().side, own_[0]});
  else
    for (const auto& [node, units] : flows_out_)
      if (units > 0) send(node, LabelUpdate{own_[1].path.front().side, own_[1]});
}

void Node::start_token(std::vector<Side> cycle) {
  if (token_out_ || cycle.size() < 2) return;
  auto sorted = cycle;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) return;  // pieced together from old labels
  token_out_ = true;
  on(Token{Lap::kPrepare, 0, std::move(cycle)});
}

// Whether the change from one side to the next of a cycle can be made here, and a claim on it.
bool Node::reserve(Side from, Side to) {
  const std::uint32_t other = node_of(to);
  if (other == setup_.id) {
    std::int32_t& reserved = is_out(from) ? reserved_loss_ : reserved_room_;
    if (is_out(from) ? !can_lose() : !has_room()) return false;
    ++reserved;
    soon(is_out(from));
    return true;
  }
  if (is_out(from)) return true;  // a link takes any number
  const auto units = flows_in_.find(other);
  if (units == flows_in_.end() || units->second <= reserved_in_[other]) return false;
  ++reserved_in_[other];
  soon(false);
  return true;
}

void Node::release(Side from, Side to) {
  soon(is_out(from));
  if (node_of(to) == setup_.id) {
    --(is_out(from) ? reserved_loss_ : reserved_room_);
  } else if (!is_out(from)) {
    --reserved_in_[node_of(to)];
  }
}

void Node::commit(Side from, Side to) {
  release(from, to);
  soon(!is_out(from));
  const std::uint32_t other = node_of(to);
  if (other == setup_.id) {
    load_ += is_out(from) ? -1 : 1;
  } else if (is_out(from)) {
    if (++flows_out_[other] == 1) send(other, LabelUpdate{own_[1].path.front().side, own_[1]});
  } else {
    --flows_in_[other];
  }
}

// The other end of a change that was committed at the node before.
void Node::arrived(Side from) {
  const std::uint32_t other = node_of(from);
  if (other == setup_.id) return;
  soon(false);
  soon(true);
  if (is_out(from)) {
    ++flows_in_[other];
  } else {
    --flows_out_[other];
  }
}

void Node::token_is_back() {
  token_out_ = false;
  soon(false);
  soon(true);
}

void Node::on(Token token) {
  const auto& cycle = token.cycle;
  const auto side = [&](std::size_t index) { return cycle[index % cycle.size()]; };
  // Sides of one node that follow each other need no message.
  for (;;) {
    const std::size_t at = token.at;
    if (token.lap == Lap::kAbort) {
      release(side(at), side(at + 1));
      if (at == 0) return token_is_back();
      --token.at;
    } else if (at == cycle.size()) {
      if (token.lap == Lap::kCommit) {
        arrived(side(at - 1));
        return token_is_back();
      }
      token.lap = Lap::kCommit;
      token.at = 0;
    } else if (token.lap == Lap::kPrepare) {
      if (!reserve(side(at), side(at + 1))) {
        soon(is_out(side(at)));
        token.lap = Lap::kAbort;
        if (at == 0) return token_is_back();
        --token.at;
      } else {
        ++token.at;
      }
    } else {
      if (at > 0) arrived(side(at - 1));
      commit(side(at), side(at + 1));
      ++token.at;
    }
    const std::uint32_t to = node_of(side(token.at));
    if (to == setup_.id) continue;
    return send(to, std::move(token));
  }
}

void Node::pass_on(Walker walker) {
  const std::uint32_t to = walker.path[walker.at];
  send(to, std::move(walker));
}

void Node::walk_on(Walker walker) {
  Peer* best = nullptr;
  for (Peer& each : next_) {
    if (each.full || (setup_.last_stage && each.node != walker.path.front())) continue;
    if (!best || each.cost < best->cost) best = &each;
  }
  if (best) {
    walker.path.resize(walker.at + 1);
    walker.path.push_back(best->node);
    walker.walk = Walk::kForward;
    ++walker.at;
    return pass_on(std::move(walker));
  }
  --reserved_room_;
  soon(false);
  if (walker.at == 0) return;
  walker.walk = Walk::kBack;
  --walker.at;
  pass_on(std::move(walker));
}

void Node::on(Walker walker) {
  const bool home = walker.at > 0 && setup_.data_node;
  if (walker.walk == Walk::kForward && home) {
    // The whole way is reserved: it is confirmed backwards, its end first.
    walker.walk = Walk::kConfirm;
    ++flows_in_[walker.path[walker.at - 1]];
    soon(false);
    --walker.at;
    return pass_on(std::move(walker));
  }
  if (walker.walk == Walk::kForward) {
    if (!has_room()) {
      walker.walk = Walk::kBack;
      --walker.at;
      return pass_on(std::move(walker));
    }
    ++reserved_room_;
    return walk_on(std::move(walker));
  }
  if (walker.walk == Walk::kBack) {
    peer(next_, walker.path[walker.at + 1])->full = true;
    return walk_on(std::move(walker));
  }
  --reserved_room_;
  ++load_;
  soon(false);
  soon(true);
  const std::uint32_t to = walker.path[walker.at + 1];
  if (++flows_out_[to] == 1) send(to, LabelUpdate{own_[1].path.front().side, own_[1]});
  if (walker.at == 0) return;
  ++flows_in_[walker.path[walker.at - 1]];
  --walker.at;
  pass_on(std::move(walker));
}

}  // namespace tributary::flow::labels
