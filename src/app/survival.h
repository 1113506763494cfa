// What a run's deaths cost it: who died when, and how long the swarm stood still for it. One thread.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tributary::app {

struct Death {
  std::uint32_t node = 0;
  std::string name;  // "node 3 (stage 2)"
  std::uint64_t iteration = 0;
  std::chrono::steady_clock::time_point at;
  std::optional<double> repaired_s;  // until a node led a microbatch round it; none: it had nothing in hand
  double usual_s = 0;                // mean duration of an iteration before the death
  double longest_s = 0;              // of the iterations that ended soon after it
  int watched = 0;                   // iterations that ended since
  bool measured = false;

  // The longest iteration after the death, less the usual one.
  double lost_s() const { return longest_s > usual_s ? longest_s - usual_s : 0; }
};

class Survival {
 public:
  // `usual_s` 0: nothing is usual yet, the recovery is not measured.
  void died(std::uint32_t node, std::string name, std::uint64_t iteration, double usual_s);
  // A node has led a microbatch round a dead one.
  void repaired();
  void came_back() { ++returns_; }
  // An iteration has ended that took so long. Returns the deaths whose recovery is now known.
  std::vector<Death> stepped(double took_s);

  const std::vector<Death>& deaths() const { return deaths_; }
  // "3 survived: node 3 (stage 2) after iteration 100, ...; 1 came back"
  std::string describe_deaths() const;
  // Time to repair and time lost of each death; empty if there was none.
  std::string describe_recoveries() const;

 private:
  std::vector<Death> deaths_;
  std::uint64_t returns_ = 0;
};

// A curve as one line of block characters, first to last, with its ends as figures.
std::string blocks(const std::vector<double>& values);

}  // namespace tributary::app
