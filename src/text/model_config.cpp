#include "text/model_config.h"

#include <nlohmann/json.hpp>

namespace tributary::text {
namespace {

using Json = nlohmann::json;
constexpr std::size_t kMaxBytes = 1 << 20;

// Collects the first fault, so that reading is a plain list of fields.
class Reader {
 public:
  explicit Reader(const Json& root) : root_(root) {}
  const Json* find(const char* key) const {
    const auto found = root_.find(key);
    return found == root_.end() || found->is_null() ? nullptr : &*found;
  }
  void number(const char* key, std::uint32_t& out, bool needed = true) {
    const auto* value = find(key);
    if (!value) {
      if (needed) fail(std::string(key) + " is missing");
      return;
    }
    if (!value->is_number_integer() || value->get<std::int64_t>() < 0 || value->get<std::int64_t>() > 0x7fffffff) {
      return fail(std::string(key) + " is not a whole number in range");
    }
    out = value->get<std::uint32_t>();
  }
  void number(const char* key, double& out) {
    const auto* value = find(key);
    if (!value) return;
    if (!value->is_number()) return fail(std::string(key) + " is not a number");
    out = value->get<double>();
  }
  void flag(const char* key, bool& out) {
    const auto* value = find(key);
    if (!value) return;
    if (!value->is_boolean()) return fail(std::string(key) + " is not true or false");
    out = value->get<bool>();
  }
  void refuse_if(const char* key, bool refused) {
    if (refused) fail(std::string(key) + " has a value that is not supported");
  }
  bool is_true(const char* key) const {
    const auto* value = find(key);
    return value && *value == true;
  }
  std::string text(const char* key, const char* otherwise) const {
    const auto* value = find(key);
    return value && value->is_string() ? value->get<std::string>() : otherwise;
  }
  void fail(std::string message) {
    if (!fault_) fault_ = std::move(message);
  }
  const std::optional<std::string>& fault() const { return fault_; }

