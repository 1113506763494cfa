#include "app/run_config.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <limits>
#include <sstream>

#include "app/run_config_checks.h"
#include "app/run_config_fields.h"
#include "base/toml.h"
#include "text/files.h"

namespace tributary::app {
namespace {

constexpr std::uint64_t kMaxFileBytes = 1 << 20;

// Reads fields out of a table and collects faults with their places.
class FieldReader {
 public:
  FieldReader(const std::string& file, std::vector<std::string>& faults) : file_(file), faults_(faults) {}

  template <class T>
  void read(const toml::node& node, const std::string& key, T& out) {
    if (!convert(node, out)) fault(node, key + " must be " + describe(out));
  }
  void fault(const toml::node& node, const std::string& message) { faults_.push_back(place(node) + message); }
  std::string place(const toml::node& node) const {
    const auto line = node.source().begin.line;
    const std::string name = node.source().path ? *node.source().path : file_;
    return line > 0 && name == file_ ? name + ":" + std::to_string(line) + ": " : name + ": ";
  }

 private:
  static bool convert(const toml::node& node, std::string& out) {
    const auto value = node.value_exact<std::string>();
    if (value) out = *value;
    return value.has_value();
  }
  static bool convert(const toml::node& node, bool& out) {
    const auto value = node.value_exact<bool>();
    if (value) out = *value;
    return value.has_value();
  }
  static bool convert(const toml::node& node, double& out) {
    if (!node.is_number()) return false;
    const auto value = node.value<double>();
    if (value) out = *value;
    return value.has_value();
  }
  template <class T>
    requires std::is_unsigned_v<T>
  static bool convert(const toml::node& node, T& out) {
    const auto value = node.value_exact<std::int64_t>();
    if (!value || *value < 0 || static_cast<std::uint64_t>(*value) > std::numeric_limits<T>::max()) return false;
    out = static_cast<T>(*value);
    return true;
  }
  template <class T>
  static bool convert(const toml::node& node, std::vector<T>& out) {
    const auto* list = node.as_array();
    if (!list) return false;
    out.clear();
    for (const auto& element : *list) {
      if (!convert(element, out.emplace_back())) return false;
    }
    return true;
  }

  static std::string describe(const std::string&) { return "text in quotes"; }
  static std::string describe(bool) { return "true or false"; }
  static std::string describe(double) { return "a number"; }
  template <class T>
    requires std::is_unsigned_v<T>
  static std::string describe(T) {
    return "a whole number from 0 to " + std::to_string(std::min<std::uint64_t>(
                                             std::numeric_limits<T>::max(), std::numeric_limits<std::int64_t>::max()));
  }
  template <class T>
  static std::string describe(const std::vector<T>&) {
    return "a list in brackets, each element " + describe(T{});
  }

