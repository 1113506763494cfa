// The finished cells of a comparison on disk: FOLDER/cells.txt, a line each. One thread.
#pragma once
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "sim/compare.h"

namespace tributary::app {

class CompareStore {
 public:
  // Makes the folder if it is not there, and reads what it holds. Errors: the folder or the file, and why.
  static Result<CompareStore> open(const std::filesystem::path& folder);
  // What the file held under this key; null if nothing.
  const sim::CompareResult* find(const std::string& key) const;
  // Writes a line through to the file. Errors: the disk.
  Result<void> add(const sim::CompareLine& line);
  // Damaged lines that were skipped: where, and why.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  std::filesystem::path path_;
  std::map<std::string, sim::CompareResult> cells_;
  std::vector<std::string> warnings_;
  std::ofstream file_;
};

inline constexpr std::size_t kMostStoreBytes = std::size_t{256} << 20;

}  // namespace tributary::app
