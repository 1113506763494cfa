#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/commands.h"
#include "app/swarm_setup.h"
#include "net/transport.h"
#include "text/files.h"

namespace tributary::app {
namespace {

struct Finding {
  std::string what;
  bool good = true;
  std::string detail;  // what was found; if not good, what to do
};

Finding check_machine() {
  const auto pages = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  char text[80];
  std::snprintf(text, sizeof text, "%u cores, %.1f GiB of memory", std::thread::hardware_concurrency(),
                pages / (1ull << 30));
  return {"machine", true, text + std::string("; LibTorch computes on ") + node::devices_here()};
}

Finding check_disk(const std::filesystem::path& runs) {
  if (auto made = text::make_folder(runs); !made) return {"disk", false, made.error().message};
  const auto probe = runs / ".doctor";
  if (auto written = text::write_file(probe, "probe"); !written) return {"disk", false, written.error().message};
  std::error_code error;
  std::filesystem::remove(probe, error);
  const auto space = std::filesystem::space(runs, error);
  char text[120];
  std::snprintf(text, sizeof text, "%.1f GiB free in %s", static_cast<double>(space.available) / (1ull << 30),
                runs.c_str());
  return {"disk", space.available > (1ull << 28),
          std::string(text) + (space.available > (1ull << 28) ? "" : "; checkpoints need more")};
}

// Two transports on this machine, as two nodes of a run, exchange one message over TLS.
Finding check_network() {
  std::mutex mutex;
  std::condition_variable arrived;
  bool got = false;
  std::string failure;
  const auto secret = net::RunSecret::generate();
  const auto options = [&](std::uint32_t id) {
    net::TransportOptions o;
    o.node = NodeId(id);
    o.incarnation = Incarnation(1);
    o.secret = secret;
    o.run = "doctor";
    return o;
  };
  struct Executor {
    std::mutex mutex;
    std::condition_variable_any wake;
    std::vector<std::function<void()>> queue;
    std::jthread thread{[this](std::stop_token stop) {
      while (true) {
        std::unique_lock lock(mutex);
        if (!wake.wait(lock, stop, [&] { return !queue.empty(); })) return;
        auto todo = std::exchange(queue, {});
        lock.unlock();
        for (auto& task : todo) task();
      }
    }};
    void post(std::function<void()> task) {
      {
        const std::lock_guard lock(mutex);
        queue.push_back(std::move(task));
      }
      wake.notify_all();
    }
  } executor;
  net::Callbacks callbacks;
  callbacks.executor = [&](std::function<void()> task) { executor.post(std::move(task)); };
  callbacks.on_message = [&](NodeId, Incarnation, const net::Message&) {
    const std::lock_guard lock(mutex);
    got = true;
    arrived.notify_all();
  };
  callbacks.on_peer_up = [](const net::PeerInfo&) {};
  callbacks.on_peer_down = [](NodeId, Incarnation, const std::string&) {};
  callbacks.on_dial_failed = [&](const net::DialFailure& f) {
    const std::lock_guard lock(mutex);
    failure = f.reason;
  };
  net::Transport a(options(1), callbacks), b(options(2), callbacks);
  for (auto* transport : {&a, &b})
    if (auto listening = transport->listen(); !listening) return {"network", false, listening.error().message};
  a.set_address(NodeId(2), {"127.0.0.1", b.port()});
  const auto begin = std::chrono::steady_clock::now();
  a.send(NodeId(2), {{std::byte{1}}, nullptr});
  std::unique_lock lock(mutex);
  const bool good = arrived.wait_for(lock, std::chrono::seconds(10), [&] { return got; });
  const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  lock.unlock();
  a.stop();
  b.stop();
  char text[80];
  std::snprintf(text, sizeof text, "two nodes met over TLS 1.3 in %.0f ms", took * 1e3);
  return {"network", good,
          good ? text : "two nodes on this machine could not meet: " + failure + "; is loopback filtered?"};
}

// One microbatch of the configuration's model (or a small one), forward and backward.
Finding check_compute(const Workload& work) {
  auto options = work.compute_options({}, true);
  options.tokens = [shape = work.shape, options](Iteration, MicrobatchId) {
    std::vector<text::Token> tokens(options.batch * (options.sequence + 1ull));
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<text::Token>(i % shape.vocabulary);
    return tokens;
  };
  auto compute = node::TorchCompute::create(options);
  if (!compute) return {"compute", false, compute.error().message};
  double best = 0;
  std::uint64_t id = 1;
  for (int round = 0; round < 3; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    std::vector<Payload> inputs(work.cut.stages() + 2u);
    const auto run = [&](swarm::TaskKind kind, std::uint16_t stage, std::uint16_t part, Payload input,
                         Payload gradient) {
      swarm::Task task;
      task.id = id++;
      task.kind = kind;
      task.stage = StageId(stage);
      task.part = PartId(part);
      task.input = std::move(input);
      task.gradient = std::move(gradient);
      return (*compute)->run(task);
    };
    if (round == 0)
      for (std::uint16_t s = 0; s <= work.cut.stages(); ++s) run(swarm::TaskKind::kInit, s, s, nullptr, nullptr);
    auto result = run(swarm::TaskKind::kEmbed, 0, 0, nullptr, nullptr);
    for (std::uint16_t s = 1; s <= work.cut.stages() && result.ok; ++s) {
      inputs[s] = result.output;
      result = run(swarm::TaskKind::kForward, s, s, inputs[s], nullptr);
    }
    const auto head = static_cast<std::uint16_t>(work.cut.stages() + 1);
    if (result.ok) result = run(swarm::TaskKind::kHead, 0, head, result.output, nullptr);
    for (auto s = work.cut.stages(); s >= 1 && result.ok; --s)
      result = run(swarm::TaskKind::kBackward, s, s, inputs[s], result.output);
    if (!result.ok) return {"compute", false, result.error};
    for (std::uint16_t p = 1; p <= head; ++p) run(swarm::TaskKind::kDiscard, p == head ? 0 : p, p, nullptr, nullptr);
    const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    best = std::max(best, static_cast<double>(options.batch) * options.sequence / took);
  }
  char text[120];
  std::snprintf(text, sizeof text, "%.0f tokens/s for the whole model (%s, %d threads)", best,
                work.config.training.precision.c_str(), options.threads);
  return {"compute", true, text};
}

}  // namespace

int doctor(const DoctorArguments& arguments) {
  std::vector<Finding> findings = {check_machine(), check_disk(arguments.runs), check_network()};
  RunConfig config;
  config.data.corpus = {"none"};
  bool with_text = false;
  if (!arguments.config.file.empty()) {
    auto loaded = load_run_config(arguments.config);
    findings.push_back(
        {"configuration", loaded.ok(), loaded ? arguments.config.file.string() : loaded.error().message});
    if (loaded) config = std::move(*loaded);
    with_text = loaded.ok();
  }
  auto work = load_workload(config, arguments.runs / "cache", with_text);
  if (with_text || !work) {
    char text[80] = "";
    if (work)
      std::snprintf(text, sizeof text, "%.2f million tokens",
                    static_cast<double>(work->corpus->training().size()) * 1e-6);
    findings.push_back({"text", work.ok(), work ? text : work.error().message});
  }
  if (work) findings.push_back(check_compute(*work));
  bool good = true;
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const auto& finding : findings) {
    good = good && finding.good;
    all.push_back({{"check", finding.what}, {"good", finding.good}, {"detail", finding.detail}});
    if (!arguments.json)
      std::printf("%-4s %-14s %s\n", finding.good ? "ok" : "BAD", finding.what.c_str(), finding.detail.c_str());
  }
  if (arguments.json) std::printf("%s\n", all.dump(1).c_str());
  return good ? kDone : kFailed;
}

}  // namespace tributary::app
