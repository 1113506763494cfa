#include "app/survival.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

namespace tributary::app {
namespace {

// The iteration in which the death fell, and the ones that a late repair could delay.
constexpr int kWatchedIterations = 3;
constexpr std::size_t kNamedDeaths = 8;

}  // namespace

void Survival::died(std::uint32_t node, std::string name, std::uint64_t iteration, double usual_s) {
  Death death;
  death.node = node;
  death.name = std::move(name);
  death.iteration = iteration;
  death.at = std::chrono::steady_clock::now();
  death.usual_s = usual_s;
  deaths_.push_back(std::move(death));
}

void Survival::repaired() {
  const auto now = std::chrono::steady_clock::now();
  for (auto& death : deaths_)
    if (death.watched == 0 && !death.repaired_s)
      death.repaired_s = std::chrono::duration<double>(now - death.at).count();
}

std::vector<Death> Survival::stepped(double took_s) {
  std::vector<Death> known;
  for (auto& death : deaths_) {
    if (death.measured || death.usual_s <= 0) continue;
    death.longest_s = std::max(death.longest_s, took_s);
    death.measured = ++death.watched == kWatchedIterations;
    if (death.measured) known.push_back(death);
  }
  return known;
}

std::string Survival::describe_deaths() const {
  std::string text = std::to_string(deaths_.size()) + " survived";
  for (std::size_t i = 0; i < std::min(deaths_.size(), kNamedDeaths); ++i)
    text += (i == 0 ? ": " : ", ") + deaths_[i].name + " after iteration " + std::to_string(deaths_[i].iteration);
  if (deaths_.size() > kNamedDeaths) text += ", ...";
  return text + "; started again: " + std::to_string(returns_);
}

std::string Survival::describe_recoveries() const {
  const auto list = [&](const auto& figure_of) {
    std::string text;
    for (const auto& death : deaths_) {
      const std::optional<double> seconds = figure_of(death);
      char figure[32] = "nothing in hand";
      if (seconds) std::snprintf(figure, sizeof figure, "%.2f s", *seconds);
      text += (text.empty() ? "" : ", ") + std::string(figure);
    }
    return text;
  };
  if (deaths_.empty()) return {};
  return list([](const Death& death) { return death.repaired_s; }) +
         " until led round the dead; iterations longer by " +
         list([](const Death& death) { return std::optional(death.lost_s()); });
}

std::string blocks(const std::vector<double>& values) {
  static constexpr const char* kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  if (values.empty()) return {};
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const std::size_t width = std::min<std::size_t>(60, values.size());
  std::string line;
  for (std::size_t i = 0; i < width; ++i) {
    const double at = (values[i * values.size() / width] - *low) / std::max(1e-12, *high - *low);
    line += kBlocks[std::min(7, static_cast<int>(at * 8))];
  }
  char ends[60];
  std::snprintf(ends, sizeof ends, "  %.3f to %.3f", values.front(), values.back());
  return line + ends;
}

}  // namespace tributary::app
