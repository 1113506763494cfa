// A swarm to rehearse: machines, links, sizes, churn. Read from TOML or from a world file (JSON, data/sim/worlds);
// plain values once read.
//
// Scenario files hold (all times in seconds):
//   name, iterations, router, order
//   world = "b0.json"                     a world file beside it; or
//   [[machines]] count, stage, site, compute_s, slots        stage 0: data nodes, compute_s is then the head's
//   [links] preset = "ten-locations", or latency_s and bandwidth_Bps for all pairs
//   [sizes] message_bytes, aggregation_bytes, state_bytes, backward_ratio, microbatches_per_data_node
//   [churn] kind = "per-iteration" (p) | "poisson" (per_node_hour) | "trace" (events = [[s, node, "crash"], ..]), and
//           away_mean_s, spare_last
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/world.h"

namespace tributary::sim {

struct ScenarioMachine {
  std::uint16_t stage = 0;  // 0: data node
  std::string site;
  double compute_s = 1;  // of a microbatch: the forward pass, or a data node's head
  std::uint16_t slots = 1;
};

enum class ChurnKind { kNone, kPerIteration, kPoisson, kTrace };

struct ScenarioChurn {
  ChurnKind kind = ChurnKind::kNone;
  // Per iteration: each live relay crashes with this probability, at an instant spread evenly over a crash-free
  // iteration.
  double probability = 0;
  double per_node_hour = 0;  // Poisson
  struct Event {
    double at_s = 0;
    std::uint32_t node = 0;
    std::string what;  // crash | leave | freeze | thaw | start
  };
  std::vector<Event> trace;
  double away_mean_s = 30;  // exponential; then the process starts again and fetches its state
  bool spare_last = true;   // the last live replica of a stage does not crash
};

struct Scenario {
  std::string name = "scenario";
  std::vector<ScenarioMachine> machines;  // their NodeId is their place here; data nodes first
  std::vector<double> latency_s;          // [from * n + to], one way
  std::vector<double> bandwidth_Bps;      // [from * n + to]
  double message_bytes = 1e6;             // an activation, a gradient
  double aggregation_bytes = 0;           // a stage's gradients
  double state_bytes = 0;                 // what a newcomer fetches
  double backward_ratio = 2;              // backward over forward
  std::uint32_t microbatches_per_data_node = 3;
  std::uint64_t iterations = 11;
  std::string router = "planned";
  double lower_bound_s = 0;  // of a crash-free iteration; 0: not known
  ScenarioChurn churn;

  std::uint16_t stages() const;
  std::uint32_t data_nodes() const;
  std::uint32_t microbatches() const { return data_nodes() * microbatches_per_data_node; }
};

inline constexpr std::size_t kMostMachines = 20000;
inline constexpr std::size_t kMostScenarioBytes = std::size_t{64} << 20;

// `read` gives the text of a file that the scenario names. Errors: name the key, what is wrong, and the remedy.
Result<Scenario> parse_scenario(std::string_view toml,
                                const std::function<Result<std::string>(const std::string&)>& read);
Result<Scenario> parse_world(std::string_view json);

}  // namespace tributary::sim
