// What a configuration must fulfil beyond its types.
#pragma once
#include "app/run_config.h"

namespace tributary::app {

// Every fault, each naming its key and what would do.
std::vector<std::string> check_run_config(const RunConfig& config);

}  // namespace tributary::app
