#include "app/supervisor.h"

#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/child.h"
#include "app/control.h"
#include "app/interrupt.h"
#include "app/progress.h"
#include "app/run_end.h"
#include "app/survival.h"
#include "app/swarm_setup.h"
#include "model/checkpoint.h"
#include "net/identity.h"
#include "node/process.h"
#include "text/files.h"

namespace tributary::app {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kKeptCheckpoints = 3;
constexpr std::uint64_t kMostStatusBytes = 1 << 20;
constexpr std::size_t kMostSeeds = 8;

// What the swarm has agreed on, from whichever node says it first.
struct Step {
  std::uint64_t epoch = 0;
  std::uint64_t iteration = 0;
  double loss = 0;
  std::uint64_t tokens = 0;
  nlohmann::json line;
};

class Supervisor {
 public:
  Supervisor(const TrainArguments& arguments, const Workload& work, RunFolder& folder)
      : arguments_(arguments), work_(work), folder_(folder), config_(work.config), places_(places(work.config)) {}

  Result<int> run() {
    progress_.say(describe(work_));
    if (auto prepared = prepare(); !prepared) return prepared.error();
    const auto began = Clock::now();
    if (auto started = start_all(); !started) return started.error();
    progress_.say(std::to_string(places_.size()) + " nodes: " + std::to_string(config_.swarm.data_nodes) +
                  " data, relays by stage " + relays_by_stage() + "; `tributary status " + folder_.path().string() +
                  "` shows them");
    if (auto watched = watch(); !watched) return watched.error();
    while (pausing_ && done_ < config_.training.iterations && !interrupted()) {
      if (auto resumed = wait_for_resume(); !resumed) return resumed.error();
      if (interrupted()) break;
      if (auto started = start_all(); !started) return started.error();
      if (auto watched = watch(); !watched) return watched.error();
    }
    if (done_ < config_.training.iterations) {
      progress_.say(halting_ ? "stopped after iteration " + std::to_string(done_) + "; the same command resumes"
                             : "the swarm ended after iteration " + std::to_string(done_) + " of " +
                                   std::to_string(config_.training.iterations) + "; see the logs in " +
                                   (folder_.path() / "nodes").string());
      return halting_ ? kDone : kFailed;
    }
    const double took = std::chrono::duration<double>(Clock::now() - began).count();
    summarise(took);
    if (auto evaluated = evaluate_checkpoint(work_, folder_, progress_, done_); !evaluated) return evaluated.error();
    if (auto written = write_model(work_, folder_, progress_); !written) return written.error();
    return kDone;
  }

 private:
  struct Member {
    Place place;
    std::optional<Child> child;
    std::optional<Clock::time_point> restart_at;
    bool meant = false;     // its end was asked for
    bool finished = false;  // ended well
    std::uint32_t starts = 0;
    std::uint64_t repairs = 0, replays = 0, bytes_in = 0, bytes_out = 0;  // of its earlier lives
  };

  std::string relays_by_stage() const {
    std::string text;
    for (const auto count : config_.swarm.relays) text += (text.empty() ? "" : " | ") + std::to_string(count);
    return text;
  }

  Result<void> prepare() {
    const auto secret = secret_path(folder_.path());
    if (!std::filesystem::exists(secret))
      if (auto saved = net::RunSecret::generate().save(secret); !saved) return saved;
    for (const auto& place : places_) {
      const auto at = node_folder(folder_.path(), place.id);
      if (auto made = text::make_folder(at); !made) return made;
      std::error_code ignored;
      std::filesystem::remove(node::status_path(at), ignored);
      std::filesystem::remove(control_path(at), ignored);
    }
    std::error_code ignored;
    std::filesystem::remove(control_path(folder_.path()), ignored);
    return {};
  }

  Result<void> start_all() {
    members_.clear();
    seeds_.clear();
    halting_ = pausing_ = over_ = false;
    dismissed_at_.reset();
    if (auto started = start_voters(); !started) return started;
    for (const auto& place : places_)
      if (!members_.contains(place.id))
        if (auto started = start(place); !started) return started;
    return {};
  }

