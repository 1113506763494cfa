// A node that sends numbers which are no numbers: named, left out, and nothing is lost through it.
#include <utility>

#include "sim/staged.h"

namespace tributary::sim {
namespace {

// Sends one byte in place of each payload of a pipeline task; everybody else knows that for what it is, as the real
// computation knows numbers that are not finite.
class Wary : public swarm::Compute {
 public:
  Wary(std::unique_ptr<swarm::Compute> inner, bool lies) : inner_(std::move(inner)), lies_(lies) {}
  swarm::TaskResult run(const swarm::Task& task) override {
    const bool pipeline = task.kind == swarm::TaskKind::kForward || task.kind == swarm::TaskKind::kBackward ||
                          task.kind == swarm::TaskKind::kHead || task.kind == swarm::TaskKind::kEmbedBackward;
    if (pipeline && (payload_size(task.input) == 1 || payload_size(task.gradient) == 1)) {
      swarm::TaskResult refused;
      refused.id = task.id;
      refused.ok = false;
      refused.error = "not finite";
      refused.bad_input = payload_size(task.input) == 1 ? swarm::BadInput::kInput : swarm::BadInput::kGradient;
      return refused;
    }
    auto result = inner_->run(task);
    if (pipeline && lies_ && result.output) result.output = make_buffer(1);
    return result;
  }
  std::uint64_t state_size(StageId stage) const override { return inner_->state_size(stage); }

 private:
  std::unique_ptr<swarm::Compute> inner_;
  const bool lies_;
};

ScenarioOptions with_liar(std::uint32_t liar) {
  ScenarioOptions options;
  options.wrap_compute = [liar](NodeId node, std::unique_ptr<swarm::Compute> inner) {
    return std::make_unique<Wary>(std::move(inner), node == NodeId(liar));
  };
  return options;
}

class Liar : public testing::TestWithParam<std::uint32_t> {};

// The checker holds every commit to the undisturbed run's, in which nothing is left out.
TEST_P(Liar, IsNamedAndItsMicrobatchesAreTakenToAnother) {
  const NodeId liar(GetParam());
  Scenario scenario(with_liar(liar.value()));
  std::uint64_t named = 0;
  scenario.world().on_distrusted = [&](NodeId by, const swarm::Distrusted& distrusted) {
    EXPECT_NE(by, liar);
    EXPECT_EQ(distrusted.peer, liar);
    EXPECT_EQ(distrusted.why, "not finite");
    ++named;
  };
  scenario.start_all();
  scenario.expect_finish();
  EXPECT_GT(named, 0u);
  EXPECT_EQ(scenario.counters().excluded, 0u);
  EXPECT_GT(scenario.counters().repairs, 0u);
}

INSTANTIATE_TEST_SUITE_P(OfEachStage, Liar, testing::Values(1u, 2u, 3u, 4u));

// Where nobody else holds the stage its microbatches cannot be had, and the run says so instead of going round.
TEST(LoneLiar, StopsTheRunWithItsReason) {
  auto options = with_liar(2);
  options.replicas = 1;
  options.most_excluded = 0.25;
  Scenario scenario(options);
  scenario.start_all();
  ASSERT_TRUE(scenario.reach([&] { return !scenario.exit_of(scenario.data_node()).empty(); }));
  EXPECT_NE(scenario.exit_of(scenario.data_node()).find("stopped"), std::string::npos)
      << scenario.exit_of(scenario.data_node());
  EXPECT_EQ(scenario.newest(), 0u);
}

}  // namespace
}  // namespace tributary::sim
