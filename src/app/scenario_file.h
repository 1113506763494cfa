// Reads a scenario (TOML) or a world file (.json) for the commands of the laboratory.
#pragma once
#include <filesystem>
#include <string>

#include "sim/scenario.h"

namespace tributary::app {

struct LoadedScenario {
  sim::Scenario scenario;
  std::string text;  // of the file and of those that it names
};
// Errors: the file, and what is wrong in it.
Result<LoadedScenario> load_scenario(const std::filesystem::path& path);

}  // namespace tributary::app
