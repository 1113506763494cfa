#include "swarm/step.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tributary::swarm {

double learning_rate(const StepOptions& o, Iteration iteration) {
  const auto i = static_cast<double>(iteration.value());
  const auto warmup = static_cast<double>(o.warmup);
  const auto total = static_cast<double>(o.iterations);
  if (i < warmup) return o.learning_rate * (i + 1) / warmup;
  if (o.schedule == Schedule::kConstant || total <= warmup) return o.learning_rate;
  const double done = std::min(1.0, (i - warmup) / (total - warmup));
  const double span = o.learning_rate - o.min_learning_rate;
  switch (o.schedule) {
    case Schedule::kCosine:
      return o.min_learning_rate + span * 0.5 * (1 + std::cos(std::numbers::pi * done));
    case Schedule::kLinear:
      return o.min_learning_rate + span * (1 - done);
    case Schedule::kConstantThenDecay:
      return done <= 1 - o.decay_fraction ? o.learning_rate
                                          : o.min_learning_rate + span * (1 - done) / o.decay_fraction;
    case Schedule::kConstant:
      break;
  }
  return o.learning_rate;
}

StepParameters step_parameters(const StepOptions& options, Iteration iteration, double sum_squares, std::uint32_t used,
                               std::uint32_t microbatches, double* norm) {
  const double mean = used == 0 ? 0 : static_cast<double>(microbatches) / used;
  const double gradient_norm = std::sqrt(sum_squares) * mean;
  if (norm) *norm = gradient_norm;
  StepParameters step;
  step.learning_rate = learning_rate(options, iteration);
  step.gradient_scale = options.clip > 0 && gradient_norm > options.clip ? mean * (options.clip / gradient_norm) : mean;
  step.step = iteration.value() + 1;
  return step;
}

}  // namespace tributary::swarm
