// What the nodes of a run on this machine last wrote of themselves.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

namespace tributary::app {

// Of the node with this folder, corrected by what is known of its process: "pid" only while it lives, state "dead" if
// it ended without a word. None: it never wrote one, or the file is damaged.
std::optional<nlohmann::json> node_status(const std::filesystem::path& folder);
// Of all of them, by id.
std::vector<nlohmann::json> node_statuses(const std::filesystem::path& run);

}  // namespace tributary::app
