#include <cstdio>
#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "app/invitation.h"
#include "app/swarm_setup.h"
#include "net/identity.h"
#include "node/process.h"
#include "text/files.h"

namespace tributary::app {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 20;

std::vector<std::string> known_addresses(const std::filesystem::path& run) {
  std::vector<std::string> addresses;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(run / "nodes", error)) {
    const auto text = text::read_file(node::status_path(entry.path()), kMostBytes);
    if (!text) continue;
    const auto status = nlohmann::json::parse(*text, nullptr, false);
    if (!status.is_object() || !status.contains("address") || !status["address"].is_string()) continue;
    addresses.push_back(status["address"].get<std::string>());
    if (addresses.size() >= 8) break;
  }
  return addresses;
}

}  // namespace

int run_new(const RunNewArguments& arguments) {
  auto config = load_run_config(arguments.config);
  if (!config) return fail(config.error().message, kWrongUse);
  if (config->swarm.relays.empty())
    return fail("swarm.relays is empty: a run of several machines needs at least one stage, such as relays = [1, 1]",
                kWrongUse);
  const auto folder = arguments.runs / config->name;
  if (auto made = text::make_folder(folder); !made) return fail(made.error().message);
  if (auto saved = net::RunSecret::generate().save(secret_path(folder)); !saved)
    return fail(saved.error().message + "; the run \"" + config->name + "\" is there already, or give another name");
  if (auto written = text::write_file(folder / "config.toml", write_run_config(*config)); !written)
    return fail(written.error().message);
  std::printf("the run \"%s\" is in %s: its configuration, and its secret (keep it)\n", config->name.c_str(),
              folder.c_str());
  std::printf("nodes 0 to %u vote on what counts; start them first, each on its machine with a copy of that folder:\n",
              config->swarm.voters - 1);
  for (const auto& place : places(*config)) {
    const auto role = place.data_node ? std::string("--data-node") : "--stage " + to_string(place.stage);
    std::printf("  tributary node --config %s --runs %s --id %u %s --listen 0.0.0.0:7000%s\n",
                (folder / "config.toml").c_str(), arguments.runs.c_str(), place.id.value(), role.c_str(),
                place.id == NodeId(0) ? "" : " --join FIRST-NODE:7000");
  }
  std::printf("volunteers beyond these need an invitation: tributary run invite %s --address FIRST-NODE:7000\n",
              folder.c_str());
  return kDone;
}

int run_invite(const RunInviteArguments& arguments) {
  ConfigSources sources;
  sources.file = arguments.run / "config.toml";
  sources.environment = false;
  auto config = load_run_config(sources);
  if (!config) return fail(config.error().message);
  auto secret = net::RunSecret::load(secret_path(arguments.run));
  if (!secret) return fail(secret.error().message);
  Invitation invitation{write_run_config(*config), secret->hex(), arguments.addresses, {}};
  if (invitation.addresses.empty()) invitation.addresses = known_addresses(arguments.run);
  if (invitation.addresses.empty())
    return fail("no node of the run is known here; say where one listens: --address HOST:PORT", kWrongUse);
  if (config->data.tokenizer != "bytes") {
    auto tokenizer = text::read_file(config->data.tokenizer, kMostBytes);
    if (!tokenizer) return fail(tokenizer.error().message);
    invitation.tokenizer = std::move(*tokenizer);
  }
  if (auto written = write_invitation(arguments.out, invitation); !written) return fail(written.error().message);
  std::printf(
      "%s invites to the run \"%s\"; it holds the run's secret, so send it over a safe way. There:\n"
      "  tributary node --invitation %s --listen 0.0.0.0:7000\n",
      arguments.out.c_str(), config->name.c_str(), arguments.out.filename().c_str());
  return kDone;
}

}  // namespace tributary::app
