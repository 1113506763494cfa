#include "sim/toml_keys.h"

#include <sstream>

namespace tributary::sim {
namespace {

std::string text_of(double value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

}  // namespace

Keys::~Keys() {
  if (!table_) return;
  for (const auto& [key, value] : *table_) {
    if (std::find(known_.begin(), known_.end(), key.str()) != known_.end()) continue;
    std::string list;
    for (const auto& known : known_) list += (list.empty() ? "" : ", ") + known;
    fault(value, std::string(key.str()), "is unknown; there are " + list);
  }
}

void Keys::number(const char* key, double& into, double least, double most) {
  const auto* found = node(key);
  if (!found) return;
  const auto value = found->value<double>();
  if (!value || !(*value >= least && *value <= most))
    return fault(*found, key, "must be a number from " + text_of(least) + " to " + text_of(most));
  into = *value;
}

bool Keys::whole(const char* key, std::int64_t& into, std::int64_t least, std::int64_t most) {
  const auto* found = node(key);
  if (!found) return false;
  const auto value = found->value<std::int64_t>();
  if (!value || *value < least || *value > most) {
    fault(*found, key, "must be a whole number from " + std::to_string(least) + " to " + std::to_string(most));
    return false;
  }
  into = *value;
  return true;
}

void Keys::flag(const char* key, bool& into) {
  const auto* found = node(key);
  if (!found) return;
  if (const auto value = found->value<bool>()) {
    into = *value;
  } else {
    fault(*found, key, "must be true or false");
  }
}

void Keys::text(const char* key, std::string& into) {
  const auto* found = node(key);
  if (!found) return;
  if (const auto value = found->value<std::string>()) {
    into = *value;
  } else {
    fault(*found, key, "must be a text");
  }
}

const toml::table* Keys::table(const char* key) {
  const auto* found = node(key);
  if (found && !found->is_table()) fault(*found, key, "must be a table");
  return found ? found->as_table() : nullptr;
}

const toml::array* Keys::array(const char* key) {
  const auto* found = node(key);
  if (found && !found->is_array()) fault(*found, key, "must be a list");
  return found ? found->as_array() : nullptr;
}

const toml::node* Keys::node(const char* key) {
  known_.emplace_back(key);
  return table_ ? table_->get(key) : nullptr;
}

void Keys::fault(const toml::node& node, const std::string& key, const std::string& what) {
  faults_.push_back("line " + std::to_string(node.source().begin.line) + ": " + path_ + key + " " + what);
}

}  // namespace tributary::sim
