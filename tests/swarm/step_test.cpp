#include "swarm/step.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tributary::swarm {
namespace {

StepOptions options(Schedule schedule) {
  StepOptions o;
  o.learning_rate = 1.0;
  o.min_learning_rate = 0.1;
  o.warmup = 10;
  o.iterations = 110;
  o.schedule = schedule;
  o.clip = 0;
  return o;
}
double rate(Schedule schedule, std::uint64_t iteration) {
  return learning_rate(options(schedule), Iteration(iteration));
}

TEST(LearningRate, WarmsUpLinearlyFromTheFirstStep) {
  for (const auto schedule :
       {Schedule::kConstant, Schedule::kCosine, Schedule::kLinear, Schedule::kConstantThenDecay}) {
    EXPECT_DOUBLE_EQ(rate(schedule, 0), 0.1);
    EXPECT_DOUBLE_EQ(rate(schedule, 4), 0.5);
    EXPECT_DOUBLE_EQ(rate(schedule, 9), 1.0);
  }
}

TEST(LearningRate, FollowsItsScheduleToTheMinimum) {
  EXPECT_DOUBLE_EQ(rate(Schedule::kCosine, 60), 0.55);
  EXPECT_NEAR(rate(Schedule::kCosine, 35), 0.1 + 0.9 * (0.5 + std::sqrt(0.5) / 2), 1e-12);
  EXPECT_DOUBLE_EQ(rate(Schedule::kLinear, 60), 0.55);
  EXPECT_DOUBLE_EQ(rate(Schedule::kConstantThenDecay, 90), 1.0);
  EXPECT_NEAR(rate(Schedule::kConstantThenDecay, 100), 0.55, 1e-12);
  EXPECT_DOUBLE_EQ(rate(Schedule::kConstant, 109), 1.0);
  for (const auto schedule : {Schedule::kCosine, Schedule::kLinear, Schedule::kConstantThenDecay}) {
    EXPECT_NEAR(rate(schedule, 110), 0.1, 1e-12);
    EXPECT_NEAR(rate(schedule, 5000), 0.1, 1e-12) << "and stays there";
    for (std::uint64_t i = 10; i < 120; ++i) EXPECT_LE(rate(schedule, i + 1), rate(schedule, i) + 1e-12);
  }
}

TEST(StepParameters, ClipByTheNormOfTheWholeGradient) {
  auto o = options(Schedule::kConstant);
  double norm = 0;
  EXPECT_DOUBLE_EQ(step_parameters(o, Iteration(20), 16, 8, 8, &norm).gradient_scale, 1);
  EXPECT_DOUBLE_EQ(norm, 4);
  o.clip = 1;
  EXPECT_DOUBLE_EQ(step_parameters(o, Iteration(20), 16, 8, 8).gradient_scale, 0.25);
  EXPECT_DOUBLE_EQ(step_parameters(o, Iteration(20), 0.25, 8, 8).gradient_scale, 1) << "below the limit";
}

TEST(StepParameters, MeanIsOverWhatIsNotExcluded) {
  const auto o = options(Schedule::kConstant);
  double norm = 0;
  EXPECT_DOUBLE_EQ(step_parameters(o, Iteration(20), 9, 6, 8, &norm).gradient_scale, 8.0 / 6);
  EXPECT_DOUBLE_EQ(norm, 4) << "of the mean that is applied";
  EXPECT_DOUBLE_EQ(step_parameters(o, Iteration(20), 0, 0, 8).gradient_scale, 0) << "nothing left: no step";
}

TEST(StepParameters, CountStepsFromOne) {
  EXPECT_EQ(step_parameters(options(Schedule::kConstant), Iteration(0), 1, 1, 1).step, 1u);
}

}  // namespace
}  // namespace tributary::swarm