  // Every node has ended, with a checkpoint; the next ones go on from it.
  Result<void> wait_for_resume() {
    progress_.say("paused after iteration " + std::to_string(done_) + "; `tributary resume " + folder_.path().string() +
                  "` goes on");
    while (!interrupted()) {
      const auto control = read_control(folder_.path());
      if (control && !control->paused) break;
      ::poll(nullptr, 0, 50);
    }
    last_.reset();  // the pause is no iteration's duration
    for (auto& [id, member] : members_) keep_counts(member);
    if (!interrupted()) progress_.say("going on");
    return {};
  }

  void halt() {
    halting_ = true;
    for (auto& [id, member] : members_)
      if (member.child) {
        member.child->signal(SIGCONT);
        member.child->signal(SIGUSR1);
      }
  }

  Result<void> start(const Place& place) {
    const auto cores = std::max(1u, std::thread::hardware_concurrency());
    const auto threads = config_.training.threads > 0
                             ? config_.training.threads
                             : std::max<std::uint32_t>(1, cores / static_cast<std::uint32_t>(places_.size()));
    std::vector<std::string> words = {"node",
                                      "--config",
                                      (folder_.path() / "config.toml").string(),
                                      "--runs",
                                      folder_.path().parent_path().string(),
                                      "--id",
                                      to_string(place.id),
                                      "--slow",
                                      std::to_string(place.slowness),
                                      "--threads",
                                      std::to_string(threads),
                                      "--slots",
                                      std::to_string(config_.swarm.slots),
                                      "--memory",
                                      std::to_string(config_.swarm.memory_mib),
                                      "--shared-disk",
                                      "--with-parent",
                                      "--json"};
    if (place.data_node) {
      words.push_back("--data-node");
    } else {
      words.insert(words.end(), {"--stage", to_string(place.stage)});
    }
    for (const auto& seed : ways_in()) words.insert(words.end(), {"--join", seed});
    const auto errors = node_folder(folder_.path(), place.id) / "errors.txt";
    auto child = Child::start(words, errors);
    if (!child) return child.error();
    auto& member = members_[place.id];
    member.place = place;
    member.child = std::move(*child);
    member.restart_at.reset();
    member.meant = member.finished = false;
    ++member.starts;
    return {};
  }

  // Whom a node may ask for the others. The voters' first addresses do not last: one that starts again listens
  // elsewhere, and has to find the others itself.
  std::vector<std::string> ways_in() const {
    std::vector<std::string> found;
    for (const auto& [id, member] : members_) {
      if (!member.child || found.size() == kMostSeeds) continue;
      if (const auto text = text::read_file(node::status_path(node_folder(folder_.path(), id)), kMostStatusBytes)) {
        const auto object = nlohmann::json::parse(*text, nullptr, false);
        if (object.is_object() && object.contains("address")) found.push_back(object["address"].get<std::string>());
      }
    }
    return found.empty() ? seeds_ : found;
  }

  // The voters' addresses are everybody's way in.
  Result<void> start_voters() {
    for (std::size_t i = 0; i < config_.swarm.voters; ++i) {
      if (auto started = start(places_[i]); !started) return started;
      const auto status = node::status_path(node_folder(folder_.path(), places_[i].id));
      while (!std::filesystem::exists(status)) {
        if (const auto code = members_[places_[i].id].child->ended()) return Error{end_of(places_[i], *code)};
        if (interrupted()) return Error{"stopped"};
        ::poll(nullptr, 0, 20);
      }
      const auto text = text::read_file(status, kMostStatusBytes);
      if (!text) return text.error();
      const auto object = nlohmann::json::parse(*text, nullptr, false);
      if (!object.is_object() || !object.contains("address"))
        return Error{status.string() + " is damaged; remove it and start again"};
      seeds_.push_back(object["address"].get<std::string>());
    }
    return {};
  }

  std::string name_of(const Place& place) const {
    return "node " + to_string(place.id) + (place.data_node ? " (data)" : " (stage " + to_string(place.stage) + ")");
  }

  std::string end_of(const Place& place, int code) const {
    const auto errors = node_folder(folder_.path(), place.id) / "errors.txt";
    std::string last;
    if (const auto text = text::read_file(errors, kMostStatusBytes)) {
      last = *text;
      while (!last.empty() && last.back() == '\n') last.pop_back();
      last = last.substr(last.rfind('\n') + 1);
    }
    return name_of(place) + (code > 128 ? " was ended by signal " + std::to_string(code - 128) : " failed: " + last) +
           "; its log is " + (errors.parent_path() / "log.txt").string();
  }

