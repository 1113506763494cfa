#include <sys/prctl.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/commands.h"
#include "app/invitation.h"
#include "app/metrics_server.h"
#include "app/steering.h"
#include "app/swarm_setup.h"
#include "base/log.h"
#include "model/checkpoint.h"
#include "node/memory_need.h"
#include "node/process.h"
#include "text/files.h"

namespace tributary::app {
namespace {

// The node's log file; TRIBUTARY_LOG=debug adds every task and every decision of the log.
void log_to(const std::filesystem::path& file) {
  const char* wanted = std::getenv("TRIBUTARY_LOG");
  const auto level = wanted && std::string_view(wanted) == "debug" ? log::Level::kDebug : log::Level::kInfo;
  auto* out = std::fopen(file.c_str(), "a");
  if (!out) return;
  std::setvbuf(out, nullptr, _IOLBF, 0);
  log::set_sink(
      [out](log::Level of, std::string_view line) {
        static constexpr const char* kNames[] = {"debug", "info", "warning", "error"};
        timespec at{};
        clock_gettime(CLOCK_REALTIME, &at);
        tm parts{};
        gmtime_r(&at.tv_sec, &parts);
        char stamp[40];
        std::strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &parts);
        std::fprintf(out, "%s.%03ldZ %s %.*s\n", stamp, at.tv_nsec / 1'000'000, kNames[static_cast<int>(of)],
                     static_cast<int>(line.size()), line.data());
      },
      level);
}

Result<net::Address> parse_address(const std::string& text) {
  const auto colon = text.rfind(':');
  const auto fault = Error{"\"" + text + "\" is not HOST:PORT, such as 192.0.2.1:7000 or [2001:db8::1]:7000"};
  if (colon == std::string::npos || colon == 0 || colon + 1 == text.size()) return fault;
  net::Address address{text.substr(0, colon), 0};
  if (address.host.front() == '[' && address.host.back() == ']')
    address.host = address.host.substr(1, address.host.size() - 2);
  char* end = nullptr;
  const auto port = std::strtoul(text.c_str() + colon + 1, &end, 10);
  if (*end != '\0' || port > 65535 || address.host.empty()) return fault;
  address.port = static_cast<std::uint16_t>(port);
  return address;
}

std::uint64_t new_incarnation() {
  timespec at{};
  clock_gettime(CLOCK_REALTIME, &at);
  return (static_cast<std::uint64_t>(at.tv_sec) * 1000 + static_cast<std::uint64_t>(at.tv_nsec) / 1'000'000) << 16;
}

void report_applied(const NodeArguments& arguments, const swarm::Applied& applied) {
  const auto& commit = applied.commit;
  if (arguments.json) {
    const nlohmann::ordered_json line = {{"event", "applied"},
                                         {"epoch", commit.epoch},
                                         {"iteration", commit.iteration.value()},
                                         {"loss", commit.loss},
                                         {"tokens", commit.tokens},
                                         {"learning_rate", commit.learning_rate},
                                         {"gradient_norm", commit.gradient_norm},
                                         {"excluded", commit.excluded}};
    std::printf("%s\n", line.dump().c_str());
  } else {
    std::printf("iteration %llu done: loss %.4f\n", static_cast<unsigned long long>(commit.iteration.value()),
                commit.loss);
  }
  std::fflush(stdout);
}

// So that `status` tells a pause from an end.
void mark_as_paused(const std::filesystem::path& folder) {
  constexpr std::uint64_t kMostBytes = 1 << 20;
  const auto text = text::read_file(node::status_path(folder), kMostBytes);
  auto status = text ? nlohmann::ordered_json::parse(*text, nullptr, false) : nlohmann::ordered_json();
  if (!status.is_object()) return;
  status["state"] = "paused";
  (void)text::write_file(node::status_path(folder), status.dump(1) + "\n");
}

// Offers fewer slots, or only a stage that fits. Errors: no stage that the node may hold fits.
Result<void> keep_within_memory(std::uint64_t budget, node::ComputeOptions& compute, swarm::NodeOptions& options) {
  std::optional<StageId> fitting;
  std::uint32_t slots = options.slots;
  bool all_fit = true;
  std::string why;
  const auto consider = [&](StageId stage) {
    const auto fit = node::slots_within(budget, node::memory_need(compute, stage), options.slots, stage);
    if (!fit) {
      all_fit = false;
      if (why.empty()) why = fit.error().message;
      return;
    }
    if (!fitting) fitting = stage;
    slots = std::min(slots, *fit);
  };
  if (options.data_node || options.stage != StageId(0)) consider(options.data_node ? StageId(0) : options.stage);
  if (!options.data_node && options.any_stage)
    for (std::uint16_t stage = 1; stage <= compute.cut.stages(); ++stage)
      if (StageId(stage) != options.stage) consider(StageId(stage));
  if (!fitting) return Error{why};
  if (!options.data_node && !all_fit) {
    options.stage = *fitting;
    options.any_stage = false;
    log::info("memory", {{"only_stage", *fitting}, {"why", why}});
  }
  options.slots = static_cast<std::uint16_t>(slots);
  compute.kept_graphs = std::min<std::size_t>(compute.kept_graphs, slots);
  return {};
}

// One process after the other, each with a new incarnation: a pause ends one, resuming begins the next.
int live(node::ProcessOptions options, const std::filesystem::path& checkpoints, Steering& steering) {
  const auto given_seeds = options.seeds;
  while (true) {
    options.node.incarnation = options.transport.incarnation = Incarnation(new_incarnation());
    options.node.seed = options.transport.seed = options.node.incarnation.value();
    options.node.checkpoints.clear();
    for (const auto& [iteration, stage] : model::saved_stages(checkpoints))
      options.node.checkpoints.push_back({stage, iteration});
    node::Process process(options);
    steering.steer(process);
    auto ended = process.run();
    steering.release();
    if (!ended) return fail(ended.error().message);
    if (ended->reason == swarm::ExitReason::kLeft && steering.paused()) {
      mark_as_paused(options.folder);
      if (!steering.wait_for_resume()) return kDone;
      // Those that it was told of may have moved since; those that it knew last are better.
      options.seeds = process.known_addresses();
      options.seeds.insert(options.seeds.end(), given_seeds.begin(), given_seeds.end());
      continue;
    }
    switch (ended->reason) {
      case swarm::ExitReason::kFinished:
      case swarm::ExitReason::kHalted:
      case swarm::ExitReason::kLeft:
        return kDone;
      default:
        return fail(ended->message);
    }
  }
}

}  // namespace

