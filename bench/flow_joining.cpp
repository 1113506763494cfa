// Re-makes the joining table of the GWTF thesis on networks drawn anew: the cost per microbatch before, the best that a
// long search finds, what the published rule chose, what ours chose.
//   build/bench_flow_joining [networks [placements]]
// Where there are at most so many placements (20), all are looked at; 40000 takes minutes and leaves only test 10.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "flow/joining.h"

using namespace tributary::flow;

int main(int argc, char** argv) {
  const int networks = argc > 1 ? std::atoi(argv[1]) : 10;
  const auto placements = static_cast<std::size_t>(argc > 2 ? std::atoll(argv[2]) : 20);
  std::printf("| test | before | best | gwtf | ours | gwtf above best | ours above best (worst) | ours, ms |\n");
  std::printf("|---|---|---|---|---|---|---|---|\n");
  for (const auto& test : join_tests()) {
    double before = 0, best = 0, gwtf = 0, ours = 0, took = 0, worst = 0;
    for (int seed = 1; seed <= networks; ++seed) {
      const auto problem = random_join_problem(test, static_cast<std::uint64_t>(seed));
      const auto worth = [&](const Placement& placement) { return evaluate(problem, placement).per_microbatch(); };
      const auto began = std::chrono::steady_clock::now();
      const double planned = worth(join_planned(problem, 1));
      took += std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
      const double rule = worth(join_gwtf(problem));
      const auto all = join_exhaustively(problem, placements);
      const double least = std::min({worth(all ? *all : join_planned(problem, 2, 40)), rule, planned});
      before += worth(Placement(problem.candidates.size(), 0)) / networks;
      best += least / networks;
      gwtf += rule / networks;
      ours += planned / networks;
      worst = std::max(worst, planned / least - 1);
    }
    std::printf("| %d | %.2f | %.2f | %.2f | %.2f | %.1f %% | %.1f %% (%.1f %%) | %.0f |\n", test.number, before, best,
                gwtf, ours, 100 * (gwtf / best - 1), 100 * (ours / best - 1), 100 * worst, 1e3 * took / networks);
    std::fflush(stdout);
  }
}
