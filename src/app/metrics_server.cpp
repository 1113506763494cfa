#include "app/metrics_server.h"

#include <httplib.h>

#include <charconv>
#include <fstream>
#include <thread>

#include "app/node_status.h"

namespace tributary::app {
namespace {

constexpr std::streamoff kTailBytes = 64 << 10;
constexpr std::size_t kThreads = 2;

struct Metric {
  const char *key, *name, *type, *help;
};

constexpr Metric kOfNodes[] = {
    {"iteration", "tributary_node_iteration", "gauge", "Iteration that the node works in."},
    {"epoch", "tributary_node_epoch", "gauge", "Beginnings and rewinds of the run so far."},
    {"leading", "tributary_node_leading", "gauge", "1 on the voter that leads."},
    {"slots", "tributary_node_slots", "gauge", "Microbatches between forward and backward at a time."},
    {"resident_mib", "tributary_node_resident_mebibytes", "gauge", "Resident memory of the process."},
    {"bytes_in", "tributary_node_received_bytes_total", "counter", "From other nodes, without TLS."},
    {"bytes_out", "tributary_node_sent_bytes_total", "counter", "To other nodes, without TLS."},
    {"repairs", "tributary_node_repairs_total", "counter", "Hops replaced because a node was lost."},
    {"replays", "tributary_node_replays_total", "counter", "Parts computed again for a dead owner."},
    {"rejoins", "tributary_node_rejoins_total", "counter", "Times it fell behind or was declared dead, and came back."},
    {"rewinds", "tributary_node_rewinds_total", "counter", "Times the run went back to a checkpoint."},
    {"false_suspicions", "tributary_node_false_suspicions_total", "counter", "Suspected peers that were heard again."},
    {"bad_frames", "tributary_node_bad_frames_total", "counter", "Damaged frames and messages from others."},
    {"bad_tensors", "tributary_node_bad_tensors_total", "counter", "Tensors from others that were not finite."},
    {"strangers", "tributary_node_strangers_total", "counter", "Connections without the run's secret."}};

constexpr Metric kOfRuns[] = {
    {"iteration", "tributary_iteration", "gauge", "Last finished iteration."},
    {"loss", "tributary_loss", "gauge", "Training loss of that iteration, nats a token."},
    {"held_out_loss", "tributary_held_out_loss", "gauge", "Loss on held-out text, nats a token."},
    {"learning_rate", "tributary_learning_rate", "gauge", "Learning rate of that iteration."},
    {"gradient_norm", "tributary_gradient_norm", "gauge", "Norm of that iteration's gradient, before clipping."},
    {"seconds", "tributary_iteration_seconds", "gauge", "Duration of that iteration."},
    {"tokens_per_s", "tributary_tokens_per_second", "gauge", "Speed in that iteration."},
    {"tokens", "tributary_tokens_total", "counter", "Tokens trained on since this start."}};

std::string number(const nlohmann::json& value) {
  if (value.is_boolean()) return value.get<bool>() ? "1" : "0";
  return value.dump();
}

void declare(std::string& out, const Metric& metric) {
  out +=
      std::string("# HELP ") + metric.name + " " + metric.help + "\n# TYPE " + metric.name + " " + metric.type + "\n";
}

std::string labels(const nlohmann::json& node) {
  return "{node=\"" + node["id"].dump() + "\",stage=\"" + node.value("stage", nlohmann::json(0)).dump() + "\",role=\"" +
         (node.value("role", "") == "relay" ? "relay" : "data") + "\"}";
}

// The latest value of every figure in the last lines.
nlohmann::json last_row(const std::filesystem::path& file) {
  nlohmann::json row = nlohmann::json::object();
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  if (!in) return row;
  const auto size = static_cast<std::streamoff>(in.tellg());
  in.seekg(std::max<std::streamoff>(0, size - kTailBytes));
  std::string line;
  while (std::getline(in, line)) {
    const auto object = nlohmann::json::parse(line, nullptr, false);
    if (object.is_object() && !object.contains("event")) row.update(object);
  }
  return row;
}

}  // namespace

std::string prometheus_text(const std::vector<nlohmann::json>& nodes, const nlohmann::json& row) {
  std::string out;
  for (const auto& metric : kOfRuns) {
    if (!row.contains(metric.key) || !row[metric.key].is_number()) continue;
    declare(out, metric);
    out += std::string(metric.name) + " " + number(row[metric.key]) + "\n";
  }
  if (nodes.empty()) return out;
  declare(out, {"", "tributary_node_up", "gauge", "1 while the node's process lives."});
  for (const auto& node : nodes) out += "tributary_node_up" + labels(node) + (node.contains("pid") ? " 1\n" : " 0\n");
  for (const auto& metric : kOfNodes) {
    std::string lines;
    for (const auto& node : nodes)
      if (node.contains(metric.key) && (node[metric.key].is_number() || node[metric.key].is_boolean()))
        lines += metric.name + labels(node) + " " + number(node[metric.key]) + "\n";
    if (lines.empty()) continue;
    declare(out, metric);
    out += lines;
  }
  return out;
}

struct MetricsServer::Http {
  httplib::Server server;
  std::jthread thread;
};

MetricsServer::MetricsServer() : http_(std::make_unique<Http>()) {}

MetricsServer::~MetricsServer() {
  http_->server.stop();
  if (http_->thread.joinable()) http_->thread.join();
}

Result<std::unique_ptr<MetricsServer>> MetricsServer::start(const std::string& listen, std::filesystem::path folder,
                                                            bool one_node) {
  const auto colon = listen.rfind(':');
  const auto host = colon == std::string::npos ? std::string("127.0.0.1") : listen.substr(0, colon);
  const auto digits = colon == std::string::npos ? listen : listen.substr(colon + 1);
  int port = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size() || port < 0 || port > 65535 || host.empty())
    return Error{"--metrics: \"" + listen + "\" is neither PORT nor HOST:PORT, such as 9100 or 0.0.0.0:9100"};
  std::unique_ptr<MetricsServer> made(new MetricsServer());
  auto& server = made->http_->server;
  server.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
  server.set_keep_alive_max_count(1);
  server.set_payload_max_length(4096);
  server.Get("/metrics", [folder = std::move(folder), one_node](const httplib::Request&, httplib::Response& response) {
    std::vector<nlohmann::json> nodes;
    if (!one_node) {
      nodes = node_statuses(folder);
    } else if (auto status = node_status(folder)) {
      nodes.push_back(std::move(*status));
    }
    response.set_content(
        prometheus_text(nodes, one_node ? nlohmann::json::object() : last_row(folder / "metrics.jsonl")),
        "text/plain; version=0.0.4; charset=utf-8");
  });
  // Without SO_REUSEPORT, which is the library's default, a port that is taken is refused.
  server.set_socket_options([](socket_t socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  const int got = port == 0                                 ? server.bind_to_any_port(host.c_str())
                  : server.bind_to_port(host.c_str(), port) ? port
                                                            : -1;
  if (got <= 0)
    return Error{"--metrics: cannot listen on " + host + ":" + std::to_string(port) +
                 "; it is taken, or no address of this machine: choose another, or 0 for any"};
  made->address_ = "http://" + host + ":" + std::to_string(got) + "/metrics";
  made->http_->thread = std::jthread([&server] { server.listen_after_bind(); });
  return made;
}

}  // namespace tributary::app
