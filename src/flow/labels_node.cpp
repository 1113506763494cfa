#include "flow/labels_node.h"

#include <algorithm>

#include "base/check.h"

namespace tributary::flow::labels {

Node::Node(const NodeSetup& setup, const LabelsOptions& options) : setup_(setup), length_(options.first_length) {
  own_[0].path = {{in_side(setup_.id), 0}};
  own_[1].path = {{out_side(setup_.id), 0}};
}

void Node::adopt(std::uint32_t from, std::uint32_t to) {
  ++flows_in_[from];
  ++flows_out_[to];
  ++load_;
}

void Node::start() {
  started_ = true;
  timers_.push_back(Timer::kGrow);
  soon(false);
  soon(true);
}

void Node::walk() {
  if (!setup_.data_node) return;
  for (auto missing = setup_.capacity - load_ - reserved_room_; missing > 0; --missing) {
    ++reserved_room_;
    walk_on({Walk::kForward, 0, {setup_.id}});
  }
}

void Node::link_up(bool to_next, std::uint32_t node, Cost cost) {
  auto& peers = to_next ? next_ : last_;
  if (Peer* known = peer(peers, node)) {
    known->cost = cost;
  } else {
    peers.push_back({node, cost, {}, false});
    // What the new one has not heard; an out side matters only to those that this node sends to.
    const auto units = flows_out_.find(node);
    const bool matters = !to_next || (units != flows_out_.end() && units->second > 0);
    if (own_[to_next].version > 0 && matters) send(node, LabelUpdate{own_[to_next].path.front().side, own_[to_next]});
  }
  if (started_) soon(to_next);
}

void Node::peer_lost(std::uint32_t node) {
  for (auto* peers : {&next_, &last_}) std::erase_if(*peers, [&](const Peer& each) { return each.node == node; });
  if (!started_) return;
  soon(false);
  soon(true);
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
  return found == peers.end() ? nullptr : &*found;
}

// Any change is looked at after a short while, together with those that follow.
void Node::soon(bool out) {
  if (std::exchange(due_[out], true)) return;
  timers_.push_back(out ? Timer::kEvaluateOut : Timer::kEvaluateIn);
}

void Node::on(const LabelUpdate& update) {
  const std::uint32_t from = node_of(update.side);
  const bool of_next = !is_out(update.side);
  Peer* const sender = peer(of_next ? next_ : last_, from);
  if (!sender || update.label.path.empty() || update.label.path.front().side != update.side) {
    ++ignored_;
    return;
  }
  Label& known = sender->label;
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

// Whether it visits a side of this node, and all that it asks of it is of links that there are.
bool Node::plausible(const Token& token) {
  const auto& cycle = token.cycle;
  if (cycle.size() < 2 || cycle.size() > setup_.sides || token.at > cycle.size()) return false;
  const auto side = [&](std::size_t index) { return cycle[index % cycle.size()]; };
  for (std::size_t k = 0; k < cycle.size(); ++k) {
    if (node_of(side(k)) != setup_.id) continue;
    for (const Side beside : {side(k + 1), side(k + cycle.size() - 1)}) {
      const bool own = node_of(beside) == setup_.id;
      if (is_out(beside) == is_out(side(k)) || (!own && !peer(is_out(side(k)) ? next_ : last_, node_of(beside))))
        return false;
    }
  }
  const bool ends_lap = token.at == cycle.size() || (token.lap == Lap::kAbort && token.at == 0);
  return node_of(side(token.at)) == setup_.id && (!ends_lap || token_out_);
}

bool Node::plausible(const Walker& walker) {
  const auto& path = walker.path;
  if (walker.at >= path.size() || path[walker.at] != setup_.id || path.size() > setup_.sides) return false;
  const bool comes_back = walker.walk != Walk::kForward;
  if (comes_back && (walker.at + 1 >= path.size() || !peer(next_, path[walker.at + 1]) || reserved_room_ <= 0))
    return false;
  return walker.at == 0 ? setup_.data_node && comes_back : peer(last_, path[walker.at - 1]) != nullptr;
}

void Node::on(Token token) {
  if (!plausible(token)) {
    ++ignored_;
    return;
  }
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
  if (!plausible(walker)) {
    ++ignored_;
    return;
  }
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
