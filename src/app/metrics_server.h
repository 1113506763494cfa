// Figures for Prometheus at http://HOST:PORT/metrics, read from what nodes and runs write of themselves, so that asking
// costs the training nothing. Threads of its own; bound: two requests at a time.
#pragma once
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"

namespace tributary::app {

// The text format, version 0.0.4. `nodes`: as of node_statuses(); `row`: the last lines of the run's metrics put
// together, or an empty object.
std::string prometheus_text(const std::vector<nlohmann::json>& nodes, const nlohmann::json& row);

class MetricsServer {
 public:
  // `listen`: PORT or HOST:PORT; without a host only this machine can ask; port 0: any. `folder`: of a run, or with
  // `one_node` of a node. Errors: a wrong address, a port that is taken.
  static Result<std::unique_ptr<MetricsServer>> start(const std::string& listen, std::filesystem::path folder,
                                                      bool one_node);
  ~MetricsServer();
  // "http://127.0.0.1:9100/metrics"
  const std::string& address() const { return address_; }

 private:
  struct Http;
  MetricsServer();
  std::unique_ptr<Http> http_;
  std::string address_;
};

}  // namespace tributary::app
