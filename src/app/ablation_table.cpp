#include "app/ablation_table.h"

#include <cmath>
#include <cstdio>

namespace tributary::app {
namespace {

using Json = nlohmann::ordered_json;

Json change_json(const sim::PairedChange& change) {
  const bool bounded = std::isfinite(change.high);
  return {{"mean", change.pairs > 0 ? Json(change.mean) : Json()},
          {"low", bounded ? Json(change.low) : Json()},
          {"high", bounded ? Json(change.high) : Json()}};
}

// As in "+12.3 % [+4.0, +21.2]".
std::string change_text(const sim::PairedChange& change) {
  char text[64] = "no pair";
  if (change.pairs > 0) std::snprintf(text, sizeof text, "%+.1f %%", 100 * change.mean);
  if (std::isfinite(change.high))
    std::snprintf(text, sizeof text, "%+.1f %% [%+.1f, %+.1f]", 100 * change.mean, 100 * change.low, 100 * change.high);
  return text;
}

std::string without(const std::string& idea) {
  for (const auto& each : sim::ideas())
    if (each.name == idea) return each.without;
  return "";
}

}  // namespace

Json ablation_json(const std::vector<sim::AblationRow>& rows) {
  Json list = Json::array();
  for (const auto& row : rows)
    list.push_back({{"churn", row.churn},
                    {"idea", row.idea},
                    {"without", without(row.idea)},
                    {"pairs", row.iteration.pairs},
                    {"left_out", row.left_out},
                    {"iteration_change", change_json(row.iteration)},
                    {"per_accepted_change", change_json(row.per_accepted)}});
  return list;
}

void print_ablation(const std::vector<sim::AblationRow>& rows) {
  std::printf(
      "\nWithout one idea, as a change of the protocol with all (pairs of the same file and seed; 95 %% interval over "
      "files, "
      "over seeds if there is one file):\n"
      "| %-5s | %-17s | %-25s | %-25s | %-5s | %s |\n|---|---|---|---|---|---|\n",
      "churn", "without", "iteration time", "time per accepted", "pairs", "instead");
  for (const auto& row : rows) {
    std::printf("| %-5.3g | %-17s | %-25s | %-25s | %-5zu | %s |\n", row.churn, row.idea.c_str(),
                change_text(row.iteration).c_str(), change_text(row.per_accepted).c_str(), row.iteration.pairs,
                without(row.idea).c_str());
    if (row.left_out > 0)
      std::fprintf(stderr, "warning: %zu pairs without %s are left out: a run did not get to its end\n", row.left_out,
                   row.idea.c_str());
  }
}

}  // namespace tributary::app
