#include "app/scenario_file.h"

#include "text/files.h"

namespace tributary::app {

Result<LoadedScenario> load_scenario(const std::filesystem::path& path) {
  LoadedScenario loaded;
  const auto read = [&](const std::filesystem::path& file) -> Result<std::string> {
    auto text = text::read_file(file, sim::kMostScenarioBytes);
    if (text) loaded.text += *text + '\n';
    return text;
  };
  const auto text = read(path);
  if (!text) return text.error();
  auto scenario =
      path.extension() == ".json"
          ? sim::parse_world(*text)
          : sim::parse_scenario(*text, [&](const std::string& name) { return read(path.parent_path() / name); });
  if (!scenario) return Error{path.string() + ": " + scenario.error().message};
  loaded.scenario = std::move(*scenario);
  return loaded;
}

}  // namespace tributary::app
