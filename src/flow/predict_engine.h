// The event-driven program behind predict.h. Internal to src/flow.
//
// A microbatch is one token that moves: positions 0 (its data node launches it), 1..S (relays), S + 1 (the data node's
// head), and back. Everything due at an instant is handled before any task or transmission is chosen at that instant.
#pragma once
#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "flow/predict.h"

namespace tributary::flow {

// Sorted by operator<; what is pushed mostly belongs at the end, what is popped stands at the front.
template <class T>
class OrderedQueue {
 public:
  bool empty() const { return head_ == items_.size(); }
  const T& front() const { return items_[head_]; }
  void push(const T& item) {
    if (empty()) clear();
    items_.push_back(item);
    for (std::size_t k = items_.size() - 1; k > head_ && items_[k] < items_[k - 1]; --k)
      std::swap(items_[k], items_[k - 1]);
  }
  void pop() { ++head_; }
  void clear() {
    items_.clear();
    head_ = 0;
  }
  template <class Predicate>
  void erase_if(Predicate predicate) {
    const auto from = items_.begin() + static_cast<std::ptrdiff_t>(head_);
    items_.erase(std::remove_if(from, items_.end(), predicate), items_.end());
  }

 private:
  std::vector<T> items_;
  std::size_t head_ = 0;
};

class PredictEngine final : PredictPolicy::View {
 public:
  explicit PredictEngine(const PredictWorld& world);
  const Prediction& run(const PredictPlan& plan, const PredictFaults& faults, PredictTrace* trace,
                        PredictPolicy* policy);
  void restage();

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  // In the order in which an instant handles them.
  enum class EventKind : std::uint32_t { kCrash, kTaskEnd, kSent, kDelivery, kDetection, kControl };
  struct Event {
    double at;
    EventKind kind;
    std::uint32_t order;  // ties in the order scheduled
    std::uint32_t node;
    std::uint32_t what;  // message, dead node, or microbatch, by kind
    std::uint32_t turn;  // of the node's transmission, which may have been stopped since
  };
  struct LaterEvent {
    bool operator()(const Event& a, const Event& b) const {
      if (a.at != b.at) return a.at > b.at;
      return a.kind != b.kind ? a.kind > b.kind : a.order > b.order;
    }
  };
  enum class MessageKind : std::uint8_t { kForward, kGradient, kRequest, kReplay };
  struct Message {
    std::uint32_t from, to, microbatch, position;  // position: of the receiver
    MessageKind kind;
    bool repair;          // a forward message that makes up for a dead relay's work
    std::uint32_t asked;  // requests: the position whose relay died
    double enqueued_s;
    bool sent = false;  // completely
  };
  struct Task {
    double ready_s = 0;
    std::uint32_t id = 0;  // of the microbatch, for ties
    std::uint32_t microbatch = 0;
    std::uint32_t position = 0;
    char kind = 0;
    bool repair = false;
    double since_s = 0;  // when its message was enqueued
    bool operator<(const Task& other) const {
      return ready_s != other.ready_s ? ready_s < other.ready_s : id < other.id;
    }
  };
  struct Waiting {
    double enqueued_s;
    std::uint32_t id, message;
    bool operator<(const Waiting& other) const {
      return enqueued_s != other.enqueued_s ? enqueued_s < other.enqueued_s : id < other.id;
    }
  };
  struct NodeState {
    OrderedQueue<Task> forward, repair, backward;  // a data node's heads: forward
    OrderedQueue<Waiting> uplink;
    Task task;
    double task_start_s = 0, send_start_s = 0;
    std::uint32_t sending = kNone;  // message
    std::uint32_t turn = 0;
    std::int32_t held = 0;  // relays: slots; data nodes: launched and not done
    bool busy = false, dead = false, marked = false;
  };

  void reset();
  void launch_all();
  void launch(std::uint32_t data_node);
  void schedule(double at, EventKind kind, std::uint32_t node, std::uint32_t what, std::uint32_t turn = 0);
  void handle(const Event& event);
  void end_task(std::uint32_t node);
  void end_send(std::uint32_t node);
  void deliver(Message message);
  void mark(std::uint32_t node);
  void choose();
  void choose_task(std::uint32_t node);
  void choose_send(std::uint32_t node);
  void start(std::uint32_t node, OrderedQueue<Task>& queue);
  void finish();
  double aggregation(std::uint32_t stage);

