#include "app/control.h"

#include <nlohmann/json.hpp>

#include "text/files.h"

namespace tributary::app {
namespace {

constexpr std::uint64_t kMostBytes = 4096;

}  // namespace

std::filesystem::path control_path(const std::filesystem::path& folder) { return folder / "control.json"; }

Result<Control> read_control(const std::filesystem::path& folder) {
  const auto file = control_path(folder);
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return Control{};
  const auto text = text::read_file(file, kMostBytes);
  if (!text) return text.error();
  const auto object = nlohmann::json::parse(*text, nullptr, false);
  Control control;
  for (const auto& [key, field] : {std::pair{"paused", &control.paused}, {"black_hole", &control.black_hole}}) {
    if (!object.is_object() || (object.contains(key) && !object[key].is_boolean()))
      return Error{file.string() + " is damaged; remove it, or write it anew with `tributary resume`"};
    *field = object.value(key, false);
  }
  return control;
}

Result<void> write_control(const std::filesystem::path& folder, const Control& control) {
  const nlohmann::ordered_json object = {{"paused", control.paused}, {"black_hole", control.black_hole}};
  return text::write_file(control_path(folder), object.dump() + "\n");
}

}  // namespace tributary::app