 private:
  const Json& root_;
  std::optional<std::string> fault_;
};

void read_llama(Reader& in, ModelConfig& config) {
  config.family = Family::kLlama;
  in.number("vocab_size", config.vocabulary);
  in.number("num_hidden_layers", config.layers);
  in.number("hidden_size", config.hidden);
  in.number("num_attention_heads", config.heads);
  config.kv_heads = config.heads;
  in.number("num_key_value_heads", config.kv_heads, false);
  in.number("intermediate_size", config.intermediate);
  in.number("max_position_embeddings", config.context);
  in.number("rope_theta", config.rope_theta);
  config.norm_epsilon = 1e-6;
  in.number("rms_norm_eps", config.norm_epsilon);
  config.tied = false;
  in.flag("tie_word_embeddings", config.tied);
  in.refuse_if("hidden_act", in.text("hidden_act", "silu") != "silu");
  in.refuse_if("attention_bias", in.is_true("attention_bias"));
  in.refuse_if("mlp_bias", in.is_true("mlp_bias"));
  in.refuse_if("rope_scaling", in.find("rope_scaling") != nullptr);
  // Newer files say it in rope_parameters.
  if (const auto* rope = in.find("rope_parameters")) {
    if (!rope->is_object()) return in.fail("rope_parameters is not an object");
    Reader inner(*rope);
    inner.refuse_if("rope_parameters.rope_type", inner.text("rope_type", "default") != "default");
    inner.number("rope_theta", config.rope_theta);
    if (inner.fault()) in.fail(*inner.fault());
  }
  std::uint32_t head_size = 0;
  in.number("head_dim", head_size, false);
  in.refuse_if("head_dim",
               head_size != 0 && config.heads != 0 && head_size * std::uint64_t{config.heads} != config.hidden);
}

void read_gpt(Reader& in, ModelConfig& config) {
  config.family = Family::kGpt;
  in.number("vocab_size", config.vocabulary);
  in.number("n_layer", config.layers);
  in.number("n_embd", config.hidden);
  in.number("n_head", config.heads);
  config.kv_heads = config.heads;
  in.number("n_positions", config.context);
  config.intermediate = config.hidden <= 0x1fffffff ? 4 * config.hidden : 0;
  in.number("n_inner", config.intermediate, false);
  in.number("layer_norm_epsilon", config.norm_epsilon);
  config.tied = true;
  in.flag("tie_word_embeddings", config.tied);
  in.refuse_if("activation_function", in.text("activation_function", "gelu_new") != "gelu_new");
  in.refuse_if("scale_attn_by_inverse_layer_idx", in.is_true("scale_attn_by_inverse_layer_idx"));
  const auto* scaled = in.find("scale_attn_weights");
  in.refuse_if("scale_attn_weights", scaled && *scaled == false);
}

}  // namespace

std::vector<std::string> ModelConfig::check() const {
  std::vector<std::string> faults;
  const auto range = [&](const char* key, std::uint64_t value, std::uint64_t least, std::uint64_t most) {
    if (value < least || value > most) {
      faults.push_back(std::string("model.") + key + " is " + std::to_string(value) + "; it must be from " +
                       std::to_string(least) + " to " + std::to_string(most));
    }
  };
  range("vocabulary", vocabulary, 2, 65536);
  range("layers", layers, 1, 1024);
  range("hidden", hidden, 8, 65536);
  range("heads", heads, 1, 1024);
  range("kv_heads", kv_heads, 1, 1024);
  range("intermediate", intermediate, 8, 1 << 20);
  range("context", context, 1, 1 << 20);
  if (!faults.empty()) return faults;
  if (hidden % heads != 0) faults.push_back("model.hidden must be a multiple of model.heads");
  if (heads % kv_heads != 0) faults.push_back("model.heads must be a multiple of model.kv_heads");
  if (family == Family::kLlama && hidden % heads == 0 && head_size() % 2 != 0) {
    faults.push_back("model.hidden / model.heads must be even, for rotary positions");
  }
  if (family == Family::kGpt && kv_heads != heads) faults.push_back("model.kv_heads must equal model.heads for gpt");
  if (!(norm_epsilon > 0 && norm_epsilon < 1)) faults.push_back("model.norm_epsilon must be between 0 and 1");
  if (!(rope_theta >= 1 && rope_theta < 1e12)) faults.push_back("model.rope_theta must be at least 1");
  return faults;
}

Result<ModelConfig> parse_model_config(const std::string& text) {
  if (text.size() > kMaxBytes) return Error{"config.json is larger than 1 MiB"};
  Json root;
  try {
    root = Json::parse(text);
  } catch (const Json::exception&) {
    return Error{"config.json is not JSON"};
  }
  if (!root.is_object()) return Error{"config.json is not an object"};
  Reader in(root);
  ModelConfig config;
  const auto type = in.text("model_type", "");
  if (type == "llama") {
    read_llama(in, config);
  } else if (type == "gpt2") {
    read_gpt(in, config);
  } else {
    return Error{"config.json has the model_type \"" + type.substr(0, 60) + "\"; llama and gpt2 are supported"};
  }
  if (in.fault()) return Error{"config.json: " + *in.fault()};
  if (const auto faults = config.check(); !faults.empty()) return Error{"config.json: " + faults[0]};
  return config;
}

std::string write_model_config(const ModelConfig& config, std::optional<std::int32_t> bos,
                               std::optional<std::int32_t> eos) {
  nlohmann::ordered_json root;
  if (config.family == Family::kLlama) {
    root = {{"architectures", {"LlamaForCausalLM"}},
            {"model_type", "llama"},
            {"vocab_size", config.vocabulary},
            {"hidden_size", config.hidden},
            {"intermediate_size", config.intermediate},
            {"num_hidden_layers", config.layers},
            {"num_attention_heads", config.heads},
            {"num_key_value_heads", config.kv_heads},
            {"head_dim", config.head_size()},
            {"max_position_embeddings", config.context},
            {"hidden_act", "silu"},
            {"rms_norm_eps", config.norm_epsilon},
            {"rope_theta", config.rope_theta},
            {"attention_bias", false},
            {"mlp_bias", false},
            {"attention_dropout", 0.0}};
  } else {
    root = {{"architectures", {"GPT2LMHeadModel"}},
            {"model_type", "gpt2"},
            {"vocab_size", config.vocabulary},
            {"n_embd", config.hidden},
            {"n_inner", config.intermediate},
            {"n_layer", config.layers},
            {"n_head", config.heads},
            {"n_positions", config.context},
            {"activation_function", "gelu_new"},
            {"layer_norm_epsilon", config.norm_epsilon},
            {"attn_pdrop", 0.0},
            {"embd_pdrop", 0.0},
            {"resid_pdrop", 0.0}};
  }
  root["tie_word_embeddings"] = config.tied;
  root["initializer_range"] = 0.02;
  root["torch_dtype"] = "float32";
  root["bos_token_id"] = bos ? nlohmann::ordered_json(*bos) : nlohmann::ordered_json(nullptr);
  root["eos_token_id"] = eos ? nlohmann::ordered_json(*eos) : nlohmann::ordered_json(nullptr);
  return root.dump(2) + "\n";
}

}  // namespace tributary::text
