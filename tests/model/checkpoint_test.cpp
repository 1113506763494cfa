#include "model/checkpoint.h"

#include <gtest/gtest.h>

#include <cmath>

#include "text/files.h"
#include "text/temporary_folder.h"

namespace tributary::model {
namespace {

Config small() {
  Config config;
  config.layers = 3;
  config.hidden = 32;
  config.intermediate = 48;
  return config;
}

StageState state_of(const CheckpointKey& key, StageId stage) {
  const auto layout = stage_layout(key.config, key.cut, stage);
  StageState state{std::vector<float>(layout.size), std::vector<float>(layout.size, 1),
                   std::vector<float>(layout.size, 2)};
  initialise(layout, 7, state.weights.data());
  return state;
}

TEST(StageCut, SpreadsBlocksEvenly) {
  EXPECT_EQ(cut_evenly(small(), 2)->blocks, (std::vector<std::uint32_t>{2, 1}));
  EXPECT_FALSE(cut_evenly(small(), 4).ok());
  EXPECT_FALSE(cut_evenly(small(), 0).ok());
  EXPECT_TRUE(cut_as_given(small(), {1, 2}).ok());
  EXPECT_FALSE(cut_as_given(small(), {1, 1}).ok());
  EXPECT_FALSE(cut_as_given(small(), {0, 3}).ok());
}

TEST(Initialise, DependsOnTheSeedAndTheNameButNotOnTheCut) {
  for (const auto family : {Family::kLlama, Family::kGpt}) {
    Config config = small();
    config.family = family;
    const auto flat = [&](std::uint32_t stages, std::uint64_t seed) {
      std::vector<float> all;
      const auto cut = *cut_evenly(config, stages);
      for (std::uint16_t stage = 0; stage <= stages; ++stage) {
        const auto layout = stage_layout(config, cut, StageId(stage));
        std::vector<float> part(layout.size);
        initialise(layout, seed, part.data());
        all.insert(all.end(), part.begin(), part.end());
      }
      return all;
    };
    EXPECT_EQ(flat(1, 7), flat(3, 7));
    EXPECT_NE(flat(1, 7), flat(1, 8));
  }
}

TEST(Initialise, DrawsNormalNumbersOfTheWantedDeviation) {
  StageLayout layout;
  layout.parameters = {{"x", {100000}, 0, 100000, true, Init::kNormal, 0.5f}};
  layout.size = 100000;
  std::vector<float> flat(layout.size);
  initialise(layout, 3, flat.data());
  double sum = 0, squares = 0;
  for (const float value : flat) {
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  EXPECT_NEAR(sum / 1e5, 0, 0.01);
  EXPECT_NEAR(std::sqrt(squares / 1e5), 0.5, 0.005);
}

TEST(Checkpoint, ComesBackWhole) {
  TemporaryFolder folder;
  const CheckpointKey key{folder.path(), small(), *cut_evenly(small(), 2)};
  for (std::uint16_t stage = 0; stage <= 2; ++stage) {
    const auto state = state_of(key, StageId(stage));
    const auto hash = save_checkpoint(key, Iteration(5), StageId(stage), state);
    ASSERT_TRUE(hash.ok()) << hash.error().message;
    EXPECT_EQ(*hash, hash_floats(state.weights));
    const auto again = load_checkpoint(key, Iteration(5), StageId(stage));
    ASSERT_TRUE(again.ok()) << again.error().message;
    EXPECT_EQ(again->weights, state.weights);
    EXPECT_EQ(again->first, state.first);
    EXPECT_EQ(again->second, state.second);
  }
  EXPECT_EQ(newest_checkpoint(key), Iteration(5));
}

TEST(Checkpoint, IsRefusedWhenDamagedMissingOrOfAnotherModel) {
  TemporaryFolder folder;
  const CheckpointKey key{folder.path(), small(), *cut_evenly(small(), 1)};
  ASSERT_TRUE(save_checkpoint(key, Iteration(5), StageId(1), state_of(key, StageId(1))).ok());
  EXPECT_EQ(newest_checkpoint(key), std::nullopt);  // stage 0 is not there
  EXPECT_FALSE(load_checkpoint(key, Iteration(6), StageId(1)).ok());
  CheckpointKey other = key;
  other.config.rope_theta = 5;
  EXPECT_NE(load_checkpoint(other, Iteration(5), StageId(1)).error().message.find("another model"), std::string::npos);

  const auto path = checkpoint_path(folder.path(), Iteration(5), StageId(1));
  const auto whole = *text::read_file(path, 1 << 26);
  for (const std::size_t at : {std::size_t{3}, std::size_t{100}, whole.size() / 2, whole.size() - 1}) {
    auto damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    ASSERT_TRUE(text::write_file(path, damaged).ok());
    const auto loaded = load_checkpoint(key, Iteration(5), StageId(1));
    ASSERT_FALSE(loaded.ok()) << "byte " << at;
    EXPECT_NE(loaded.error().message.find("stage-1"), std::string::npos) << loaded.error().message;
  }
  ASSERT_TRUE(text::write_file(path, whole.substr(0, whole.size() - 9)).ok());
  EXPECT_FALSE(load_checkpoint(key, Iteration(5), StageId(1)).ok());
}

TEST(Checkpoint, OldOnesArePruned) {
  TemporaryFolder folder;
  const CheckpointKey key{folder.path(), small(), *cut_evenly(small(), 1)};
  for (const std::uint64_t iteration : {10u, 20u, 30u}) {
    for (std::uint16_t stage = 0; stage <= 1; ++stage) {
      ASSERT_TRUE(save_checkpoint(key, Iteration(iteration), StageId(stage), state_of(key, StageId(stage))).ok());
    }
  }
  prune_checkpoints(folder.path(), 2);
  EXPECT_EQ(newest_checkpoint(key), Iteration(30));
  EXPECT_EQ(newest_checkpoint(key, Iteration(30)), Iteration(20));
  EXPECT_EQ(newest_checkpoint(key, Iteration(20)), std::nullopt);
}

TEST(ModelFolder, ComesBackAndItsHashDoesNotDependOnTheCut) {
  for (const auto family : {Family::kLlama, Family::kGpt}) {
    TemporaryFolder folder;
    Config config = small();
    config.family = family;
    config.intermediate = 128;
    config.tied = family == Family::kGpt;
    ModelWeights weights{config, *cut_evenly(config, 3), {}};
    for (std::uint16_t stage = 0; stage <= 3; ++stage) {
      weights.stages.push_back(state_of({folder.path(), config, weights.cut}, StageId(stage)).weights);
    }
    ASSERT_TRUE(save_model_folder(folder / "model", weights, text::Tokenizer::bytes()).ok());
    const auto again = load_model_folder(folder / "model");
    ASSERT_TRUE(again.ok()) << again.error().message;
    EXPECT_EQ(again->config, config);
    EXPECT_EQ(again->sha256(), weights.sha256());
  }
}

}  // namespace
}  // namespace tributary::model
