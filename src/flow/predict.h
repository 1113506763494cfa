// The cost model: how long an iteration takes on given nodes, links, slots and paths, with crashes and recovery. One
// event-driven program for the planner, the `plan` and `sim play` commands and the lab, held to the exact scenarios of
// tests/data/sim (their rules: docs/methods.md).
//
// Times are seconds in doubles, on purpose: sums of multiples of 1/64 s are exact. Pure; a Predictor belongs to one
// thread. Memory: some 100 bytes for each hop of each microbatch, and three matrices of nodes x nodes.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"

namespace tributary::flow {

struct PredictNode {
  std::uint32_t stage = 0;    // 0: data node
  double forward_s = 0;       // relays: the forward pass of one microbatch
  double head_s = 0;          // data nodes: head, loss and their backward pass
  std::int32_t capacity = 1;  // relays: slots; data nodes: microbatches launched and not done
};

// What does not change from plan to plan. Nodes are numbered 0..n-1.
struct PredictWorld {
  std::vector<PredictNode> nodes;
  std::vector<double> latency_s;      // [from * n + to], one way
  std::vector<double> bandwidth_Bps;  // [from * n + to]; 0: no link
  double message_bytes = 0;           // every activation and every gradient
  double backward_ratio = 2;          // backward over forward
  double aggregation_bytes = 0;       // the gradients of a stage; 0: no aggregation

  std::uint32_t stages() const;  // the highest stage
  double latency(std::uint32_t from, std::uint32_t to) const { return latency_s[from * nodes.size() + to]; }
  double bandwidth(std::uint32_t from, std::uint32_t to) const { return bandwidth_Bps[from * nodes.size() + to]; }
  // Sizes fit, stages 1..S have relays, times finite and not negative, capacities positive.
  Result<void> check() const;
};

struct PredictMicrobatch {
  std::uint32_t id = 0;  // decides ties
  std::uint32_t data_node = 0;
  std::vector<std::uint32_t> path;  // one relay of each stage 1..S
};

enum class TaskOrder { kFifo, kBackwardFirst };
enum class AggregationShares { kRing, kUneven };

struct PredictPlan {
  std::vector<PredictMicrobatch> microbatches;
  TaskOrder order = TaskOrder::kFifo;
  AggregationShares shares = AggregationShares::kRing;
  // A stage aggregates when its own last backward pass has ended, not when all microbatches are done. Its traffic is
  // taken not to slow the pipeline.
  bool aggregate_per_stage = false;
  // Ids differ, paths fit the world. Errors name the microbatch.
  Result<void> check(const PredictWorld& world) const;
};

struct PredictCrash {
  double at_s = 0;
  std::uint32_t node = 0;  // a relay
};
enum class BackwardRecovery { kRepair, kRestart };

struct PredictFaults {
  std::vector<PredictCrash> crashes;
  std::vector<std::uint32_t> dead;  // from the start, and known to all
  double detection_s = 0;
  BackwardRecovery recovery = BackwardRecovery::kRepair;
  // What a dead relay had done is done again: at crash + detection_s another relay of its stage gets the activation and
  // the gradient that the neighbours kept, and computes both passes; it needs no slot. Aggregation waits for that.
  bool exactly_once = false;
  // [stage]: who stands in, in order of preference; [0] is unused.
  std::vector<std::vector<std::uint32_t>> replacements;
  Result<void> check(const PredictWorld& world) const;
};

// Chooses relays while an iteration runs, instead of the paths of a plan: for baselines that route hop by hop.
class PredictPolicy {
 public:
  static constexpr std::uint32_t kWait = ~std::uint32_t{0};
  struct View {
    virtual ~View() = default;
    virtual bool knows_dead(std::uint32_t node, std::uint32_t dead) const = 0;
    // Microbatches that a relay holds, or has been sent and not yet started.
    virtual std::int32_t given(std::uint32_t relay) const = 0;
  };
  virtual ~PredictPolicy() = default;
  // The relay of `stage` that `from` sends to; `planned` is the plan's. kWait: nobody now; asked again when a relay has
  // ended a backward pass, or a microbatch is done.
  virtual std::uint32_t choose(const View& view, std::uint32_t from, std::uint32_t microbatch, std::uint32_t stage,
                               std::uint32_t planned) = 0;
  // `to` has ended the forward pass of what `from` began to send `took_s` ago; or `from` has found it dead.
  virtual void seen(std::uint32_t from, std::uint32_t to, double took_s) = 0;
  virtual void done(std::uint32_t microbatch) = 0;
};

struct Prediction {
  std::vector<double> done_s;        // by microbatch, in the plan's order; infinite: never
  std::vector<double> stage_end_s;   // [stage - 1]: the end of its last backward pass
  double pipeline_end_s = 0;         // the last of done_s
  double iteration_end_s = 0;        // with aggregation
  std::vector<double> aggregated_s;  // [stage - 1]: the end of its aggregation
  // [microbatch * stages + stage - 1]: whose gradients hold its part; only if there are crashes.
  std::vector<std::uint32_t> gradient_at;
};

// What happened, for those who want to see it: only what was completed.
struct PredictTrace {
  struct Task {
    std::uint32_t node, microbatch;
    char kind;  // F, H (head), B, or R: both passes done again
    double start_s, end_s;
  };
  struct Send {
    std::uint32_t from, to, microbatch;
    double start_s, end_s, arrive_s;
  };
  struct Detection {
    double at_s;
    std::uint32_t node, dead;
  };
  std::vector<Task> tasks;  // by (start, node)
  std::vector<Send> sends;  // by (start, from)
  std::vector<Detection> detections;
};

class PredictEngine;

// Keeps its memory from call to call, so a planner can ask thousands of times a second.
class Predictor {
 public:
  // Requires world.check(); keeps a reference to the world.
  explicit Predictor(const PredictWorld& world);
  ~Predictor();
  // Requires plan.check(world) and faults.check(world). The answer is good until the next call. `trace` may be null.
  const Prediction& run(const PredictPlan& plan, const PredictFaults& faults = {}, PredictTrace* trace = nullptr,
                        PredictPolicy* policy = nullptr);
  // The nodes of the world stand in other stages now, as many as before.
  void restage();

