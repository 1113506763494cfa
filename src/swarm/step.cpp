#include "swarm/step.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tributary::swarm {

double learning_rate(const ScheduleOptions& options, Iteration iteration) {
  const auto at = static_cast<double>(iteration.value());
  const auto warmup = static_cast<double>(options.warmup);
  if (at < warmup) return options.learning_rate * (at + 1) / warmup;
  const double length = std::max(1.0, static_cast<double>(options.iterations) - 1 - warmup);
  const double progress = std::min(1.0, (at - warmup) / length);
  double fall = 0;  // from 0 to 1
  switch (options.schedule) {
    case Schedule::kCosine:
      fall = 0.5 * (1 - std::cos(std::numbers::pi * progress));
      break;
    case Schedule::kLinear:
      fall = progress;
      break;
    case Schedule::kConstantThenDecay:
      fall = std::max(0.0, (progress - 0.8) / 0.2);
      break;
  }
  return options.learning_rate - fall * (options.learning_rate - options.min_learning_rate);
}

double IterationTotals::gradient_norm() const { return used == 0 ? 0 : std::sqrt(sum_squares) * microbatches / used; }

StepParameters step_parameters(const ScheduleOptions& options, Iteration iteration, const IterationTotals& totals) {
  StepParameters step;
  step.step = iteration.value() + 1;
  step.learning_rate = learning_rate(options, iteration);
  if (totals.used == 0) {
    step.gradient_scale = 0;
    return step;
  }
  step.gradient_scale = static_cast<double>(totals.microbatches) / totals.used;
  const double norm = totals.gradient_norm();
  if (options.clip > 0 && norm > options.clip) step.gradient_scale *= options.clip / norm;
  return step;
}

}  // namespace tributary::swarm
