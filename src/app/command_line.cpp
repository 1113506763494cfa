#include <CLI/CLI.hpp>
#include <cstdio>

#include "app/commands.h"
#include "app/lab_commands.h"

namespace tributary::app {
namespace {

constexpr const char* kMetricsHelp = "[HOST:]PORT to serve /metrics on, for Prometheus; 0: any port, which is printed";

}  // namespace

int fail(const std::string& message, int code) {
  std::fprintf(stderr, "tributary: %s\n", message.c_str());
  return code;
}

int run_command_line(int argc, char** argv) {
  CLI::App app{"Tributary trains language models on machines that are unlike each other, far apart and unreliable."};
  app.footer("Example: tributary train examples/small.toml\nExit codes: 0 done, 1 failed, 2 wrong use.");
  app.require_subcommand(1);
  int code = kDone;

  TrainArguments train_arguments;
  auto* train_command = app.add_subcommand("train", "Train a model as a configuration says; the same command resumes");
  train_command->add_option("config", train_arguments.config.file, "configuration (TOML)")->required();
  train_command->add_option("--set", train_arguments.config.overrides, "override a key: --set training.iterations=50")
      ->take_all();
  train_command->add_option("--runs", train_arguments.runs, "folder of all runs")->capture_default_str();
  train_command->add_option("--metrics", train_arguments.metrics, kMetricsHelp);
  train_command->add_flag("--single", train_arguments.single, "one process, even if the configuration asks for relays");
  train_command->footer(
      "Example: tributary train examples/small.toml --set training.iterations=50\n"
      "Ctrl-C stops after the iteration with a checkpoint; twice, at once.");
  train_command->callback([&] { code = train(train_arguments); });

  NodeArguments node_arguments;
  auto* node_command = app.add_subcommand("node", "Run one node of a swarm");
  node_command->add_option("--config", node_arguments.config.file, "the run's configuration (TOML)");
  node_command->add_option("--invitation", node_arguments.invitation,
                           "a volunteer's way in: file from `tributary run invite`");
  node_command->add_option("--set", node_arguments.config.overrides, "override a key")->take_all();
  node_command->add_option("--runs", node_arguments.runs, "folder of all runs")->capture_default_str();
  node_command->add_option("--join", node_arguments.join, "HOST:PORT of a node of the run; may be repeated");
  node_command->add_option("--secret", node_arguments.secret, "file with the run's secret (default: runs/NAME/secret)");
  node_command->add_option("--id", node_arguments.id,
                           "one of the configuration's places; default: from this node's key");
  node_command->add_flag("--data-node", node_arguments.data_node, "holds text, embedding and head");
  node_command->add_option("--stage", node_arguments.stage, "the stage to hold (0: wherever needed)")
      ->capture_default_str();
  node_command->add_flag("--only-stage", node_arguments.only_stage, "no other stage than --stage");
  node_command->add_option("--slots", node_arguments.slots, "microbatches held at a time")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  node_command->add_option("--listen", node_arguments.listen, "HOST:PORT to listen on; port 0: any")
      ->capture_default_str();
  node_command->add_option("--advertise", node_arguments.advertise, "host that others dial; default: as they see it");
  node_command->add_option("--region", node_arguments.region, "where it stands in the network preset");
  node_command->add_option("--slow", node_arguments.slow, "factor on its compute time, to rehearse unequal machines")
      ->check(CLI::Range(1.0, 1000.0));
  node_command->add_option("--upload-mbps", node_arguments.upload_mbps, "cap on upload; 0: none")
      ->check(CLI::NonNegativeNumber);
  node_command->add_option("--download-mbps", node_arguments.download_mbps, "cap on download; 0: none")
      ->check(CLI::NonNegativeNumber);
  node_command->add_option("--memory", node_arguments.memory_mib,
                           "MiB for state, kept payloads and activations: the node offers fewer slots, or refuses a "
                           "stage that does not fit; 0: no cap");
  node_command->add_option("--threads", node_arguments.threads, "threads for computing; 0: all cores");
  node_command->add_option("--metrics", node_arguments.metrics, kMetricsHelp);
  node_command->add_flag("--shared-disk", node_arguments.shared_disk, "all nodes see one run folder");
  node_command->add_flag("--with-parent", node_arguments.with_parent, "end with the process that started this one");
  node_command->add_flag("--json", node_arguments.json, "print events as JSON lines");
  node_command->footer(
      "Example: tributary node --config invited/config.toml --secret invited/secret --join 192.0.2.1:7000 --listen "
      "0.0.0.0:7000\n"
      "Ctrl-C or SIGTERM leaves politely after the iteration; twice, at once.");
  node_command->callback([&] { code = node(node_arguments); });

  RunNewArguments new_arguments;
  RunInviteArguments invite_arguments;
  auto* run_command = app.add_subcommand("run", "Prepare a run of several machines");
  run_command->require_subcommand(1);
  auto* new_command = run_command->add_subcommand("new", "Make a run's folder: configuration and secret");
  new_command->add_option("config", new_arguments.config.file, "configuration (TOML)")->required();
  new_command->add_option("--set", new_arguments.config.overrides, "override a key")->take_all();
  new_command->add_option("--runs", new_arguments.runs, "folder of all runs")->capture_default_str();
  new_command->footer("Example: tributary run new examples/demo.toml --set name=ours");
  new_command->callback([&] { code = run_new(new_arguments); });
  auto* invite_command = run_command->add_subcommand("invite", "Write what a volunteer needs to join");
  invite_command->add_option("run", invite_arguments.run, "folder of the run: runs/NAME")->required();
  invite_command->add_option("--address", invite_arguments.addresses,
                             "HOST:PORT where a node of the run can be reached");
  invite_command->add_option("--out", invite_arguments.out, "file to write")->capture_default_str();
  invite_command->footer("Example: tributary run invite runs/ours --address 192.0.2.1:7000");
  invite_command->callback([&] { code = run_invite(invite_arguments); });

  DoctorArguments doctor_arguments;
  auto* doctor_command = app.add_subcommand("doctor", "Check this machine: disk, network, text, speed");
  doctor_command->add_option("config", doctor_arguments.config.file, "a run's configuration, to check it too");
  doctor_command->add_option("--set", doctor_arguments.config.overrides, "override a key")->take_all();
  doctor_command->add_option("--runs", doctor_arguments.runs, "folder of all runs")->capture_default_str();
  doctor_command->add_flag("--json", doctor_arguments.json, "print findings as JSON");
  doctor_command->footer("Example: tributary doctor examples/small.toml");
  doctor_command->callback([&] { code = doctor(doctor_arguments); });

  StatusArguments status_arguments;
  auto* status_command = app.add_subcommand("status", "Show the nodes of a run on this machine");
  status_command->add_option("run", status_arguments.run, "folder of the run: runs/NAME")->required();
  status_command->add_flag("--json", status_arguments.json, "everything, as JSON");
  status_command->footer("Example: tributary status runs/demo --json");
  status_command->callback([&] { code = status(status_arguments); });

  PauseArguments pause_arguments;
  auto* pause_command = app.add_subcommand("pause", "Let a node, or all of a run, rest until `resume`");
  auto* resume_command = app.add_subcommand("resume", "Let a paused node, or run, go on");
  for (auto* command : {pause_command, resume_command}) {
    command->add_option("run", pause_arguments.run, "folder of the run: runs/NAME")->required();
    command->add_option("node", pause_arguments.node, "id of one node on this machine; default: all of the run");
    command->footer("Example: tributary " + command->get_name() + " runs/demo 3");
  }
  pause_command->callback([&] { code = pause(pause_arguments); });
  resume_command->callback([&] { code = resume(pause_arguments); });

  auto* flow_command = app.add_subcommand("flow", "The routing problem alone");
  flow_command->require_subcommand(1);
  add_flow_commands(*flow_command, code);

  auto* sim_command = app.add_subcommand("sim", "The protocol in a simulated world");
  sim_command->require_subcommand(1);
  add_sim_commands(*sim_command, code);

  GenerateArguments generate_arguments;
  auto* generate_command = app.add_subcommand("generate", "Continue a text with a trained model");
  generate_command->add_option("source", generate_arguments.source, "folder of a run (runs/NAME) or of a model")
      ->required();
  generate_command->add_option("--prompt", generate_arguments.prompt, "text to continue")->required();
  generate_command->add_option("--max-tokens", generate_arguments.max_tokens, "tokens to generate at most")
      ->capture_default_str();
  generate_command->add_option("--temperature", generate_arguments.temperature, "0 takes the likeliest token")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  generate_command->add_option("--top-k", generate_arguments.top_k, "draw among the likeliest K; 0: all")
      ->capture_default_str();
  generate_command->add_option("--seed", generate_arguments.seed, "the same seed gives the same text")
      ->capture_default_str();
  generate_command->footer("Example: tributary generate runs/small --prompt \"ROMEO:\" --max-tokens 100");
  generate_command->callback([&] { code = generate(generate_arguments); });

  InspectArguments inspect_arguments;
  auto* inspect_command = app.add_subcommand("inspect-gradients", "Write logits and gradients of a model folder");
  inspect_command->add_option("model", inspect_arguments.model)->required();
  inspect_command->add_option("tokens", inspect_arguments.tokens, "JSON: a list of windows of ids")->required();
  inspect_command->add_option("out", inspect_arguments.out, "safetensors file to write")->required();
  inspect_command->group("");  // not listed: for tests
  inspect_command->callback([&] { code = inspect(inspect_arguments); });

  TokensArguments tokens_arguments;
  auto* tokens_command = app.add_subcommand("inspect-tokens", "Encode and decode texts");
  tokens_command->add_option("tokenizer", tokens_arguments.tokenizer)->required();
  tokens_command->add_option("texts", tokens_arguments.texts, "JSON: a list of texts")->required();
  tokens_command->group("");
  tokens_command->callback([&] { code = inspect_tokens(tokens_arguments); });

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : kWrongUse;
  }
  return code;
}

}  // namespace tributary::app
