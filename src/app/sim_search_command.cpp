// `sim search`: seeds until a rule is broken or the budget ends; then the least of it that still fails, and how to see
// it again.
#include <unistd.h>

#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "app/lab_commands.h"
#include "sim/search.h"
#include "text/files.h"

namespace tributary::app {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

// Counts seeds and time; says on standard error where it is, on a terminal by rewriting the line.
class Budget {
 public:
  explicit Budget(const SimSearchArguments& arguments) : arguments_(arguments) {
    minutes_ = arguments.minutes > 0 || arguments.seeds > 0 ? arguments.minutes : 1;
  }
  // After each seed; false once the budget is spent.
  bool spend(std::uint64_t events) {
    ++seeds_;
    events_ += events;
    const double now = seconds();
    if (now >= said_ + (terminal_ ? 0.2 : 10)) say(now);
    return (arguments_.seeds == 0 || seeds_ < arguments_.seeds) && (minutes_ == 0 || now < 60 * minutes_);
  }
  void shrinking(std::uint32_t runs) {
    const double now = seconds();
    if (now < said_ + (terminal_ ? 0.2 : 10)) return;
    said_ = now;
    std::fprintf(stderr, terminal_ ? "\r\033[Kshrinking: %u runs" : "shrinking: %u runs\n", runs);
  }
  void end() const {
    if (terminal_ && said_ > 0) std::fprintf(stderr, "\r\033[K");
  }

 private:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }
  void say(double now) {
    said_ = now;
    std::fprintf(stderr,
                 terminal_ ? "\r\033[K%" PRIu64 " seeds, %.1f million events, %.0f s"
                           : "%" PRIu64 " seeds, %.1f million events, %.0f s\n",
                 seeds_, static_cast<double>(events_) / 1e6, now);
  }

  const SimSearchArguments& arguments_;
  const bool terminal_ = isatty(STDERR_FILENO) == 1;
  const Clock::time_point begin_ = Clock::now();
  double minutes_ = 0, said_ = 0;
  std::uint64_t seeds_ = 0, events_ = 0;
};

std::string hex(std::uint64_t word) {
  char text[17];
  std::snprintf(text, sizeof text, "%016" PRIx64, word);
  return text;
}

int search_chaos(const SimSearchArguments& arguments) {
  Budget budget(arguments);
  sim::SearchOptions options;
  options.first = arguments.seed;
  options.go_on = [&](const sim::ChaosResult& result) { return budget.spend(result.events); };
  options.on_shrink = [&](std::uint32_t runs, std::size_t) { budget.shrinking(runs); };
  const auto result = sim::search(options);
  budget.end();
  Json out = {{"seed", arguments.seed},
              {"seeds", result.seeds},
              {"strikes", result.strikes},
              {"crashes", result.crashes},
              {"events", result.events},
              {"slowest_recovery_s", result.slowest_recovery_s},
              {"its_bound_s", result.its_bound_s},
              {"slowest_seed", result.slowest_seed},
              {"found", nullptr}};
  if (!result.found) {
    if (arguments.json) {
      std::printf("%s\n", out.dump().c_str());
    } else {
      std::printf("%" PRIu64 " seeds from %" PRIu64 " on, %" PRIu64 " strikes, %" PRIu64
                  " crashes: no rule was broken\nslowest to commit again once all trouble was over: seed %" PRIu64
                  ", %.1f s (bound %.1f s)\n",
                  result.seeds, arguments.seed, result.strikes, result.crashes, result.slowest_seed,
                  result.slowest_recovery_s, result.its_bound_s);
    }
    return kDone;
  }
  const auto& found = *result.found;
  const auto replay = sim::replay_command(found.seed, found.cut);
  if (arguments.json) {
    out["found"] = {{"seed", found.seed},
                    {"violation", found.violation},
                    {"least_violation", found.least_violation},
                    {"strikes", found.strikes},
                    {"strikes_left", found.strikes_left},
                    {"nodes", found.nodes},
                    {"nodes_left", found.nodes_left},
                    {"iterations", found.iterations},
                    {"iterations_left", found.iterations_left},
                    {"runs", found.runs},
                    {"trace", hex(found.trace_hash)},
                    {"replay", replay}};
    std::printf("%s\n", out.dump().c_str());
  } else {
    std::printf("seed %" PRIu64 ": %s\nleft after %u runs: %u of %u strikes, %u of %u nodes, %" PRIu64 " of %" PRIu64
                " iterations: %s\n  replay it: %s\n",
                found.seed, found.violation.c_str(), found.runs, found.strikes_left, found.strikes, found.nodes_left,
                found.nodes, found.iterations_left, found.iterations, found.least_violation.c_str(), replay.c_str());
  }
  return kFailed;
}

