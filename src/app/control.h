// What users ask of a node, or of a run, that is under way: a small file in its folder, written by `tributary pause`
// and `resume` and by the churn schedule, and read by the process itself several times a second.
#pragma once
#include <filesystem>

#include "base/result.h"

namespace tributary::app {

struct Control {
  bool paused = false;      // leave politely, and come back when it is no longer set
  bool black_hole = false;  // nodes only: as if the network were gone
  bool operator==(const Control&) const = default;
};

std::filesystem::path control_path(const std::filesystem::path& folder);
// No file: nothing is asked. Errors: a file that is no such thing; it names the remedy.
Result<Control> read_control(const std::filesystem::path& folder);
// Errors: the disk.
Result<void> write_control(const std::filesystem::path& folder, const Control& control);

}  // namespace tributary::app