 private:
  std::unique_ptr<PredictEngine> engine_;
};

// One prediction, checked. Errors: what check() of world, plan or faults says.
Result<Prediction> predict(const PredictWorld& world, const PredictPlan& plan, const PredictFaults& faults = {},
                           PredictTrace* trace = nullptr);

// Several iterations of one plan, one after the other. The instants of crashes count from the start of the first; who
// has crashed stays away, and the others know it at the next start. Ends early with an iteration that never ends.
Result<std::vector<Prediction>> predict_iterations(const PredictWorld& world, const PredictPlan& plan,
                                                   const PredictFaults& faults, std::size_t iterations);

// Seconds that `relays` take to aggregate `bytes`. The ring: 2(n-1)/n bytes over the least bandwidth among them, and
// 2(n-1) times the greatest latency.
double ring_seconds(const PredictWorld& world, const std::vector<std::uint32_t>& relays, double bytes);

// Each relay sums a share of its own size and sends it to all: the largest upload, and twice the greatest latency.
// With f_j the share of j, i uploads bytes * sum over j != i of (f_j + f_i) / bandwidth(i, j).
struct UnevenAggregation {
  std::vector<double> shares;  // by relay, as given; they sum to 1
  double seconds = 0;
};
// The shares that make it shortest, by descent on pairs: within some per cent of the linear program's optimum.
UnevenAggregation uneven_aggregation(const PredictWorld& world, const std::vector<std::uint32_t>& relays, double bytes);

}  // namespace tributary::flow
