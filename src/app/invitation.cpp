#include "app/invitation.h"

#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "app/run_config.h"
#include "app/swarm_setup.h"
#include "net/identity.h"
#include "text/files.h"

namespace tributary::app {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 20;
constexpr const char* kFormat = "tributary invitation 1";

}  // namespace

Result<void> write_invitation(const std::filesystem::path& file, const Invitation& invitation) {
  const nlohmann::ordered_json object = {{"format", kFormat},
                                         {"configuration", invitation.configuration},
                                         {"secret", invitation.secret},
                                         {"addresses", invitation.addresses},
                                         {"tokenizer", invitation.tokenizer}};
  if (auto written = text::write_file(file, object.dump(1) + "\n"); !written) return written;
  if (::chmod(file.c_str(), 0600) != 0) return Error{"cannot keep " + file.string() + " from other users' eyes"};
  return {};
}

Result<Invitation> read_invitation(const std::filesystem::path& file) {
  const auto bytes = text::read_file(file, kMostBytes);
  if (!bytes) return bytes.error();
  const auto object = nlohmann::json::parse(*bytes, nullptr, false);
  const auto text = [&](const char* key) {
    return object.is_object() && object.contains(key) && object[key].is_string() ? object[key].get<std::string>()
                                                                                 : std::string();
  };
  if (text("format") != kFormat || text("configuration").empty() || !object.contains("addresses") ||
      !object["addresses"].is_array())
    return Error{file.string() + " is not an invitation; make one with `tributary run invite`"};
  Invitation invitation{text("configuration"), text("secret"), {}, text("tokenizer")};
  for (const auto& address : object["addresses"])
    if (address.is_string()) invitation.addresses.push_back(address.get<std::string>());
  return invitation;
}

Result<std::filesystem::path> accept_invitation(const Invitation& invitation, const std::filesystem::path& runs) {
  auto secret = net::RunSecret::parse(invitation.secret);
  if (!secret) return Error{"the invitation's secret is damaged; ask for another invitation"};
  ConfigSources none;
  none.environment = false;
  auto config = parse_run_config(invitation.configuration, "the invitation's configuration", none);
  if (!config) return config.error();
  const auto folder = runs / config->name;
  if (auto made = text::make_folder(folder); !made) return made.error();
  std::error_code error;
  if (std::filesystem::exists(secret_path(folder), error)) {
    auto before = net::RunSecret::load(secret_path(folder));
    if (!before || before->hex() != secret->hex())
      return Error{"a run named \"" + config->name + "\" with another secret is in " + folder.string() +
                   "; give another --runs folder"};
  } else if (auto saved = secret->save(secret_path(folder)); !saved) {
    return saved.error();
  }
  if (!invitation.tokenizer.empty()) {
    const auto tokenizer = std::filesystem::absolute(folder / "tokenizer.json");
    if (auto written = text::write_file(tokenizer, invitation.tokenizer); !written) return written.error();
    config->data.tokenizer = tokenizer.string();
  }
  const auto file = folder / "config.toml";
  if (auto written = text::write_file(file, write_run_config(*config)); !written) return written.error();
  return file;
}

}  // namespace tributary::app
