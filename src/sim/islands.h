// Islands that train on their own and exchange outer rounds now and then, under failures: how much of the fleet's time
// becomes training that counts. Durations only, no protocol; what is reconstructed is said in docs/methods.md. Pure and
// deterministic by its seed.
#pragma once
#include <cstdint>
#include <string>

#include "base/result.h"

namespace tributary::sim {

struct Islands {
  std::string name;
  std::uint32_t count = 8;  // 1: one island of all chips, without rounds
  double chips = 8;         // of the whole fleet, shared evenly
  double chip_years = 1;    // mean time between failures of a chip
  double pause_s = 30;      // an island stands still so long after a failure; another one meanwhile begins it anew
  double iteration_s = 5;   // a failure loses the iteration under way
  std::uint32_t round_every = 24;  // iterations of an island between its contributions
  double exchange_bytes = 0;       // of a contribution
  double bandwidth_Bps = 1e9;      // of an island towards the others
  double latency_s = 0.1;
  bool all_reduce = true;     // a ring, 2 (n-1)/n bytes and 2 (n-1) latencies; or a syncer, twice the bytes
  std::uint32_t overlap = 2;  // iterations that an island goes on while its round is under way
  std::uint32_t quorum = 1;   // contributions that end a round; 0: all
  double grace_s = 0;         // ... and so long others are waited for
  double days = 1;            // simulated
};

struct IslandsResult {
  double goodput = 0;  // iterations in a round (or done, for one island) by those of a fleet that never fails or waits
  double paused = 0, redone = 0, waiting = 0;  // shares of the fleet's time
  std::uint64_t failures = 0;
  std::uint64_t rounds = 0;
  double contributions = 0;  // a round, mean
};

// Errors: none; the reader has checked the ranges.
IslandsResult run_islands(const Islands& islands, std::uint64_t seed);
// How long the exchange of one round takes.
double exchange_s(const Islands& islands, std::uint32_t contributions);

}  // namespace tributary::sim
