// A swarm to rehearse: machines, links, sizes, churn. Read from TOML or from a world file (JSON, data/sim/worlds);
// plain values once read. All keys and their defaults: docs/scenarios.md.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/islands.h"
#include "swarm/options.h"

namespace tributary::sim {

// A machine computes so many times slower from that time on.
struct SlownessStep {
  double at_s = 0;
  double factor = 1;
};

struct ScenarioMachine {
  std::uint16_t stage = 0;  // 0: data node
  std::string site;
  double compute_s = 1;  // of a microbatch: the forward pass, or a data node's head
  std::uint16_t slots = 1;
  double start_at_s = 0;       // since the swarm's beginning
  double stalls_per_hour = 0;  // pauses of its computing, at random; it still answers meanwhile
  double stall_mean_s = 1;     // exponential
  double store_s = 0;          // to sync its log; 0: 2 ms
  double clock_ppm = 0;        // its timers run fast (above 0) or slow
  double downlink_Bps = 0;     // what it receives comes one after the other at this rate; 0: receiving is free
  int trace = -1;              // into Scenario::traces; -1: even
};

struct ScenarioSite {
  std::string name;
  double uplink_Bps = 0;  // shared by its machines towards other sites; 0: not limited
  double downlink_Bps = 0;
};

enum class ChurnKind { kNone, kPerIteration, kPoisson, kDiurnal, kSpot, kTrace };

struct ScenarioChurn {
  ChurnKind kind = ChurnKind::kNone;
  // Per iteration: each live relay crashes with this probability, at an instant spread evenly over a crash-free
  // iteration.
  double probability = 0;
  double per_node_hour = 0;     // Poisson, spot; diurnal: times the hour's factor
  std::vector<double> by_hour;  // diurnal: 24 factors, from the swarm's beginning on
  double notice_s = 30;         // spot: a machine is asked to leave, and is gone this much later
  struct Event {
    double at_s = 0;
    std::uint32_t node = 0;
    std::string what;  // crash | leave | freeze | thaw | start
  };
  std::vector<Event> trace;    // whatever the kind
  double away_mean_s = 30;     // exponential; then the process starts again and fetches its state
  bool spare_last = true;      // the last live replica of a stage does not crash by chance
  bool data_nodes = false;     // they crash by chance too
  double leader_per_hour = 0;  // whoever leads crashes
  double site_per_hour = 0;    // all machines of a site vanish at once, whoever is the last ...
  double site_down_mean_s = 60;
  double freeze_per_node_hour = 0;  // a machine stands still, connections stay up
  double freeze_mean_s = 5;
  double delay_per_node_hour = 0;  // all its links are so late for a while that peers may suspect it
  double delay_s = 2;
  double delay_mean_s = 10;
  struct Partition {
    double from_s = 0, to_s = 0;
    std::vector<std::string> sites;  // cut off from all others
    bool lossy = false;              // messages are lost; or else they wait
  };
  std::vector<Partition> partitions;
};

struct Scenario {
  std::string name = "scenario";
  std::vector<ScenarioMachine> machines;  // their NodeId is their place here; data nodes first
  std::vector<ScenarioSite> sites;        // those with a limit
  std::vector<std::vector<SlownessStep>> traces;
  std::vector<double> latency_s;      // [from * n + to], one way
  std::vector<double> bandwidth_Bps;  // [from * n + to]
  double jitter = 0;                  // a fraction of the latency, added at random
  double drift_share = 0;             // bandwidths swing by this share ...
  double drift_period_s = 3600;       // ... in this time, each pair in a phase of its own
  double message_bytes = 1e6;         // an activation, a gradient
  double aggregation_bytes = 0;       // a stage's gradients
  double state_bytes = 0;             // what a newcomer fetches
  double backward_ratio = 2;          // backward over forward
  std::uint32_t microbatches_per_data_node = 3;
  std::uint64_t iterations = 11;
  std::string router = "planned";
  double lower_bound_s = 0;  // of a crash-free iteration; 0: not known
  ScenarioChurn churn;
  swarm::Switches switches;
  double detection_factor = 1;   // of the detector's deadlines; above 1: slower to suspect
  double ping_s = 0.1;           // a silent peer is pinged so often; the floors of all deadlines are in proportion
  double report_s = 0.5;         // what a node does is reported again so often
  double duration_s = 0;         // virtual; the iteration under way then is the last. 0: all iterations
  std::vector<Islands> islands;  // rows of a table of their own, in a scenario without machines

  std::uint16_t stages() const;
  std::uint32_t data_nodes() const;
  std::uint32_t microbatches() const { return data_nodes() * microbatches_per_data_node; }
};

inline constexpr std::size_t kMostMachines = 5000;
inline constexpr std::size_t kMostScenarioBytes = std::size_t{64} << 20;

// Parts of a scenario's trouble that can be left out: "chance" (crashes by churn.kind), "events", "leader", "sites",
// "freezes", "delays", "partitions".
const std::vector<std::string>& trouble_parts();
// Errors: there is no such part.
Result<void> leave_out(const std::string& part, Scenario& scenario);

// Gives the text of a file that the scenario names.
using ReadFile = std::function<Result<std::string>(const std::string&)>;

// Errors: name the key, what is wrong, and the remedy.
Result<Scenario> parse_scenario(std::string_view toml, const ReadFile& read);
Result<Scenario> parse_world(std::string_view json);

}  // namespace tributary::sim
