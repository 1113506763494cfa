// `sim compare`: scenarios under several policies, churn and seeds: a table, and a page with plots.
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "app/ablation_table.h"
#include "app/assets.h"
#include "app/compare_page.h"
#include "app/compare_store.h"
#include "app/interrupt.h"
#include "app/jobs.h"
#include "app/lab_commands.h"
#include "app/progress.h"
#include "app/scenario_file.h"
#include "sim/dealing.h"
#include "text/files.h"

namespace tributary::app {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kDrawnIterations = 3;  // of the runs that are drawn

// A run of the grid, or one that is drawn.
struct Run {
  std::size_t scenario = 0;
  sim::CompareCell cell;
  bool drawn = false;
  bool known = false;  // the result was there before
  sim::CompareResult result;
  sim::Timeline timeline;
  std::string fault;
};

std::vector<Run> make_runs(const SimCompareArguments& arguments, const std::vector<std::string>& policies) {
  std::vector<Run> runs;
  for (const double churn : arguments.churn)
    for (const auto& policy : policies)
      for (std::size_t k = 0; k < arguments.files.size(); ++k)
        for (std::uint64_t seed = 1; seed <= arguments.seeds; ++seed)
          runs.push_back({k, {policy, churn, seed, arguments.iterations}, false, false, {}, {}, {}});
  if (arguments.html.empty()) return runs;
  double churn = 0;  // the least there is: one crash is easier to follow than five
  for (const double each : arguments.churn)
    if (each > 0 && (churn == 0 || each < churn)) churn = each;
  for (const auto& policy : policies)
    runs.push_back({0, {policy, churn, 1, std::min(arguments.iterations, kDrawnIterations)}, true, false, {}, {}, {}});
  return runs;
}

// As a shell takes it for one word.
std::string quoted(const std::string& word) {
  const bool plain = word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./,:=+-") ==
                     std::string::npos;
  if (plain && !word.empty()) return word;
  std::string text = "'";
  for (const char letter : word) text += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return text + "'";
}

std::string words(const SimCompareArguments& arguments, const std::vector<std::string>& policies) {
  std::string line = "tributary sim compare", list, churns;
  for (const auto& file : arguments.files) line += " " + quoted(file.string());
  for (const auto& policy : policies) list += (list.empty() ? "" : ",") + policy;
  for (const double churn : arguments.churn) {
    char number[32];
    std::snprintf(number, sizeof number, "%.15g", churn);
    churns += (churns.empty() ? "" : ",") + std::string(number);
  }
  line += (arguments.ablate ? std::string(" --ablate") : " --routers " + list) + " --churn " + churns + " --seeds " +
          std::to_string(arguments.seeds) + " --iterations " + std::to_string(arguments.iterations);
  if (!arguments.html.empty()) line += " --html " + quoted(arguments.html.string());
  return line;
}

// On standard error: a line that is rewritten on a terminal, some plain lines elsewhere.
class Bar {
 public:
  Bar(std::size_t known, std::size_t all) : known_(known), done_(known), all_(all) {}
  void step(const std::string& what) {
    ++done_;
    const double share = static_cast<double>(done_) / static_cast<double>(all_);
    const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
    const double left = took / static_cast<double>(done_ - known_) * static_cast<double>(all_ - done_);
    if (terminal_) {
      constexpr int kWidth = 30;
      const int full = static_cast<int>(share * kWidth);
      std::fprintf(stderr, "\r[%s%s] %zu/%zu  %s left  %.40s\033[K%s",
                   std::string(static_cast<std::size_t>(full), '#').c_str(),
                   std::string(static_cast<std::size_t>(kWidth - full), '.').c_str(), done_, all_,
                   format_duration(left).c_str(), what.c_str(), done_ == all_ ? "\n" : "");
    } else if (share >= told_ + 0.05 || done_ == all_) {
      told_ = share;
      std::fprintf(stderr, "%zu of %zu runs, %s left\n", done_, all_, format_duration(left).c_str());
    }
  }

