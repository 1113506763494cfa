// The table of `sim compare --ablate`, for people and as JSON.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/ablation.h"

namespace tributary::app {

// Bounds that are not known are null.
nlohmann::ordered_json ablation_json(const std::vector<sim::AblationRow>& rows);
void print_ablation(const std::vector<sim::AblationRow>& rows);

}  // namespace tributary::app
