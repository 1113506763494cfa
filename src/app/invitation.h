// What a volunteer needs to join a run, as one JSON file: the run's configuration, its secret, addresses to ask, and
// the tokenizer if it is not the built-in one. Whoever has the file can join: it holds the secret.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

namespace tributary::app {

struct Invitation {
  std::string configuration;  // TOML
  std::string secret;         // 64 hexadecimal digits
  std::vector<std::string> addresses;
  std::string tokenizer;  // a tokenizer.json's text; empty: bytes
};

// Mode 0600. Errors: the disk's.
Result<void> write_invitation(const std::filesystem::path& file, const Invitation& invitation);
// Errors: no such file, too large, not an invitation.
Result<Invitation> read_invitation(const std::filesystem::path& file);

// Lays the run's folder out under `runs` as `tributary node` expects it: config.toml, secret, tokenizer.json. Returns
// the path of the configuration. Errors: a run of that name with another secret is there already.
Result<std::filesystem::path> accept_invitation(const Invitation& invitation, const std::filesystem::path& runs);

}  // namespace tributary::app
