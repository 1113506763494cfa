#include "sim/islands.h"

#include <algorithm>
#include <vector>

#include "base/random.h"

namespace tributary::sim {
namespace {

constexpr double kYear = 365.25 * 24 * 3600;

// One island's clock: it works, fails and stands still.
class Island {
 public:
  Island(const Islands& options, std::uint64_t seed)
      : options_(options),
        random_(seed),
        mean_(options.chip_years * kYear * options.count / options.chips),
        fails_at_(random_.exponential(mean_)) {}

  // When so many iterations are done that begin at `now`, or `end` if that is before.
  double work(double now, std::uint32_t iterations, double end) {
    while (iterations > 0 && now < end) {
      if (fails_at_ <= now) {
        now = pause(now);
        continue;
      }
      if (now + options_.iteration_s <= fails_at_) {
        now += options_.iteration_s;
        --iterations;
        continue;
      }
      redone_s += fails_at_ - now;
      now = pause(fails_at_);
    }
    return now;
  }

  double paused_s = 0, redone_s = 0;
  std::uint64_t failures = 0;

 private:
  double pause(double now) {
    double until = now;
    while (fails_at_ <= until) {
      ++failures;
      until = std::max(until, fails_at_ + options_.pause_s);
      fails_at_ += random_.exponential(mean_);
    }
    paused_s += until - now;
    return until;
  }

  const Islands& options_;
  Random random_;
  double mean_;
  double fails_at_;
};

}  // namespace

double exchange_s(const Islands& islands, std::uint32_t contributions) {
  if (islands.count < 2) return 0;
  const double n = std::max<std::uint32_t>(2, contributions);
  if (!islands.all_reduce) return 2 * islands.exchange_bytes / islands.bandwidth_Bps + 2 * islands.latency_s;
  return 2 * (n - 1) / n * islands.exchange_bytes / islands.bandwidth_Bps + 2 * (n - 1) * islands.latency_s;
}

IslandsResult run_islands(const Islands& options, std::uint64_t seed) {
  const double end = options.days * 24 * 3600;
  const auto count = options.count;
  const std::uint32_t quorum = options.quorum == 0 ? count : std::min(options.quorum, count);
  const std::uint32_t overlap = std::min(options.overlap, options.round_every);
  IslandsResult out;
  std::vector<Island> islands;
  std::vector<double> ready;  // when each has the iterations of its next contribution
  for (std::uint32_t i = 0; i < count; ++i) {
    islands.emplace_back(options, mix64(mix64(seed, i), 0x69736c616e64));
    ready.push_back(islands[i].work(0, options.round_every, end));
  }
  double waited = 0, counted = 0;
  while (true) {
    auto sorted = ready;
    std::nth_element(sorted.begin(), sorted.begin() + (quorum - 1), sorted.end());
    const double last = *std::max_element(ready.begin(), ready.end());
    const double closes = std::min(last, sorted[quorum - 1] + options.grace_s);
    if (closes >= end) break;
    std::vector<std::uint32_t> in;
    for (std::uint32_t i = 0; i < count; ++i)
      if (ready[i] <= closes) in.push_back(i);
    const double lands = closes + exchange_s(options, static_cast<std::uint32_t>(in.size()));
    for (const auto i : in) {
      counted += options.round_every;
      // It goes on into its next contribution, but not further than the overlap without the round's result. Who misses
      // a round is in the next one that it makes.
      const double ahead = islands[i].work(ready[i], overlap, end);
      waited += std::max(0.0, std::min(lands, end) - ahead);
      ready[i] = islands[i].work(std::max(ahead, lands), options.round_every - overlap, end);
    }
    ++out.rounds;
    out.contributions += static_cast<double>(in.size());
  }
  const double time = end * count;
  out.goodput = counted * options.iteration_s / time;
  for (const auto& island : islands) {
    out.paused += island.paused_s / time;
    out.redone += island.redone_s / time;
    out.failures += island.failures;
  }
  out.waiting = waited / time;
  if (out.rounds > 0) out.contributions /= static_cast<double>(out.rounds);
  return out;
}

}  // namespace tributary::sim
