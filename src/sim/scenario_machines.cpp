// Machines of a scenario: given, drawn, or with a trace of their speed.
#include <cmath>
#include <map>
#include <numbers>

#include "base/random.h"
#include "sim/csv.h"
#include "sim/scenario_parts.h"

namespace tributary::sim {
namespace {

// A figure of a table of machines: one for all, in turn from a list, or drawn for each.
struct Figure {
  enum class Kind { kFixed, kList, kUniform, kLognormal } kind = Kind::kFixed;
  double a = 0, b = 0;  // the figure; low and high; median and sigma
  std::vector<double> list;

  double of(std::size_t machine, Random random, double least, double most, bool whole) const {
    double value = a;
    if (kind == Kind::kList) value = list[machine % list.size()];
    if (kind == Kind::kUniform)
      value = whole ? std::floor(a + random.uniform() * (b - a + 1)) : a + random.uniform() * (b - a);
    if (kind == Kind::kLognormal) {
      const double radius = std::sqrt(-2 * std::log1p(-random.uniform()));
      value = a * std::exp(b * radius * std::cos(2 * std::numbers::pi * random.uniform()));
      if (whole) value = std::round(value);
    }
    return std::min(std::max(value, least), most);
  }
};

bool two_numbers(const toml::node& node, double& a, double& b) {
  const auto* pair = node.as_array();
  if (!pair || pair->size() != 2) return false;
  const auto first = (*pair)[0].value<double>(), second = (*pair)[1].value<double>();
  if (!first || !second || !std::isfinite(*first) || !std::isfinite(*second)) return false;
  a = *first;
  b = *second;
  return true;
}

void read_figure(Keys& keys, const char* key, Figure& figure, double least, double most, bool whole) {
  const auto* node = keys.node(key);
  if (!node) return;
  const auto fits = [&](double value) {
    return value >= least && value <= most && (!whole || value == std::floor(value));
  };
  char range[80];
  std::snprintf(range, sizeof range, "must be a %snumber from %g to %g", whole ? "whole " : "", least, most);
  if (const auto fixed = node->value<double>()) {
    if (!fits(*fixed)) return keys.fault(*node, key, range);
    figure = {Figure::Kind::kFixed, *fixed, 0, {}};
    return;
  }
  if (const auto* list = node->as_array(); list && !list->empty() && list->size() <= kMostMachines) {
    figure = {Figure::Kind::kList, 0, 0, {}};
    for (const auto& item : *list) {
      const auto value = item.value<double>();
      if (!value || !fits(*value)) return keys.fault(item, key, range);
      figure.list.push_back(*value);
    }
    return;
  }
  if (const auto* table = node->as_table(); table && table->size() == 1) {
    double a = 0, b = 0;
    if (const auto* uniform = table->get("uniform")) {
      if (!two_numbers(*uniform, a, b) || !fits(a) || !fits(b) || a > b)
        return keys.fault(*uniform, std::string(key) + ".uniform",
                          "must be [least, most], each of which " + std::string(range));
      figure = {Figure::Kind::kUniform, a, b, {}};
      return;
    }
    if (const auto* lognormal = table->get("lognormal")) {
      if (!two_numbers(*lognormal, a, b) || a < least || a > most || b < 0 || b > 10)
        return keys.fault(*lognormal, std::string(key) + ".lognormal",
                          "must be [median, sigma]; sigma is from 0 to 10, the median " + std::string(range));
      figure = {Figure::Kind::kLognormal, a, b, {}};
      return;
    }
  }
  keys.fault(*node, key,
             std::string(range) + ", a list of such, {uniform = [least, most]} or {lognormal = [median, sigma]}");
}

// time_s,factor a line; the file is read once, whoever names it.
Result<int> trace_of(const std::string& file, const ReadFile& read, std::map<std::string, int>& known,
                     Scenario& scenario) {
  if (const auto at = known.find(file); at != known.end()) return at->second;
  const auto text = read(file);
  if (!text) return text.error();
  const auto rows = parse_csv(*text);
  if (!rows) return Error{file + ": " + rows.error().message};
  if (rows->empty()) return Error{file + ": no rows; it holds time_s,factor in each line"};
  std::vector<SlownessStep> steps;
  for (const auto& row : *rows) {
    const auto at = csv_number(row, 0, 0, 1e9);
    if (!at) return Error{file + ": " + at.error().message};
    const auto factor = csv_number(row, 1, 1e-3, 1e6);
    if (!factor) return Error{file + ": " + factor.error().message};
    if (!steps.empty() && *at <= steps.back().at_s)
      return Error{file + ": line " + std::to_string(row.line) + ": times must rise from line to line"};
    steps.push_back({*at, *factor});
  }
  scenario.traces.push_back(std::move(steps));
  return known[file] = static_cast<int>(scenario.traces.size()) - 1;
}

std::vector<std::string> texts(Keys& keys, const char* key) {
  std::vector<std::string> out;
  const auto* node = keys.node(key);
  if (!node) return out;
  if (const auto one = node->value<std::string>()) return {*one};
  if (const auto* list = node->as_array(); list && list->size() <= kMostMachines)
    for (const auto& item : *list)
      if (const auto text = item.value<std::string>()) out.push_back(*text);
  if (out.empty() || out.size() != node->as_array()->size()) {
    keys.fault(*node, key, "must be a text or a list of texts, taken in turn");
    out.clear();
  }
  return out;
}

struct FigureRow {
  const char* key;
  double least, most;
  double ScenarioMachine::*into;
};
constexpr FigureRow kFigures[] = {
    {"compute_s", 1e-6, 1e6, &ScenarioMachine::compute_s},
    {"start_at_s", 0, 1e9, &ScenarioMachine::start_at_s},
    {"stalls_per_hour", 0, 1e5, &ScenarioMachine::stalls_per_hour},
    {"stall_mean_s", 1e-3, 1e5, &ScenarioMachine::stall_mean_s},
    {"store_s", 0, 1e4, &ScenarioMachine::store_s},
    {"clock_ppm", -100'000, 100'000, &ScenarioMachine::clock_ppm},
    {"downlink_Bps", 0, 1e12, &ScenarioMachine::downlink_Bps},
};
constexpr double kMostSlots = 10000;

}  // namespace

void read_machines(const toml::array* list, std::uint64_t draw_seed, const ReadFile& read, Scenario& scenario,
                   std::vector<std::string>& faults) {
  if (!list) return;
  std::map<std::string, int> known;
  for (std::size_t i = 0; i < list->size(); ++i) {
    Keys keys((*list)[i].as_table(), "machines[" + std::to_string(i) + "].", faults);
    ScenarioMachine machine;
    std::size_t count = 1;
    keys.integer("count", count, 1, static_cast<std::int64_t>(kMostMachines));
    keys.integer("stage", machine.stage, 0, 1000);
    const auto sites = texts(keys, "site");
    Figure slots{Figure::Kind::kFixed, 1, 0, {}};
    read_figure(keys, "slots", slots, 1, kMostSlots, true);
    std::vector<Figure> figures;
    for (const auto& row : kFigures) {
      figures.push_back({Figure::Kind::kFixed, machine.*row.into, 0, {}});
      read_figure(keys, row.key, figures.back(), row.least, row.most, false);
    }
    const auto traces = texts(keys, "trace");
    if (scenario.machines.size() + count > kMostMachines) {
      keys.fault((*list)[i], "count", "makes more than " + std::to_string(kMostMachines) + " machines");
      return;
    }
    for (std::size_t k = 0; k < count; ++k) {
      const auto random = [&](std::uint64_t salt) {
        return Random(mix64(mix64(draw_seed, scenario.machines.size()), salt));
      };
      if (!sites.empty()) machine.site = sites[k % sites.size()];
      machine.slots = static_cast<std::uint16_t>(slots.of(k, random(1), 1, kMostSlots, true));
      for (std::size_t f = 0; f < figures.size(); ++f)
        machine.*kFigures[f].into = figures[f].of(k, random(2 + f), kFigures[f].least, kFigures[f].most, false);
      if (!traces.empty()) {
        const auto trace = trace_of(traces[k % traces.size()], read, known, scenario);
        if (!trace) {
          keys.fault((*list)[i], "trace", trace.error().message);
          break;
        }
        machine.trace = *trace;
      }
      scenario.machines.push_back(machine);
    }
  }
}

}  // namespace tributary::sim
