#include "sim/timeline.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>

namespace tributary::sim {
namespace {

template <class Iterations>
std::size_t most_telling(const Iterations& iterations) {
  for (std::size_t k = 0; k < iterations.size(); ++k)
    if (iterations[k].crashes > 0) return k;
  return 0;
}

// The number that follows `prefix` in a bar's name.
std::optional<std::uint32_t> number_after(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), value);
  if (error != std::errc() || end == name.data()) return std::nullopt;
  return value;
}
std::uint32_t receiver(std::string_view name) {
  const auto at = name.find(" to ");
  return at == name.npos ? Bar::kNone : number_after(name.substr(at), " to ").value_or(Bar::kNone);
}

std::optional<Bar> read_bar(const TraceBar& from) {
  const std::string_view name = from.name;
  Bar bar;
  bar.node = from.node.value();
  if (!from.uplink) {
    static constexpr std::pair<const char*, BarKind> kKinds[] = {
        {"F", BarKind::kForward}, {"H", BarKind::kHead}, {"B", BarKind::kBackward}};
    for (const auto& [prefix, kind] : kKinds)
      if (const auto microbatch = number_after(name, prefix)) {
        bar.kind = kind;
        bar.microbatch = *microbatch;
        return bar;
      }
    return std::nullopt;
  }
  bar.to = receiver(name);
  if (const auto activation = number_after(name, "activation ")) {
    bar.kind = BarKind::kActivation;
    bar.microbatch = *activation;
  } else if (const auto gradient = number_after(name, "gradient ")) {
    bar.kind = BarKind::kGradient;
    bar.microbatch = *gradient;
  } else {
    bar.kind = name.starts_with("StateChunk") ? BarKind::kState : BarKind::kSum;
  }
  return bar;
}

void sort_bars(Timeline& timeline) {
  std::stable_sort(timeline.bars.begin(), timeline.bars.end(), [](const Bar& a, const Bar& b) {
    return std::tie(a.begin_s, a.node) < std::tie(b.begin_s, b.node);
  });
}

}  // namespace

Timeline timeline_of(const Scenario& scenario, const BaselineRun& run) {
  Timeline timeline;
  if (run.traces.empty()) return timeline;
  timeline.iteration = most_telling(run.iterations);
  timeline.duration_s = run.iterations[timeline.iteration].duration_s;
  const auto& trace = run.traces[timeline.iteration];
  std::set<std::tuple<std::uint32_t, std::uint16_t, char>> seen;
  for (const auto& task : trace.steps.tasks) {
    const bool first = seen.insert({task.microbatch, scenario.machines[task.node].stage, task.kind}).second;
    const auto kind = first ? static_cast<BarKind>(task.kind) : BarKind::kAgain;
    timeline.bars.push_back({kind, task.node, task.microbatch, Bar::kNone, task.start_s, task.end_s});
  }
  const std::uint16_t last = scenario.stages();
  for (const auto& send : trace.steps.sends) {
    const auto from = scenario.machines[send.from].stage, to = scenario.machines[send.to].stage;
    const bool forward = to == from + 1 || (from == last && to == 0 && last > 1);
    timeline.bars.push_back({forward ? BarKind::kActivation : BarKind::kGradient, send.from, send.microbatch, send.to,
                             send.start_s, send.end_s});
  }
  for (const auto& crash : trace.crashes) timeline.crashes.push_back({crash.at_s, crash.node});
  std::vector<double> dies(scenario.machines.size(), timeline.duration_s);
  for (const auto node : trace.away) dies[node] = 0;
  for (const auto& crash : trace.crashes) dies[crash.node] = crash.at_s;
  for (const auto& aggregation : trace.aggregations)
    for (std::uint32_t node = 0; node < scenario.machines.size(); ++node) {
      const double end = std::min(aggregation.end_s, dies[node]);
      if (scenario.machines[node].stage == aggregation.stage && end > aggregation.begin_s)
        timeline.bars.push_back({BarKind::kSum, node, Bar::kNone, Bar::kNone, aggregation.begin_s, end});
    }
  sort_bars(timeline);
  return timeline;
}

Timeline timeline_of(const Scenario& scenario, const Rehearsal& run) {
  Timeline timeline;
  if (run.bars.empty() || run.iterations.empty()) return timeline;
  timeline.iteration = most_telling(run.iterations);
  const auto& iteration = run.iterations[timeline.iteration];
  timeline.duration_s = iteration.duration_s;
  std::vector<TraceBar> bars = run.bars;
  std::stable_sort(bars.begin(), bars.end(), [](const auto& a, const auto& b) { return a.begin_ns < b.begin_ns; });
  std::set<std::tuple<std::uint32_t, std::uint16_t, char>> seen;
  for (const auto& from : bars) {
    const double begin = static_cast<double>(from.begin_ns) * 1e-9 - iteration.start_s;
    const double end = static_cast<double>(from.end_ns) * 1e-9 - iteration.start_s;
    if (end <= 0 || begin >= iteration.duration_s) continue;
    if (from.name == kProcessEnds) {
      timeline.crashes.push_back({begin, from.node.value()});
      continue;
    }
    auto bar = read_bar(from);
    if (!bar) continue;
    if (!from.uplink &&
        !seen.insert({bar->microbatch, scenario.machines[bar->node].stage, static_cast<char>(bar->kind)}).second)
      bar->kind = BarKind::kAgain;
    bar->begin_s = std::max(0.0, begin);
    bar->end_s = std::min(end, iteration.duration_s);
    timeline.bars.push_back(*bar);
  }
  sort_bars(timeline);
  return timeline;
}

std::vector<std::vector<std::uint32_t>> paths_of(const Scenario& scenario, const Timeline& timeline) {
  std::vector<std::vector<std::uint32_t>> paths;
  for (const auto& bar : timeline.bars) {
    if (bar.kind != BarKind::kForward && bar.kind != BarKind::kHead) continue;
    if (bar.microbatch >= scenario.microbatches()) continue;
    paths.resize(std::max<std::size_t>(paths.size(), bar.microbatch + std::size_t{1}));
    auto& path = paths[bar.microbatch];
    path.resize(scenario.stages() + 1u, Bar::kNone);
    auto& place = path[scenario.machines[bar.node].stage];
    if (place == Bar::kNone) place = bar.node;
  }
  return paths;
}

}  // namespace tributary::sim