  Result<void> watch() {
    while (true) {
      std::vector<pollfd> polled;
      for (auto& [id, member] : members_)
        if (member.child && member.child->output() >= 0) polled.push_back({member.child->output(), POLLIN, 0});
      ::poll(polled.data(), polled.size(), next_strike_ms());
      for (auto& [id, member] : members_) {
        if (!member.child) continue;
        for (const auto& line : member.child->read_lines())
          if (auto heard = hear(line); !heard) return heard;
      }
      if (auto reaped = reap(); !reaped) return reaped;
      strike();
      if (interrupted() && !halting_) halt();
      if (const auto control = read_control(folder_.path()); !halting_ && control && control->paused) {
        pausing_ = true;
        halt();
      }
      dismiss();
      const bool alive = std::any_of(members_.begin(), members_.end(), [](const auto& entry) {
        return entry.second.child || (entry.second.restart_at && !entry.second.finished);
      });
      if (!alive) return {};
      for (auto& [id, member] : members_)
        if (member.restart_at && Clock::now() >= *member.restart_at && !halting_) {
          progress_.say(name_of(member.place) + " starts again");
          survival_.came_back();
          note({{"event", "start"}, {"node", id.value()}, {"stage", member.place.stage.value()}});
          keep_counts(member);
          if (auto started = start(Place(member.place)); !started) return started;
        }
    }
  }

  // A line of the metrics about the swarm itself, at the iteration that is being worked on.
  void note(nlohmann::ordered_json event) {
    event["iteration"] = done_;
    record(event.dump());
  }

  // A run does not end because its figures cannot be written.
  void record(const std::string& line) {
    const auto written = folder_.write_metrics(line);
    if (!written && !std::exchange(metrics_fault_, true))
      progress_.say(written.error().message + ". The run goes on; lines are missing until it can be written");
    if (written) metrics_fault_ = false;
  }

  // A new process counts from 0 again: what the last one had counted is kept here.
  void keep_counts(Member& member) {
    const auto file = node::status_path(node_folder(folder_.path(), member.place.id));
    if (const auto text = text::read_file(file, kMostStatusBytes)) {
      const auto object = nlohmann::json::parse(*text, nullptr, false);
      if (object.is_object()) {
        member.repairs += object.value("repairs", std::uint64_t{0});
        member.replays += object.value("replays", std::uint64_t{0});
        member.bytes_in += object.value("bytes_in", std::uint64_t{0});
        member.bytes_out += object.value("bytes_out", std::uint64_t{0});
      }
    }
    std::error_code ignored;
    std::filesystem::remove(file, ignored);
  }

  // Once the run is over and the voters are gone, nobody can tell those that came back late: they are sent home.
  void dismiss() {
    if (!over_) return;
    for (const auto voter : voters(config_))
      if (members_.contains(voter) && members_[voter].child) return;
    for (auto& [id, member] : members_) {
      if (!member.child) continue;
      member.child->signal(SIGCONT);
      member.child->signal(dismissed_at_ && Clock::now() > *dismissed_at_ + std::chrono::seconds(5) ? SIGKILL
                                                                                                    : SIGTERM);
    }
    if (!dismissed_at_) dismissed_at_ = Clock::now();
  }

  Result<void> reap() {
    for (auto& [id, member] : members_) {
      if (!member.child) continue;
      const auto code = member.child->ended();
      if (!code) continue;
      for (const auto& line : member.child->read_lines())
        if (auto heard = hear(line); !heard) return heard;
      member.child.reset();
      member.finished = *code == 0;
      // A node that was asked to leave ends well too; the run goes on without it.
      over_ = over_ || (member.finished && (halting_ || done_ >= config_.training.iterations));
      if (member.finished) continue;
      survival_.died(id.value(), name_of(member.place), done_, mean_s_);
      note({{"event", "death"}, {"node", id.value()}, {"stage", member.place.stage.value()}});
      if (!member.meant) progress_.say(end_of(member.place, *code));
      if (member.starts == 1 && *code < 128 && done_ == 0) return Error{end_of(member.place, *code)};
      if (config_.swarm.restart_after_s >= 0 && !(member.meant && !member.restart_at))
        member.restart_at =
            Clock::now() + std::chrono::milliseconds(static_cast<int>(config_.swarm.restart_after_s * 1000));
    }
    // The run is over for all once it is over for one; whoever was away has nothing to come back for.
    if (over_)
      for (auto& [id, member] : members_) member.restart_at.reset();
    return {};
  }

