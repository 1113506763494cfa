#include "sim/search.h"

#include <algorithm>
#include <vector>

namespace tributary::sim {
namespace {

class Shrinker {
 public:
  Shrinker(const SearchOptions& options, std::uint64_t seed, const ChaosResult& failed)
      : options_(options), kind_(kind_of(failed.violation)) {
    const auto swarm = draw_swarm(seed, 0);
    found_.seed = seed;
    found_.violation = found_.least_violation = failed.violation;
    found_.strikes = failed.strikes;
    found_.nodes = static_cast<std::uint32_t>(swarm.nodes.size());
    found_.iterations = swarm.run.iterations;
    found_.trace_hash = failed.trace_hash;
    found_.cut.own_draws = true;
    found_.cut.iterations = swarm.run.iterations;
    found_.cut.strikes.emplace();
    for (std::uint32_t i = 0; i < failed.strikes; ++i) found_.cut.strikes->insert(i);
  }

  Finding shrink() {
    for (bool less = true; less;) {
      less = fewer_strikes();
      less = fewer_iterations() || less;
      less = fewer_nodes() || less;
    }
    found_.strikes_left = static_cast<std::uint32_t>(found_.cut.strikes->size());
    found_.nodes_left = found_.nodes - static_cast<std::uint32_t>(found_.cut.without.size());
    found_.iterations_left = found_.cut.iterations;
    return found_;
  }

 private:
  bool fails(const ChaosCut& cut) {
    if (found_.runs >= options_.most_shrinking_runs) return false;
    ++found_.runs;
    ChaosOptions chaos;
    chaos.seed = found_.seed;
    chaos.bugs = options_.bugs;
    chaos.cut = cut;
    const auto result = run_chaos(chaos);
    const bool same = kind_of(result.violation) == kind_;
    if (same) {
      found_.cut = cut;
      found_.least_violation = result.violation;
      found_.trace_hash = result.trace_hash;
    }
    options_.on_shrink(found_.runs, found_.cut.strikes->size());
    return same;
  }

  // Halves first, then smaller and smaller parts (delta debugging).
  bool fewer_strikes() {
    bool less = false;
    for (auto part = std::max<std::size_t>(1, found_.cut.strikes->size() / 2); part > 0; part /= 2) {
      const std::vector<std::uint32_t> all(found_.cut.strikes->begin(), found_.cut.strikes->end());
      for (std::size_t begin = 0; begin < all.size(); begin += part) {
        auto cut = found_.cut;
        for (auto i = begin; i < std::min(all.size(), begin + part); ++i) cut.strikes->erase(all[i]);
        less = fails(cut) || less;
      }
    }
    return less;
  }

  bool fewer_iterations() {
    bool less = false;
    while (found_.cut.iterations > 1) {
      auto cut = found_.cut;
      --cut.iterations;
      if (!fails(cut)) break;
      less = true;
    }
    return less;
  }

  bool fewer_nodes() {
    bool less = false;
    for (std::uint32_t i = found_.nodes; i-- > 0;) {
      if (found_.cut.without.contains(NodeId(i))) continue;
      auto cut = found_.cut;
      cut.without.insert(NodeId(i));
      auto swarm = draw_swarm(found_.seed, 0);
      cut_swarm(cut, swarm);
      if (swarm.cut.without.contains(NodeId(i))) less = fails(cut) || less;
    }
    return less;
  }

  const SearchOptions& options_;
  const std::string kind_;
  Finding found_;
};

}  // namespace

std::string kind_of(const std::string& violation) {
  std::string kind;
  for (const char c : violation.substr(0, violation.find(';')))
    if (c < '0' || c > '9') kind += c;
  return kind;
}

SearchResult search(const SearchOptions& options) {
  SearchResult out;
  for (auto seed = options.first;; ++seed) {
    ChaosOptions chaos;
    chaos.seed = seed;
    chaos.bugs = options.bugs;
    chaos.cut.own_draws = true;
    const auto result = run_chaos(chaos);
    ++out.seeds;
    out.crashes += result.crashes;
    out.strikes += result.strikes;
    out.events += result.events;
    if (result.recovery_s > out.slowest_recovery_s) {
      out.slowest_recovery_s = result.recovery_s;
      out.its_bound_s = result.calm_bound_s;
      out.slowest_seed = seed;
    }
    if (!result.violation.empty()) {
      out.found = Shrinker(options, seed, result).shrink();
      return out;
    }
    if (!options.go_on(result)) return out;
  }
}

Result<ScenarioSearchResult> search(const Scenario& scenario, const ScenarioSearchOptions& options) {
  ScenarioSearchResult out;
  RehearsalOptions rehearsal;
  rehearsal.check = true;
  rehearsal.bugs = options.bugs;
  for (rehearsal.seed = options.first;; ++rehearsal.seed) {
    const auto played = rehearse(scenario, rehearsal);
    if (!played) return played.error();
    ++out.seeds;
    out.events += played->events;
    if (played->trouble.empty()) {
      if (!options.go_on(*played)) return out;
      continue;
    }
    auto& found = out.found.emplace();
    found.seed = rehearsal.seed;
    found.violation = found.least_violation = played->trouble;
    found.iterations = scenario.iterations;
    found.trace_hash = played->trace_hash;
    auto least = scenario;
    const auto fails = [&](const Scenario& less) {
      const auto again = rehearse(less, rehearsal);
      options.on_shrink(++found.runs);
      if (!again || kind_of(again->trouble) != kind_of(found.violation)) return false;
      found.least_violation = again->trouble;
      found.trace_hash = again->trace_hash;
      least = less;
      return true;
    };
    for (const auto& part : trouble_parts()) {
      auto less = least;
      (void)leave_out(part, less);
      if (fails(less)) found.without.push_back(part);
    }
    for (auto step = scenario.iterations / 2; step > 0; step /= 2)
      while (least.iterations > step) {
        auto less = least;
        less.iterations -= step;
        if (!fails(less)) break;
      }
    found.iterations_left = least.iterations;
    return out;
  }
}

}  // namespace tributary::sim
