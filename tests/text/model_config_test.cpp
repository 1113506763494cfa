#include "text/model_config.h"

#include <gtest/gtest.h>

namespace tributary::text {
namespace {

TEST(ModelConfig, ReadsBackWhatItWrites) {
  ModelConfig llama;
  llama.kv_heads = 2;
  llama.tied = false;
  ModelConfig gpt;
  gpt.family = Family::kGpt;
  gpt.intermediate = 1000;
  for (const auto& config : {llama, gpt}) {
    const auto again = parse_model_config(write_model_config(config, 256, 257));
    ASSERT_TRUE(again.ok()) << again.error().message;
    EXPECT_EQ(*again, config);
  }
}

TEST(ModelConfig, ReportsEveryFaultAtOnce) {
  ModelConfig config;
  config.heads = 3;
  config.kv_heads = 2;
  EXPECT_EQ(config.check().size(), 2u);
  config.hidden = 0;
  config.layers = 0;
  EXPECT_EQ(config.check().size(), 2u);
  EXPECT_TRUE(ModelConfig().check().empty());
}

TEST(ModelConfig, RefusesWhatIsNotBuilt) {
  const std::string base = R"("vocab_size":10,"num_hidden_layers":1,"hidden_size":16,"num_attention_heads":2,
      "intermediate_size":16,"max_position_embeddings":8)";
  const auto message = [&](const std::string& rest) {
    const auto config = parse_model_config("{\"model_type\":\"llama\"," + base + rest + "}");
    return config.ok() ? std::string() : config.error().message;
  };
  EXPECT_EQ(message(""), "");
  EXPECT_NE(message(",\"rope_scaling\":{\"type\":\"yarn\"}").find("rope_scaling"), std::string::npos);
  EXPECT_NE(message(",\"attention_bias\":true").find("attention_bias"), std::string::npos);
  EXPECT_NE(message(",\"head_dim\":64").find("head_dim"), std::string::npos);
  EXPECT_NE(message(",\"num_key_value_heads\":-1").find("num_key_value_heads"), std::string::npos);
  EXPECT_FALSE(parse_model_config("{\"model_type\":\"mamba\"}").ok());
  EXPECT_FALSE(parse_model_config("nonsense").ok());
}

}  // namespace
}  // namespace tributary::text
