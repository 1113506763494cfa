// What every machine and uplink did in one iteration, whichever model played it: for plots. Pure values.
#pragma once
#include <string>
#include <vector>

#include "sim/baseline.h"
#include "sim/rehearsal.h"

namespace tributary::sim {

enum class BarKind : char {
  kForward = 'F',
  kHead = 'H',
  kBackward = 'B',
  kAgain = 'R',       // a pass that somebody had computed before
  kActivation = 'A',  // on an uplink, as the rest
  kGradient = 'G',
  kSum = 'S',    // aggregation
  kState = 'T',  // what a newcomer fetches
};

struct Bar {
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  BarKind kind = BarKind::kForward;
  std::uint32_t node = 0;
  std::uint32_t microbatch = kNone;
  std::uint32_t to = kNone;
  double begin_s = 0, end_s = 0;  // since the iteration's start
};
struct Timeline {
  std::size_t iteration = 0;  // which of the run, from 0
  double duration_s = 0;
  std::vector<Bar> bars;  // by begin
  struct Crash {
    double at_s = 0;
    std::uint32_t node = 0;
  };
  std::vector<Crash> crashes;
};

// The first iteration in which somebody crashed, else the first. Both need a run that kept its trace; an empty
// timeline without one.
Timeline timeline_of(const Scenario& scenario, const BaselineRun& run);
Timeline timeline_of(const Scenario& scenario, const Rehearsal& run);

// Who computed each microbatch's forward pass first: [microbatch][stage], with the data node that computed its head at
// [0]; Bar::kNone where nobody did.
std::vector<std::vector<std::uint32_t>> paths_of(const Scenario& scenario, const Timeline& timeline);

}  // namespace tributary::sim
