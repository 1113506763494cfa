// What each idea of the protocol is worth: the same scenarios and seeds with all ideas on, and with one of them off.
// Pure and deterministic.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "sim/compare.h"

namespace tributary::sim {

struct Idea {
  std::string name;
  std::string without;  // what is done instead
};
// The keys of [switches], then planned_paths, fast_detection, and "all" of them at once.
const std::vector<Idea>& ideas();
// Errors: lists the ideas there are.
Result<void> turn_off(const std::string& idea, Scenario& scenario);
// The detection_factor with which a mean link is suspected after `time_out_s` of silence, as with a fixed time-out;
// at most 1000.
double detection_factor_for(const Scenario& scenario, double time_out_s);
inline constexpr double kPublishedTimeOutS = 20;

// The mean of paired relative changes with its 95 % interval: of ln(without / with), Student's t, told as a change
// (0.1: a tenth longer without). Pairs of one group are no independent witnesses: with several groups the interval is
// over the groups' means, with one it is over its pairs. Unbounded with fewer than two.
struct PairedChange {
  std::size_t pairs = 0, groups = 0;
  double mean = 0, low = 0, high = 0;
};
struct Pair {
  std::size_t group = 0;
  double with = 0, without = 0;  // both finite and above 0
};
PairedChange paired_change(const std::vector<Pair>& pairs);

// Of one idea at one churn. Pairs of which a run did not get to its end, or had nothing accepted, are left out.
struct AblationRow {
  std::string idea;
  double churn = 0;
  PairedChange iteration;     // of the mean iteration's time
  PairedChange per_accepted;  // of the time per accepted microbatch
  std::size_t left_out = 0;
};
struct AblationPair {
  std::size_t group;  // the scenario
  const CompareResult* with;
  const CompareResult* without;
};
AblationRow ablation_row(const std::string& idea, double churn, const std::vector<AblationPair>& pairs);

}  // namespace tributary::sim