int search_scenario(const SimSearchArguments& arguments) {
  const auto read = [](const std::filesystem::path& file) -> Result<std::string> {
    const auto bytes = text::read_file(file, sim::kMostScenarioBytes);
    if (!bytes) return bytes.error();
    return std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  };
  const auto text = read(arguments.scenario);
  if (!text) return fail(text.error().message);
  const auto scenario = arguments.scenario.extension() == ".json"
                            ? sim::parse_world(*text)
                            : sim::parse_scenario(*text, [&](const std::string& name) {
                                return read(arguments.scenario.parent_path() / name);
                              });
  if (!scenario) return fail(arguments.scenario.string() + ": " + scenario.error().message, kWrongUse);
  if (scenario->machines.empty())
    return fail(arguments.scenario.string() + ": there are no machines to rehearse", kWrongUse);
  Budget budget(arguments);
  sim::ScenarioSearchOptions options;
  options.first = arguments.seed;
  options.go_on = [&](const sim::Rehearsal& rehearsal) { return budget.spend(rehearsal.events); };
  options.on_shrink = [&](std::uint32_t runs) { budget.shrinking(runs); };
  const auto result = sim::search(*scenario, options);
  budget.end();
  if (!result) return fail(result.error().message, kWrongUse);
  Json out = {{"scenario", scenario->name},
              {"seed", arguments.seed},
              {"seeds", result->seeds},
              {"events", result->events},
              {"found", nullptr}};
  if (!result->found) {
    if (arguments.json) {
      std::printf("%s\n", out.dump().c_str());
    } else {
      std::printf("%s: %" PRIu64 " seeds from %" PRIu64 " on: no rule was broken, and each got to its end\n",
                  scenario->name.c_str(), result->seeds, arguments.seed);
    }
    return kDone;
  }
  const auto& found = *result->found;
  std::string parts;
  for (const auto& part : found.without) parts += (parts.empty() ? "" : ",") + part;
  auto replay = "tributary sim run " + arguments.scenario.string() + " --check --seed " + std::to_string(found.seed) +
                " --iterations " + std::to_string(found.iterations_left);
  if (!parts.empty()) replay += " --without " + parts;
  if (arguments.json) {
    out["found"] = {
        {"seed", found.seed},       {"violation", found.violation},   {"least_violation", found.least_violation},
        {"without", found.without}, {"iterations", found.iterations}, {"iterations_left", found.iterations_left},
        {"runs", found.runs},       {"trace", hex(found.trace_hash)}, {"replay", replay}};
    std::printf("%s\n", out.dump().c_str());
  } else {
    std::printf("seed %" PRIu64 ": %s\nstill so after %u runs with %" PRIu64 " of %" PRIu64
                " iterations%s%s: %s\n  replay it: %s\n",
                found.seed, found.violation.c_str(), found.runs, found.iterations_left, found.iterations,
                parts.empty() ? "" : ", without ", parts.c_str(), found.least_violation.c_str(), replay.c_str());
  }
  return kFailed;
}

}  // namespace

int sim_search(const SimSearchArguments& arguments) {
  return arguments.scenario.empty() ? search_chaos(arguments) : search_scenario(arguments);
}

}  // namespace tributary::app