int node(const NodeArguments& given) {
  auto arguments = given;
  if (!arguments.invitation.empty()) {
    auto invitation = read_invitation(arguments.invitation);
    if (!invitation) return fail(invitation.error().message);
    auto config_file = accept_invitation(*invitation, arguments.runs);
    if (!config_file) return fail(config_file.error().message);
    arguments.config.file = *config_file;
    arguments.join.insert(arguments.join.end(), invitation->addresses.begin(), invitation->addresses.end());
  } else if (arguments.config.file.empty()) {
    return fail("say which run: --invitation FILE, or --config FILE with the run's secret", kWrongUse);
  }
  if (arguments.with_parent) prctl(PR_SET_PDEATHSIG, SIGKILL);
  Steering steering;
  auto config = load_run_config(arguments.config);
  if (!config) return fail(config.error().message, kWrongUse);
  const auto run_folder = arguments.runs / config->name;
  auto work = load_workload(*config, arguments.runs / "cache", arguments.data_node);
  if (!work) return fail(work.error().message);
  auto secret = net::RunSecret::load(arguments.secret.empty() ? secret_path(run_folder) : arguments.secret);
  if (!secret) return fail(secret.error().message);
  auto links = link_table(config->network);
  if (!links) return fail(links.error().message, kWrongUse);

  node::ProcessOptions options;
  // A volunteer without an id gets one from its key, well above those that a configuration gives out.
  const auto identity_folder = arguments.id ? node_folder(run_folder, NodeId(*arguments.id)) : run_folder / "volunteer";
  if (auto made = text::make_folder(identity_folder); !made) return fail(made.error().message);
  auto identity = net::Identity::load_or_create(identity_folder / "identity.pem");
  if (!identity) return fail(identity.error().message);
  const auto from_key = static_cast<std::uint32_t>(checksum64(identity->public_key()) | 0x80000000u) & 0xfffffffeu;
  const NodeId self(arguments.id ? static_cast<std::uint32_t>(*arguments.id) : from_key);
  options.folder = node_folder(run_folder, self);
  if (auto made = text::make_folder(options.folder); !made) return fail(made.error().message);
  log_to(options.folder / "log.txt");

  options.node.run = run_options(*work);
  options.node.shared_disk = arguments.shared_disk;
  options.node.self = self;
  options.node.data_node = arguments.data_node;
  options.node.slots = static_cast<std::uint16_t>(arguments.slots);
  options.node.stage = StageId(static_cast<std::uint16_t>(arguments.stage));
  options.node.any_stage = !arguments.only_stage;
  if (const auto fault = options.node.pace.check(); !fault.empty()) return fail("pace: " + fault, kWrongUse);

  options.transport.identity = std::move(*identity);
  options.transport.secret = *secret;
  options.transport.run = config->name;
  options.transport.links = *links;
  options.transport.region = arguments.region.empty() ? region_of(*links, self) : arguments.region;
  options.transport.upload_bytes_per_s = arguments.upload_mbps * 1e6 / 8;
  options.transport.download_bytes_per_s = arguments.download_mbps * 1e6 / 8;
  auto listen = parse_address(arguments.listen);
  if (!listen) return fail("--listen: " + listen.error().message, kWrongUse);
  options.transport.listen_host = listen->host;
  options.transport.listen_port = listen->port;
  options.transport.advertised_host = arguments.advertise;
  for (const auto& text : arguments.join) {
    auto seed = parse_address(text);
    if (!seed) return fail("--join: " + seed.error().message, kWrongUse);
    options.seeds.push_back(*seed);
  }
  if (auto checked = options.transport.check(); !checked) return fail(checked.error().message, kWrongUse);
  options.slowness = arguments.slow;

  const auto checkpoints = (arguments.shared_disk ? run_folder : options.folder) / "checkpoints";
  auto compute = work->compute_options(checkpoints, false);
  compute.threads = arguments.threads > 0 ? static_cast<int>(arguments.threads) : compute.threads;
  if (arguments.memory_mib > 0) {
    auto fits = keep_within_memory(arguments.memory_mib << 20, compute, options.node);
    if (!fits) return fail(fits.error().message);
    options.memory_budget = arguments.memory_mib << 20;
  }
  options.make_compute = [compute]() -> Result<std::unique_ptr<swarm::Compute>> {
    auto made = node::TorchCompute::create(compute);
    if (!made) return made.error();
    return std::unique_ptr<swarm::Compute>(std::move(*made));
  };
  if (arguments.json)
    options.on_repaired = [] {
      std::printf("{\"event\":\"repaired\"}\n");
      std::fflush(stdout);
    };
  options.on_evaluated = [&](const swarm::Evaluated& evaluated) {
    const nlohmann::ordered_json line = {
        {"event", "evaluated"}, {"iteration", evaluated.iteration.value()}, {"loss", evaluated.loss}};
    if (arguments.json) {
      std::printf("%s\n", line.dump().c_str());
    } else {
      std::printf("after iteration %llu: held-out loss %.4f\n",
                  static_cast<unsigned long long>(evaluated.iteration.value()), evaluated.loss);
    }
    std::fflush(stdout);
  };
  options.on_fault = [&](const std::string& message) {
    const nlohmann::ordered_json line = {{"event", "fault"}, {"node", self.value()}, {"message", message}};
    std::printf("%s\n", arguments.json ? line.dump().c_str() : message.c_str());
    std::fflush(stdout);
  };
  options.on_applied = [&](const swarm::Applied& applied) { report_applied(arguments, applied); };
  std::unique_ptr<MetricsServer> metrics;
  if (!arguments.metrics.empty()) {
    auto started = MetricsServer::start(arguments.metrics, options.folder, true);
    if (!started) return fail(started.error().message);
    metrics = std::move(*started);
    const nlohmann::ordered_json line = {{"event", "metrics"}, {"address", metrics->address()}};
    std::printf("%s\n", arguments.json ? line.dump().c_str() : ("figures at " + metrics->address()).c_str());
    std::fflush(stdout);
  }
  steering.start(options.folder);
  return live(std::move(options), checkpoints, steering);
}

}  // namespace tributary::app
