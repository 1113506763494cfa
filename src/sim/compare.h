// A comparison: scenarios under several policies, churn and seeds. One cell is one run; what is kept of it fits a line
// of text, so that an interrupted comparison can go on. Pure and deterministic; cells may run in several threads.
#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/scenario.h"
#include "sim/timeline.h"

namespace tributary::sim {

struct CompareCell {
  // Of compare_policies(), "protocol/ROUTER" for the protocol with another router than the scenario's, or
  // "without/IDEA" for the protocol without one of ideas() (ablation.h).
  std::string policy = "protocol";
  double churn = 0;  // each relay crashes in an iteration with this probability; replaces the scenario's churn
  std::uint64_t seed = 1;
  std::uint64_t iterations = 11;
};

// Of one run. Seconds; parts of the way as in baseline_account.h, means over iterations.
struct CompareResult {
  double time_s = 0;  // of all iterations
  double iterations = 0;
  double accepted = 0;  // microbatches with all their stages in the update
  double parts = 0;     // by mean share of stages
  double crashes = 0;
  double wait_s = 0, transfer_s = 0, compute_s = 0, last_s = 0, end_s = 0;
  double redone_share = 0;  // of all computing
  // Only the protocol sends any: of an iteration, warm-up included; bytes without tensors. Negative: none.
  double messages = -1, control_bytes = -1;
  std::string trouble;  // not empty: the run did not get to its end
};

// The published baselines and ours in the event model, and "protocol": the real swarm's objects.
const std::vector<std::string>& compare_policies();
// Errors: lists the known ones.
Result<void> check_policy(const std::string& policy);
// Whether the real swarm's objects play it, which takes longest.
bool plays_protocol(const std::string& policy);

// Errors: the policy's name; a scenario that the model cannot hold. `timeline`, if given, gets one iteration.
Result<CompareResult> run_cell(const Scenario& scenario, const CompareCell& cell, Timeline* timeline = nullptr);

// One line of JSON, and back. `key` names the scenario and the program; a damaged line, or one of another format, is an
// error.
struct CompareLine {
  std::string key;  // cell_key()
  CompareResult result;
};
inline constexpr std::size_t kMostLineBytes = 4096;
std::string cell_key(std::string_view scenario_text, std::string_view version, const CompareCell& cell);
std::string to_line(const CompareLine& line);
Result<CompareLine> parse_line(std::string_view text);

// Several runs of one policy and churn. Means are weighted by time or iterations; errors are standard errors over the
// runs, 0 if there is one.
struct CompareRow {
  std::string policy;
  double churn = 0;
  std::size_t runs = 0;
  double iterations = 0, crashes = 0;
  double iteration_s = 0, iteration_error_s = 0;
  double accepted_per_10_s = 0, accepted_error = 0;
  double parts_per_10_s = 0;
  double per_accepted_s = 0, per_accepted_error_s = 0;  // infinite if nothing was accepted
  double wait_s = 0, transfer_s = 0, compute_s = 0, last_s = 0, end_s = 0, redone_share = 0;
  double messages = -1, control_bytes = -1;  // of an iteration; negative: none
  double lower_bound_s = 0;                  // mean over the runs' scenarios; 0: not known for all
  std::vector<std::string> troubles;
};
struct CompareRun {
  const CompareResult* result;
  double lower_bound_s;  // of its scenario
};
CompareRow summarise(const std::string& policy, double churn, const std::vector<CompareRun>& runs);

}  // namespace tributary::sim
