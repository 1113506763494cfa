// Voters on a simulated network and simulated disks: messages are delayed and lost, writes take time and are lost with
// a crash. One seed, one history.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "swarm/raft.h"

namespace tributary::swarm {

class RaftNet {
 public:
  RaftNet(std::uint32_t voters, std::uint64_t seed) : random_(seed) {
    for (std::uint32_t i = 0; i < voters; ++i) voters_.push_back(NodeId(i));
    for (const auto id : voters_) start(id);
  }

  const std::vector<NodeId>& voters() const { return voters_; }
  Raft* raft(NodeId id) { return machines_.at(id).raft.get(); }
  Time now() const { return now_; }
  Random& random() { return random_; }
  double loss = 0;
  std::set<std::pair<NodeId, NodeId>> blocked;
  Duration store_time = milliseconds(3);
  // Planted for the test of the test: acknowledges before the disk has it.
  bool disk_lies = false;

  void start(NodeId id) {
    auto& m = machines_[id];
    ++m.life;
    m.stores.clear();
    m.raft = std::make_unique<Raft>(RaftOptions{.self = id, .voters = voters_}, m.disk, Random(random_.next()), now_);
  }
  void crash(NodeId id) {
    auto& m = machines_[id];
    m.raft.reset();  // writes that were not synced are gone
    m.stores.clear();
    ++m.life;
  }
  void run(Duration span) {
    const auto end = now_ + span;
    while (now_ < end) step();
  }
  template <class Condition>
  bool reach(Condition condition, Duration limit = seconds(60)) {
    const auto end = now_ + limit;
    while (!condition()) {
      if (now_ > end || !violation_.empty()) return false;
      step();
    }
    return true;
  }

  std::vector<NodeId> leaders() const {
    std::vector<NodeId> out;
    for (const auto& [id, m] : machines_)
      if (m.raft && m.raft->leading()) out.push_back(id);
    return out;
  }
  // The leader of the highest term that knows all decisions; null if there is none.
  Raft* leader() {
    Raft* best = nullptr;
    for (auto& [id, m] : machines_)
      if (m.raft && m.raft->ready() && (!best || m.raft->term() > best->term())) best = m.raft.get();
    return best;
  }
  bool propose(std::uint64_t value) {
    auto* raft = leader();
    return raft && raft->propose(now_, decision(value));
  }
  // A decision that leaves a trace of its value in the ledger.
  static wire::Decision decision(std::uint64_t value) {
    return wire::Start{static_cast<std::uint32_t>(value), Iteration(value), {}};
  }
  const std::string& violation() const { return violation_; }
  std::uint64_t committed() const { return committed_.empty() ? 0 : committed_.rbegin()->first; }

 private:
  struct Store {
    Time done;
    std::uint64_t sequence;
    wire::DurableLog log;
  };
  struct Machine {
    std::unique_ptr<Raft> raft;
    wire::DurableLog disk;
    std::vector<Store> stores;
    std::uint64_t life = 0;
  };
  struct Flight {
    Time arrival;
    NodeId from, to;
    std::uint64_t life;
    wire::Body body;
  };

  void step() {
    now_ += milliseconds(1);
    for (auto& [id, m] : machines_) {
      if (!m.raft) continue;
      while (!m.stores.empty() && m.stores.front().done <= now_) {
        m.disk = m.stores.front().log;
        const auto sequence = m.stores.front().sequence;
        m.stores.erase(m.stores.begin());
        m.raft->stored(now_, sequence);
      }
      m.raft->tick(now_);
      effects(id, m);
    }
    std::vector<Flight> arrived;
    std::erase_if(flights_, [&](const Flight& f) {
      if (f.arrival > now_) return false;
      arrived.push_back(f);
      return true;
    });
    for (const auto& f : arrived) {
      auto& m = machines_[f.to];
      if (!m.raft || m.life != f.life || blocked.contains({f.from, f.to})) continue;
      std::visit(
          [&](const auto& body) {
            if constexpr (requires { m.raft->receive(now_, f.from, body); }) m.raft->receive(now_, f.from, body);
          },
          f.body);
      effects(f.to, m);
    }
    check();
  }
  void effects(NodeId id, Machine& m) {
    if (m.raft->take_dirty()) {
      m.stores.push_back({now_ + store_time, m.raft->store_sequence(), m.raft->durable()});
      if (disk_lies) m.raft->stored(now_, m.raft->store_sequence());
    }
    for (auto& [to, body] : m.raft->take_messages()) {
      if (random_.chance(loss)) continue;
      flights_.push_back({now_ + milliseconds(random_.between(1, 30)), id, to, machines_[to].life, std::move(body)});
    }
  }
  // At most one leader a term; one and the same ledger at each index, for ever.
  void check() {
    for (const auto& [id, m] : machines_) {
      if (!m.raft) continue;
      if (m.raft->leading()) {
        const auto [at, added] = leader_of_.try_emplace(m.raft->term(), id);
        if (!added && at->second != id) violation_ = "two leaders of term " + std::to_string(m.raft->term());
      }
      const auto& ledger = m.raft->ledger();
      const auto hash = checksum64(wire::encode_ledger(ledger));
      const auto [at, added] = committed_.try_emplace(ledger.index, hash);
      if (!added && at->second != hash) violation_ = "two decisions at index " + std::to_string(ledger.index);
    }
  }

  Random random_;
  Time now_{};
  std::vector<NodeId> voters_;
  std::map<NodeId, Machine> machines_;
  std::vector<Flight> flights_;
  std::map<std::uint64_t, NodeId> leader_of_;
  std::map<std::uint64_t, std::uint64_t> committed_;
  std::string violation_;
};

}  // namespace tributary::swarm