  std::uint32_t node_at(std::uint32_t microbatch, std::uint32_t position) const;
  std::uint32_t& slot(std::vector<std::uint32_t>& table, std::uint32_t microbatch, std::uint32_t position) {
    return table[microbatch * (stages_ + 2) + position];
  }
  void send_forward(std::uint32_t from, std::uint32_t microbatch, std::uint32_t position, bool repair);
  void send_gradient(std::uint32_t from, std::uint32_t microbatch, std::uint32_t position);
  void enqueue(std::uint32_t from, Message message);

  // predict_recovery.cpp
  void reset_faults();
  void crash(std::uint32_t node);
  void learn(std::uint32_t node, std::uint32_t dead);
  void deal_with(std::uint32_t node, std::uint32_t dead);
  void withdraw(std::uint32_t node, std::uint32_t message);
  void expect_detection(std::uint32_t node, std::uint32_t dead);
  void detected(std::uint32_t node, std::uint32_t dead);
  void orphaned(std::uint32_t message);
  void missed(std::uint32_t message);
  bool missed_all();
  void recover_gradient(std::uint32_t from, std::uint32_t microbatch, std::uint32_t position);
  void ask(std::uint32_t from, std::uint32_t microbatch, std::uint32_t position);
  void asked(Message request);
  void restart(std::uint32_t from, std::uint32_t microbatch);
  void close_messages(std::uint32_t sender, std::uint32_t sent);
  // predict_replay.cpp
  bool unfinished() const;
  void replay_for(std::uint32_t dead);
  void replay(std::uint32_t microbatch, std::uint32_t stage);
  void replay_arrived(std::uint32_t node, std::uint32_t microbatch, std::uint32_t stage);
  void replayed(std::uint32_t node, const Task& task);
  bool knows_dead(std::uint32_t node, std::uint32_t dead) const override { return knows(node, dead); }
  std::int32_t given(std::uint32_t relay) const override { return given_[relay]; }
  void ask_again();

  bool knows(std::uint32_t node, std::uint32_t dead) const {
    return faulty_ && known_at_[node * nodes_.size() + dead] <= now_;
  }
  std::uint32_t replacement(std::uint32_t chooser, std::uint32_t stage) const;

  const PredictWorld& world_;
  const std::uint32_t stages_;
  std::vector<double> transfer_s_;                  // [from * n + to]
  std::vector<std::vector<std::uint32_t>> relays_;  // [stage - 1]
  std::vector<double> aggregation_s_[2];            // ring, uneven; [stage - 1], with all relays; -1: not yet known
  std::vector<std::uint32_t> live_;                 // scratch

  const PredictPlan* plan_ = nullptr;
  const PredictFaults* faults_ = nullptr;
  PredictTrace* trace_ = nullptr;
  PredictPolicy* policy_ = nullptr;
  Prediction result_;

  double now_ = 0;
  std::uint32_t order_ = 0;
  std::vector<Event> events_;  // a heap
  std::vector<Message> messages_;
  std::vector<NodeState> nodes_;
  std::vector<std::uint32_t> marked_;                    // nodes that may have something to start
  std::vector<std::uint32_t> launch_row_;                // microbatches by (data node, id)
  std::vector<std::uint32_t> next_launch_, end_launch_;  // by node: its part of launch_row_
  std::vector<std::uint32_t> path_;                      // [microbatch][position]
  std::size_t done_ = 0;

  bool faulty_ = false;
  // [microbatch][position]: the node that keeps it, or kNone.
  std::vector<std::uint32_t> kept_output_, kept_gradient_;
  std::vector<std::uint32_t> holds_slot_;    // [microbatch][position]: the relay whose slot it holds, or kNone
  std::vector<double> known_at_, expected_;  // [node * n + dead]: since when known; instant of the detection to come
  std::vector<std::vector<std::uint32_t>> open_;  // by microbatch: messages that are pending
  std::vector<std::uint8_t> waits_restart_;
  std::size_t stalls_ = 0;
  // A part that is being done again: by whom, and how many of its two inputs are there.
  struct Replay {
    std::uint32_t microbatch, stage, node;
    int inputs;
  };
  std::vector<Replay> replays_;

  struct Parked {
    std::uint32_t from, microbatch, position;
    bool repair;
  };
  std::vector<Parked> parked_;       // that the policy let wait
  std::vector<std::int32_t> given_;  // with a policy
};

}  // namespace tributary::flow