 private:
  const bool terminal_ = ::isatty(STDERR_FILENO) == 1;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  const std::size_t known_;
  std::size_t done_, all_;
  double told_ = 0;
};

Json as_json(const sim::CompareRow& row) {
  const auto or_null = [](double value) { return std::isfinite(value) && value >= 0 ? Json(value) : Json(); };
  return {{"churn", row.churn},
          {"policy", row.policy},
          {"runs", row.runs},
          {"mean_iteration_s", row.iteration_s},
          {"standard_error_s", row.iteration_error_s},
          {"accepted_per_10_s", row.accepted_per_10_s},
          {"accepted_standard_error", row.accepted_error},
          {"parts_per_10_s", row.parts_per_10_s},
          {"seconds_per_accepted", or_null(row.per_accepted_s)},
          {"seconds_per_accepted_standard_error", or_null(row.per_accepted_error_s)},
          {"wait_s", row.wait_s},
          {"transfer_s", row.transfer_s},
          {"compute_s", row.compute_s},
          {"last_s", row.last_s},
          {"end_s", row.end_s},
          {"redone_share", row.redone_share},
          {"messages", or_null(row.messages)},
          {"control_bytes", or_null(row.control_bytes)},
          {"lower_bound_s", row.lower_bound_s},
          {"crashes", row.crashes},
          {"iterations", row.iterations},
          {"troubles", row.troubles}};
}

// A mean with its standard error; one run has none.
std::string with_error(double mean, double error, std::size_t runs, int digits) {
  char text[48];
  if (runs > 1) {
    std::snprintf(text, sizeof text, "%.*f +- %.*f", digits, mean, digits, error);
  } else {
    std::snprintf(text, sizeof text, "%.*f", digits, mean);
  }
  return text;
}

void print(const std::vector<sim::CompareRow>& rows) {
  std::printf(
      "| %-5s | %-25s | %-15s | %-14s | %-10s | %-8s | %-7s | %-6s | %-9s | %-8s | %-7s | %-7s | %-9s | %-11s | "
      "%-7s |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
      "churn", "router", "iteration, s", "accepted/10 s", "parts/10 s", "of bound", "waiting", "wires", "computing",
      "last one", "the end", "redone", "messages", "control, kB", "crashes");
  for (const auto& row : rows) {
    if (row.runs == 0) {
      std::printf("| %-5.3g | %-25s | no run got to its end: %s |\n", row.churn, row.policy.c_str(),
                  row.troubles.empty() ? "" : row.troubles.front().c_str());
      continue;
    }
    char bound[16] = "-", messages[24] = "-", control[24] = "-";
    if (row.lower_bound_s > 0) std::snprintf(bound, sizeof bound, "%.2f", row.iteration_s / row.lower_bound_s);
    if (row.messages >= 0) std::snprintf(messages, sizeof messages, "%.0f", row.messages);
    if (row.control_bytes >= 0) std::snprintf(control, sizeof control, "%.0f", row.control_bytes / 1e3);
    std::printf(
        "| %-5.3g | %-25s | %-15s | %-14s | %-10.2f | %-8s | %-7.1f | %-6.1f | %-9.1f | %-8.1f "
        "| %-7.1f | %5.1f %% | %-9s | %-11s | %-7.0f |\n",
        row.churn, row.policy.c_str(), with_error(row.iteration_s, row.iteration_error_s, row.runs, 1).c_str(),
        with_error(row.accepted_per_10_s, row.accepted_error, row.runs, 2).c_str(), row.parts_per_10_s, bound,
        row.wait_s, row.transfer_s, row.compute_s, row.last_s, row.end_s, 100 * row.redone_share, messages, control,
        row.crashes);
  }
}

class Comparison {
 public:
  Comparison(const SimCompareArguments& arguments, std::vector<std::string> policies,
             std::vector<LoadedScenario> scenarios)
      : arguments_(arguments), policies_(std::move(policies)), scenarios_(std::move(scenarios)) {}

  int run() {
    const bool keep = !arguments_.resume.empty();
    folder_ = keep ? arguments_.resume
                   : std::filesystem::temp_directory_path() / ("tributary-compare-" + std::to_string(::getpid()));
    auto store = CompareStore::open(folder_);
    if (!store) return fail(store.error().message);
    for (const auto& warning : store->warnings()) std::fprintf(stderr, "warning: %s\n", warning.c_str());
    runs_ = make_runs(arguments_, policies_);
    const int code = play(*store);
    if (code != kDone) return code;
    if (!keep) {
      std::error_code ignored;
      std::filesystem::remove_all(folder_, ignored);
    }
    return tell();
  }

 private:
  int play(CompareStore& store) {
    std::vector<std::size_t> open;
    for (std::size_t k = 0; k < runs_.size(); ++k) {
      const auto* before = runs_[k].drawn ? nullptr : store.find(key(runs_[k]));
      if (before) {
        runs_[k].result = *before;
        runs_[k].known = true;
      } else {
        open.push_back(k);
      }
    }
    // The protocol's runs take longest: they begin first, so that no thread is left with one at the end.
    std::stable_sort(open.begin(), open.end(), [&](std::size_t a, std::size_t b) { return slow(a) > slow(b); });
    Bar bar(runs_.size() - open.size(), runs_.size());
    std::string fault;
    catch_interrupts("\nstopping after the runs that go on now; once more to stop at once\n");
    const bool all = run_jobs({.count = open.size(),
                               .threads = arguments_.jobs,
                               .run = [&](std::size_t k) { play(runs_[open[k]]); },
                               .done =
                                   [&](std::size_t k) {
                                     const Run& run = runs_[open[k]];
                                     bar.step(run.cell.policy + ", " + scenarios_[run.scenario].scenario.name);
                                     if (!run.fault.empty()) fault = run.fault;
                                     if (run.drawn || !run.fault.empty()) return;
                                     if (const auto kept = store.add({key(run), run.result}); !kept)
                                       fault = kept.error().message;
                                   },
                               .stop = [&] { return interrupted() || !fault.empty(); }});
    if (!fault.empty()) return fail(fault);
    if (all) return kDone;
    std::fprintf(stderr, "stopped; what is finished is kept. Go on with:\n  %s%s --resume %s\n",
                 words(arguments_, policies_).c_str(), arguments_.json ? " --json" : "",
                 quoted(folder_.string()).c_str());
    return kFailed;
  }

