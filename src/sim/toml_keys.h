// Reads the keys of a TOML table once each. What is wrong with them is collected, with the line, and so is any key that
// nobody asked for. Internal to the readers of scenarios.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/toml.h"

namespace tributary::sim {

class Keys {
 public:
  // `table` may be null: then nothing is there. `path` comes before the key's name in faults, as in "links.".
  Keys(const toml::table* table, std::string path, std::vector<std::string>& faults)
      : table_(table), path_(std::move(path)), faults_(faults) {}
  ~Keys();
  Keys(const Keys&) = delete;
  Keys& operator=(const Keys&) = delete;

  void number(const char* key, double& into, double least, double most);
  template <class Integer>
  void integer(const char* key, Integer& into, std::int64_t least, std::int64_t most) {
    std::int64_t value = 0;
    if (whole(key, value, least, most)) into = static_cast<Integer>(value);
  }
  void flag(const char* key, bool& into);
  void text(const char* key, std::string& into);
  const toml::table* table(const char* key);
  const toml::array* array(const char* key);
  // Null if it is not there.
  const toml::node* node(const char* key);
  void fault(const toml::node& node, const std::string& key, const std::string& what);
  std::vector<std::string>& faults() { return faults_; }

 private:
  bool whole(const char* key, std::int64_t& into, std::int64_t least, std::int64_t most);
  const toml::table* table_;
  const std::string path_;
  std::vector<std::string>& faults_;
  std::vector<std::string> known_;
};

}  // namespace tributary::sim
