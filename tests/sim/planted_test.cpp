// The checkers find what they are there for: with a fault planted into the protocol, some seed breaks a rule.
#include <gtest/gtest.h>

#include <cstdio>

#include "sim/chaos.h"
#include "sim/seeds.h"

namespace tributary::sim {
namespace {

struct Planted {
  const char* name;
  bool swarm::PlantedBugs::*bug;
  std::uint64_t first = 1;  // where the search begins: for one that only few of the seeds show
};
constexpr Planted kPlanted[] = {
    {"SkipRetract", &swarm::PlantedBugs::skip_retract},
    {"FoldTwice", &swarm::PlantedBugs::fold_twice},
    {"FreeEarly", &swarm::PlantedBugs::free_early},
    {"ForgetKeptGradient", &swarm::PlantedBugs::forget_kept_gradient},
    {"TrustOldIncarnation", &swarm::PlantedBugs::trust_old_incarnation},
    {"AcceptOverlappingPartials", &swarm::PlantedBugs::accept_overlapping_partials},
    {"CountStaleResults", &swarm::PlantedBugs::count_stale_results, 1401},
    {"SkipEpochCheck", &swarm::PlantedBugs::skip_epoch_check},
    {"ApplyBeforeCommit", &swarm::PlantedBugs::apply_before_commit},
    {"StaleStateChunk", &swarm::PlantedBugs::stale_state_chunk},
};
static_assert(sizeof(swarm::PlantedBugs) == std::size(kPlanted) * sizeof(bool), "every planted bug is listed");

class PlantedBug : public testing::TestWithParam<Planted> {};

TEST_P(PlantedBug, IsFound) {
  swarm::PlantedBugs bugs;
  bugs.*GetParam().bug = true;
  const auto first = seeds() < kAllSeeds ? 1 : GetParam().first;
  for (std::uint64_t i = 0; i < seeds(); ++i) {
    const auto seed = 1 + (first - 1 + i) % seeds();
    ChaosOptions options;
    options.seed = seed;
    options.bugs = bugs;
    const auto result = run_chaos(options);
    if (result.violation.empty()) continue;
    std::printf("%s found by seed %llu: %s\n", GetParam().name, static_cast<unsigned long long>(seed),
                result.violation.c_str());
    return;
  }
  if (seeds() < kAllSeeds) GTEST_SKIP() << "not within the few seeds of this run";
  FAIL() << "no seed up to " << seeds() << " shows it";
}

INSTANTIATE_TEST_SUITE_P(All, PlantedBug, testing::ValuesIn(kPlanted),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tributary::sim