  void play(Run& run) const {
    auto result = sim::run_cell(scenarios_[run.scenario].scenario, run.cell, run.drawn ? &run.timeline : nullptr);
    if (result) {
      run.result = std::move(*result);
    } else {
      run.fault = result.error().message;
    }
  }

  // What each idea changes, by churn.
  std::vector<sim::AblationRow> ablation() const {
    std::map<std::tuple<double, std::string, std::size_t, std::uint64_t>, const sim::CompareResult*> results;
    for (const auto& run : runs_)
      if (!run.drawn) results[{run.cell.churn, run.cell.policy, run.scenario, run.cell.seed}] = &run.result;
    std::vector<sim::AblationRow> rows;
    for (const double churn : arguments_.churn)
      for (const auto& idea : sim::ideas()) {
        std::vector<sim::AblationPair> pairs;
        for (std::size_t k = 0; k < scenarios_.size(); ++k)
          for (std::uint64_t seed = 1; seed <= arguments_.seeds; ++seed)
            pairs.push_back(
                {k, results.at({churn, "protocol", k, seed}), results.at({churn, "without/" + idea.name, k, seed})});
        rows.push_back(sim::ablation_row(idea.name, churn, pairs));
      }
    return rows;
  }

  int tell() const {
    std::vector<sim::CompareRow> rows;
    bool trouble = false;
    for (const double churn : arguments_.churn)
      for (const auto& policy : policies_) {
        std::vector<sim::CompareRun> runs;
        for (const auto& run : runs_)
          if (!run.drawn && run.cell.policy == policy && run.cell.churn == churn)
            runs.push_back({&run.result, scenarios_[run.scenario].scenario.lower_bound_s});
        rows.push_back(sim::summarise(policy, churn, runs));
        trouble |= !rows.back().troubles.empty();
      }
    const auto ideas = arguments_.ablate ? ablation() : std::vector<sim::AblationRow>();
    if (arguments_.json) {
      Json list = Json::array();
      for (const auto& row : rows) list.push_back(as_json(row));
      if (arguments_.ablate) list = {{"rows", list}, {"ideas", ablation_json(ideas)}};
      std::printf("%s\n", list.dump().c_str());
    } else {
      print(rows);
      if (arguments_.ablate) print_ablation(ideas);
    }
    if (!arguments_.html.empty()) {
      if (const auto written = text::write_file(arguments_.html, page(rows, ideas)); !written)
        return fail(written.error().message);
      std::fprintf(stderr, "page in %s: open it in a browser\n", arguments_.html.c_str());
    }
    return trouble ? fail("some runs did not get to their end; their troubles are in the rows of --json") : kDone;
  }

  std::string page(const std::vector<sim::CompareRow>& rows, const std::vector<sim::AblationRow>& ideas) const {
    PageContent content;
    content.command = words(arguments_, policies_);
    for (const auto& loaded : scenarios_) content.scenarios.push_back(loaded.scenario);
    content.rows = rows;
    content.ideas = ideas;
    for (const auto& run : runs_)
      if (run.drawn) content.timelines.push_back({run.cell, run.timeline});
    content.seeds = arguments_.seeds;
    content.iterations = arguments_.iterations;
    return compare_page(content);
  }

  std::string key(const Run& run) const { return sim::cell_key(scenarios_[run.scenario].text, kVersion, run.cell); }
  bool slow(std::size_t k) const { return sim::plays_protocol(runs_[k].cell.policy); }

  const SimCompareArguments& arguments_;
  const std::vector<std::string> policies_;
  const std::vector<LoadedScenario> scenarios_;
  std::filesystem::path folder_;
  std::vector<Run> runs_;
};

}  // namespace

int sim_compare(const SimCompareArguments& arguments) {
  std::vector<LoadedScenario> scenarios;
  for (const auto& path : arguments.files) {
    auto loaded = load_scenario(path);
    if (!loaded) return fail(loaded.error().message);
    if (!arguments.place.empty()) {
      const auto dealing = sim::deal_relays(arguments.place, 1, loaded->scenario);
      if (!dealing) return fail(path.string() + ": " + dealing.error().message);
      loaded->text += "placed by " + arguments.place;  // other runs than those of the file as it is
    }
    scenarios.push_back(std::move(*loaded));
  }
  auto policies = arguments.policies.empty() ? sim::compare_policies() : arguments.policies;
  if (arguments.ablate) {
    policies = {"protocol"};
    for (const auto& idea : sim::ideas()) policies.push_back("without/" + idea.name);
  }
  for (const auto& policy : policies)
    if (const auto known = sim::check_policy(policy); !known) return fail(known.error().message, kWrongUse);
  return Comparison(arguments, policies, std::move(scenarios)).run();
}

}  // namespace tributary::app