  Result<void> hear(const std::string& text) {
    const auto object = nlohmann::json::parse(text, nullptr, false);
    if (!object.is_object()) return {};
    if (object.value("event", "") == "repaired") survival_.repaired();
    if (object.value("event", "") == "fault")
      progress_.say("node " + object["node"].dump() + ": " + object.value("message", ""));
    if (object.value("event", "") == "evaluated")
      return report_held_out(work_, folder_, progress_, object["iteration"], object["loss"]);
    if (object.value("event", "") != "applied") return {};
    const std::pair<std::uint64_t, std::uint64_t> at{object["epoch"], object["iteration"]};
    if (seen_ && at <= *seen_) return {};
    const bool rewound = seen_ && at.first > seen_->first && at.second < done_;
    if (rewound)
      progress_.say("rewound to iteration " + std::to_string(at.second) + ": a stage had lost all its holders");
    if (rewound || !seen_)
      if (auto cut = folder_.rewind_metrics(at.second); !cut) return cut;
    seen_ = at;
    done_ = at.second + 1;
    const auto now = Clock::now();
    const double took = last_ ? std::chrono::duration<double>(now - *last_).count() : 0;
    last_ = now;
    const double tokens = object["tokens"].get<double>();
    if (took > 0) mean_s_ = mean_s_ == 0 ? took : 0.9 * mean_s_ + 0.1 * took;
    tokens_ += object["tokens"].get<std::uint64_t>();
    losses_.push_back(object["loss"]);
    const auto swarm = look();
    nlohmann::ordered_json line = {{"iteration", at.second},
                                   {"epoch", at.first},
                                   {"loss", object["loss"]},
                                   {"tokens", tokens_},
                                   {"tokens_per_s", took > 0 ? tokens / took : 0},
                                   {"seconds", took},
                                   {"learning_rate", object["learning_rate"]},
                                   {"gradient_norm", object["gradient_norm"]},
                                   {"excluded", object["excluded"]},
                                   {"live_nodes", swarm.live},
                                   {"deaths", survival_.deaths().size()},
                                   {"repairs", swarm.repairs},
                                   {"replays", swarm.replays},
                                   {"bytes_in", swarm.bytes_in},
                                   {"bytes_out", swarm.bytes_out}};
    record(line.dump());
    char extra[120];
    std::snprintf(extra, sizeof extra, "live %s  repairs %llu", swarm.by_stage.c_str(),
                  static_cast<unsigned long long>(swarm.repairs + swarm.replays));
    progress_.update({done_, config_.training.iterations, object["loss"], mean_s_ > 0 ? tokens / mean_s_ : 0,
                      mean_s_ * static_cast<double>(config_.training.iterations - done_), extra});
    for (const auto& death : survival_.stepped(took))
      note({{"event", "recovery"},
            {"node", death.node},
            {"died_after", death.iteration},
            {"repaired_after_s", death.repaired_s ? nlohmann::json(*death.repaired_s) : nlohmann::json()},
            {"lost_s", death.lost_s()}});
    schedule_strikes(done_);
    const auto every = config_.training.checkpoint_every;
    if (every > 0 && done_ % every == 0) model::prune_checkpoints(folder_.checkpoints(), kKeptCheckpoints);
    return {};
  }

  struct Look {
    std::size_t live = 0;
    std::string by_stage;
    std::uint64_t repairs = 0, replays = 0, bytes_in = 0, bytes_out = 0;
  };
  Look look() const {
    Look out;
    std::vector<int> live(work_.cut.stages() + 1u, 0);
    for (const auto& [id, member] : members_) {
      const auto text = text::read_file(node::status_path(node_folder(folder_.path(), id)), kMostStatusBytes);
      if (member.child) {
        ++out.live;
        ++live[member.place.stage.value()];
      }
      out.repairs += member.repairs;
      out.replays += member.replays;
      out.bytes_in += member.bytes_in;
      out.bytes_out += member.bytes_out;
      if (!text) continue;
      const auto object = nlohmann::json::parse(*text, nullptr, false);
      if (!object.is_object()) continue;
      out.repairs += object.value("repairs", std::uint64_t{0});
      out.replays += object.value("replays", std::uint64_t{0});
      out.bytes_in += object.value("bytes_in", std::uint64_t{0});
      out.bytes_out += object.value("bytes_out", std::uint64_t{0});
    }
    for (const int count : live) out.by_stage += (out.by_stage.empty() ? "" : "|") + std::to_string(count);
    return out;
  }