  std::string file_;
  std::vector<std::string>& faults_;
};

std::vector<std::string> known_keys() {
  std::vector<std::string> keys = {"churn.schedule"};
  RunConfig config;
  for_each_field(config, [&](const char* key, auto&) { keys.emplace_back(key); });
  return keys;
}

void find_unknown(const toml::table& table, const std::string& prefix, const std::vector<std::string>& known,
                  FieldReader& reader) {
  for (const auto& [key, node] : table) {
    const std::string path = prefix + std::string(key.str());
    if (std::find(known.begin(), known.end(), path) != known.end()) continue;
    const bool section =
        std::any_of(known.begin(), known.end(), [&](const std::string& name) { return name.starts_with(path + "."); });
    if (section && node.is_table()) {
      find_unknown(*node.as_table(), path + ".", known, reader);
      continue;
    }
    std::string message = "unknown key " + path;
    if (const auto near = nearest_key(path, known)) message += "; did you mean " + *near + "?";
    reader.fault(node, message);
  }
}

void read_churn(const toml::table& root, RunConfig& config, FieldReader& reader) {
  const auto schedule = root.at_path("churn.schedule");
  if (!schedule) return;
  const auto* list = schedule.as_array();
  if (!list) return reader.fault(*schedule.node(), "churn.schedule must be a list of tables: [[churn.schedule]]");
  std::vector<std::string> known;
  ChurnEvent example;
  for_each_churn_field(example, [&](const char* key, auto&) { known.emplace_back(key); });
  for (const auto& element : *list) {
    const auto* table = element.as_table();
    if (!table) {
      reader.fault(element, "churn.schedule must be a list of tables: [[churn.schedule]]");
      continue;
    }
    find_unknown(*table, "", known, reader);
    ChurnEvent event;
    for_each_churn_field(event, [&](const char* key, auto& field) {
      if (const auto* node = table->get(key)) reader.read(*node, std::string("churn.schedule.") + key, field);
    });
    config.churn.push_back(std::move(event));
  }
}

// Puts `value` (TOML, or else plain text) at a dotted path.
Result<void> override_value(toml::table& root, const std::string& path, const std::string& value,
                            const std::string& origin) {
  toml::table parsed;
  try {
    parsed = toml::parse("value = " + value, origin);
  } catch (const toml::parse_error&) {
    parsed.insert("value", value);
  }
  toml::table* table = &root;
  std::string_view rest = path;
  for (auto dot = rest.find('.'); dot != std::string_view::npos; dot = rest.find('.')) {
    const auto key = rest.substr(0, dot);
    if (!table->get(key)) table->insert(key, toml::table{});
    table = table->get(key)->as_table();
    if (!table) return Error{origin + ": " + path + " leads through something that is no section"};
    rest = rest.substr(dot + 1);
  }
  parsed.get("value")->visit([&](auto& node) { table->insert_or_assign(rest, node); });
  return {};
}

std::string environment_name(const std::string& key) {
  std::string name = "TRIBUTARY_";
  for (const char c : key) name += c == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

std::string join_lines(const std::vector<std::string>& lines) {
  std::string text;
  for (const auto& line : lines) {
    if (!text.empty()) text += '\n';
    text += line;
  }
  return text;
}

void write_value(std::ostream& out, const std::string& value) { out << toml::value<std::string>(value); }
void write_value(std::ostream& out, bool value) { out << (value ? "true" : "false"); }
void write_value(std::ostream& out, double value) { out << toml::value<double>(value); }
template <class T>
  requires std::is_unsigned_v<T>
void write_value(std::ostream& out, T value) {
  out << value;
}
template <class T>
void write_value(std::ostream& out, const std::vector<T>& values) {
  out << '[';
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) out << ", ";
    write_value(out, values[i]);
  }
  out << ']';
}

std::string write_fields(const RunConfig& config, bool (*wanted)(std::string_view key)) {
  std::ostringstream out;
  std::string section;
  for_each_field(config, [&](const char* key, const auto& field) {
    if (!wanted(key)) return;
    const std::string path = key;
    const auto dot = path.find('.');
    if (dot != std::string::npos && path.substr(0, dot) != section) {
      section = path.substr(0, dot);
      out << "\n[" << section << "]\n";
    }
    out << (dot == std::string::npos ? path : path.substr(dot + 1)) << " = ";
    write_value(out, field);
    out << '\n';
  });
  return out.str();
}

}  // namespace

std::optional<std::string> nearest_key(const std::string& key, const std::vector<std::string>& known) {
  std::optional<std::string> best;
  std::size_t best_distance = std::max<std::size_t>(2, key.size() / 3) + 1;
  for (const auto& name : known) {
    // The last part alone may match too: a key put into the wrong section.
    const auto last = [](const std::string& path) { return path.substr(path.rfind('.') + 1); };
    if (last(name) == last(key)) return name;
    std::vector<std::size_t> row(name.size() + 1);
    for (std::size_t j = 0; j <= name.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= key.size(); ++i) {
      std::size_t diagonal = std::exchange(row[0], i);
      for (std::size_t j = 1; j <= name.size(); ++j) {
        const std::size_t change = diagonal + (key[i - 1] == name[j - 1] ? 0 : 1);
        diagonal = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
      }
    }
    if (row[name.size()] < best_distance) {
      best_distance = row[name.size()];
      best = name;
    }
  }
  return best;
}

