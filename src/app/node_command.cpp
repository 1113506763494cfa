#include <signal.h>
#include <sys/prctl.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/commands.h"
#include "app/invitation.h"
#include "app/swarm_setup.h"
#include "base/log.h"
#include "model/checkpoint.h"
#include "node/process.h"
#include "text/files.h"

namespace tributary::app {
namespace {

// Waits for signals on a thread of its own: SIGTERM and the first SIGINT leave politely, SIGUSR1 halts the run, a
// second SIGINT or SIGTERM stops at once.
class Signals {
 public:
  Signals() {
    sigemptyset(&set_);
    for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaddset(&set_, signal);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);  // before any other thread exists, so that all inherit it
  }
  void serve(node::Process& process) {
    thread_ = std::jthread([this, &process](std::stop_token stop) {
      int asked = 0;
      while (!stop.stop_requested()) {
        const timespec pause{0, 100'000'000};
        const int signal = sigtimedwait(&set_, nullptr, &pause);
        if (signal == SIGUSR1) process.ask_to_halt();
        if (signal != SIGINT && signal != SIGTERM) continue;
        if (asked++ == 0) {
          std::fprintf(stderr, "leaving after this iteration; once more to stop at once\n");
          process.ask_to_leave();
        } else {
          process.stop_now();
        }
      }
    });
  }

 private:
  sigset_t set_;
  std::jthread thread_;
};

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
  Signals signals;
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
  options.node.incarnation = Incarnation(new_incarnation());
  options.node.data_node = arguments.data_node;
  options.node.slots = static_cast<std::uint16_t>(arguments.slots);
  options.node.stage = StageId(static_cast<std::uint16_t>(arguments.stage));
  options.node.any_stage = !arguments.only_stage;
  options.node.seed = options.node.incarnation.value();
  if (const auto fault = options.node.pace.check(); !fault.empty()) return fail("pace: " + fault, kWrongUse);

  options.transport.identity = std::move(*identity);
  options.transport.secret = *secret;
  options.transport.run = config->name;
  options.transport.links = *links;
  options.transport.region = arguments.region.empty() ? region_of(*links, self) : arguments.region;
  options.transport.seed = options.node.seed;
  options.transport.upload_bytes_per_s = arguments.upload_mbps * 1e6 / 8;
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
  for (const auto& [iteration, stage] : model::saved_stages(checkpoints))
    options.node.checkpoints.push_back({stage, iteration});
  auto compute = work->compute_options(checkpoints, false);
  compute.threads = arguments.threads > 0 ? static_cast<int>(arguments.threads) : compute.threads;
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
  options.on_applied = [&](const swarm::Applied& applied) { report_applied(arguments, applied); };

  node::Process process(std::move(options));
  signals.serve(process);
  auto ended = process.run();
  if (!ended) return fail(ended.error().message);
  switch (ended->reason) {
    case swarm::ExitReason::kFinished:
    case swarm::ExitReason::kHalted:
    case swarm::ExitReason::kLeft:
      return kDone;
    default:
      return fail(ended->message);
  }
}

}  // namespace tributary::app