  // The churn schedule: events of an iteration strike in its middle, by the usual duration, where most is lost.
  void schedule_strikes(std::uint64_t iteration) {
    const auto middle =
        Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(0.5 * mean_s_));
    for (const auto& event : config_.churn)
      if (event.iteration == iteration) strikes_.emplace_back(middle, event);
  }

  int next_strike_ms() const {
    auto wait = std::chrono::milliseconds(100);
    for (const auto& [when, event] : strikes_)
      wait = std::clamp(std::chrono::ceil<std::chrono::milliseconds>(when - Clock::now()), {}, wait);
    return static_cast<int>(wait.count());
  }

  void strike() {
    const auto now = Clock::now();
    for (const auto& [when, event] : strikes_)
      if (when <= now) strike(event);
    std::erase_if(strikes_, [&](const auto& entry) { return entry.first <= now; });
  }

  void strike(const ChurnEvent& event) {
    for (auto& [id, member] : members_) {
      if (member.place.data_node || member.place.stage.value() != event.stage || member.place.replica != event.replica)
        continue;
      progress_.say("churn: " + event.action + " " + name_of(member.place));
      if (event.action == "restart" && !member.child) {
        member.restart_at = Clock::now();
      } else if (!member.child) {
        continue;
      } else if (event.action == "kill" || event.action == "restart") {
        member.meant = true;
        if (event.action == "restart") member.restart_at = Clock::now();
        member.child->signal(SIGKILL);
      } else if (event.action == "leave") {
        member.meant = true;
        member.child->signal(SIGTERM);
      } else if (event.action == "blackhole" || event.action == "heal") {
        Control control;
        control.black_hole = event.action == "blackhole";
        (void)write_control(node_folder(folder_.path(), id), control);
      } else {
        member.child->signal(event.action == "freeze" ? SIGSTOP : SIGCONT);
      }
    }
  }

  void summarise(double took) {
    const auto swarm = look();
    const auto row = [&](const char* name, const std::string& text) {
      if (text.empty()) return;
      char label[24];
      std::snprintf(label, sizeof label, "%-12s", name);
      progress_.say(label + text);
    };
    char text[200];
    std::snprintf(text, sizeof text, "%llu in %s, %.0f tokens/s", static_cast<unsigned long long>(done_),
                  format_duration(took).c_str(), static_cast<double>(tokens_) / took);
    row("iterations", text);
    row("loss", blocks(losses_));
    row("deaths", survival_.describe_deaths());
    const std::uint64_t parts = done_ * config_.training.microbatches * (work_.cut.stages() + 2u);
    std::snprintf(text, sizeof text, "%llu hops repaired, %llu of %llu parts computed once more",
                  static_cast<unsigned long long>(swarm.repairs), static_cast<unsigned long long>(swarm.replays),
                  static_cast<unsigned long long>(parts));
    row("done again", text);
    row("recovery", survival_.describe_recoveries());
  }

  const TrainArguments& arguments_;
  const Workload& work_;
  RunFolder& folder_;
  const RunConfig& config_;
  const std::vector<Place> places_;
  Progress progress_;
  std::map<NodeId, Member> members_;
  std::vector<std::string> seeds_;
  std::optional<std::pair<std::uint64_t, std::uint64_t>> seen_;  // (epoch, iteration) last heard of
  std::optional<Clock::time_point> last_;
  std::uint64_t done_ = 0;
  std::uint64_t tokens_ = 0;
  Survival survival_;
  std::vector<std::pair<Clock::time_point, ChurnEvent>> strikes_;
  std::vector<double> losses_;
  double mean_s_ = 0;
  bool halting_ = false;
  bool metrics_fault_ = false;
  bool pausing_ = false;  // halting, but to go on when `tributary resume` says so
  std::optional<Clock::time_point> dismissed_at_;
  bool over_ = false;  // a node has ended because the run has
};

}  // namespace

int train_swarm(const TrainArguments& arguments, const Workload& work, RunFolder& folder) {
  catch_interrupts("\nstopping after this iteration; once more to stop at once\n");
  Supervisor supervisor(arguments, work, folder);
  auto code = supervisor.run();
  return code ? *code : fail(code.error().message);
}

}  // namespace tributary::app