Result<RunConfig> parse_run_config(const std::string& text, const std::string& name, const ConfigSources& sources) {
  toml::table root;
  try {
    root = toml::parse(text, name);
  } catch (const toml::parse_error& error) {
    return Error{name + ":" + std::to_string(error.source().begin.line) +
                 ": not TOML: " + std::string(error.description())};
  }
  std::vector<std::string> faults;
  const auto known = known_keys();
  const auto put = [&](const std::string& key, const std::string& value, const std::string& origin) {
    if (auto done = override_value(root, key, value, origin); !done) faults.push_back(done.error().message);
  };
  if (sources.environment) {
    for (const auto& key : known) {
      const auto variable = environment_name(key);
      if (const char* value = std::getenv(variable.c_str())) put(key, value, variable);
    }
  }
  for (const auto& override : sources.overrides) {
    const auto equals = override.find('=');
    if (equals == std::string::npos || equals == 0) {
      faults.push_back("--set " + override + ": write it as --set section.key=value");
      continue;
    }
    put(override.substr(0, equals), override.substr(equals + 1), "--set " + override);
  }
  RunConfig config;
  FieldReader reader(name, faults);
  find_unknown(root, "", known, reader);
  for_each_field(config, [&](const char* key, auto& field) {
    if (const auto node = root.at_path(key)) reader.read(*node.node(), key, field);
  });
  read_churn(root, config, reader);
  for (auto& fault : check_run_config(config)) faults.push_back(name + ": " + fault);
  if (!faults.empty()) return Error{join_lines(faults)};
  return config;
}

Result<RunConfig> load_run_config(const ConfigSources& sources) {
  auto text = text::read_file(sources.file, kMaxFileBytes);
  if (!text) return Error{text.error().message + "; give the path of a configuration such as examples/small.toml"};
  auto config = parse_run_config(*text, sources.file.string(), sources);
  if (!config) return config;
  // Paths in the file are relative to it; those of the command line, to where it is typed.
  const auto folder = sources.file.parent_path();
  const auto resolve = [&](std::string& path) {
    std::error_code error;
    if (std::filesystem::path(path).is_relative() && std::filesystem::exists(folder / path, error)) {
      path = std::filesystem::weakly_canonical(folder / path, error).string();
    } else if (std::filesystem::exists(path, error)) {
      path = std::filesystem::weakly_canonical(path, error).string();
    }
  };
  for (auto& path : config->data.corpus) resolve(path);
  if (config->data.tokenizer != "bytes") resolve(config->data.tokenizer);
  return config;
}

std::string write_run_config(const RunConfig& config) {
  std::ostringstream out;
  out << write_fields(config, [](std::string_view) { return true; });
  for (const auto& event : config.churn) {
    out << "\n[[churn.schedule]]\n";
    for_each_churn_field(event, [&](const char* key, const auto& field) {
      out << key << " = ";
      write_value(out, field);
      out << '\n';
    });
  }
  return out.str();
}

std::string resume_fingerprint(const RunConfig& config) {
  return write_fields(config, [](std::string_view key) {
    constexpr std::string_view kFree[] = {"name",
                                          "data.corpus",  // compared by content
                                          "data.tokenizer",
                                          "training.iterations",
                                          "training.eval_every",
                                          "training.checkpoint_every",
                                          "training.threads",
                                          "training.device",
                                          "training.recompute_activations",
                                          "swarm.stages",  // compared by the cut
                                          "swarm.blocks",
                                          "swarm.data_nodes",
                                          "swarm.relays",
                                          "swarm.router",
                                          "swarm.move_relays",
                                          "swarm.voters",
                                          "swarm.slow",
                                          "swarm.slots",
                                          "swarm.memory_mib",
                                          "swarm.restart_after_s"};
    return std::find(std::begin(kFree), std::end(kFree), key) == std::end(kFree) && !key.starts_with("network.");
  });
}

}  // namespace tributary::app
