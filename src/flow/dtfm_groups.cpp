#include "flow/dtfm_groups.h"

#include <algorithm>
#include <limits>

namespace tributary::flow {
namespace {

constexpr double kNoLink = 1e12;  // seconds: far above all that adds up

double length(const std::vector<double>& step, std::size_t n, const std::vector<std::uint32_t>& order) {
  double sum = 0;
  std::size_t at = 0;
  for (const auto next : order) {
    sum += step[at * n + next];
    at = next;
  }
  return sum + step[at * n];
}

// Held and Karp: the least way over each set of places that ends at each of them.
std::vector<std::uint32_t> exact_tour(const std::vector<double>& step, std::size_t n) {
  const std::size_t places = n - 1, sets = std::size_t{1} << places;
  std::vector<double> least(sets * places, std::numeric_limits<double>::infinity());
  std::vector<std::uint32_t> before(sets * places, 0);
  for (std::size_t k = 0; k < places; ++k) least[(std::size_t{1} << k) * places + k] = step[k + 1];
  for (std::size_t set = 1; set < sets; ++set)
    for (std::size_t last = 0; last < places; ++last) {
      const double so_far = least[set * places + last];
      if (!(set >> last & 1) || so_far == std::numeric_limits<double>::infinity()) continue;
      for (std::size_t next = 0; next < places; ++next) {
        if (set >> next & 1) continue;
        const std::size_t to = (set | std::size_t{1} << next) * places + next;
        const double sum = so_far + step[(last + 1) * n + next + 1];
        if (sum < least[to]) least[to] = sum, before[to] = static_cast<std::uint32_t>(last);
      }
    }
  std::size_t set = sets - 1, last = 0;
  for (std::size_t k = 1; k < places; ++k)
    if (least[set * places + k] + step[(k + 1) * n] < least[set * places + last] + step[(last + 1) * n]) last = k;
  std::vector<std::uint32_t> order;
  while (set != 0) {
    order.push_back(static_cast<std::uint32_t>(last + 1));
    const std::size_t next = before[set * places + last];
    set ^= std::size_t{1} << last;
    last = next;
  }
  std::reverse(order.begin(), order.end());
  return order;
}

std::vector<std::uint32_t> quick_tour(const std::vector<double>& step, std::size_t n) {
  std::vector<std::uint32_t> order;
  for (std::uint32_t place = 1; place < n; ++place) {
    std::size_t best = 0;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t at = 0; at <= order.size(); ++at) {
      const std::size_t from = at == 0 ? 0 : order[at - 1], to = at == order.size() ? 0 : order[at];
      const double more = step[from * n + place] + step[place * n + to] - step[from * n + to];
      if (more < least) least = more, best = at;
    }
    order.insert(order.begin() + static_cast<std::ptrdiff_t>(best), place);
  }
  double now = length(step, n, order);
  for (bool better = true; better;) {
    better = false;
    for (std::size_t a = 0; a < order.size(); ++a)
      for (std::size_t b = a + 2; b <= order.size(); ++b) {
        auto tried = order;
        std::reverse(tried.begin() + static_cast<std::ptrdiff_t>(a), tried.begin() + static_cast<std::ptrdiff_t>(b));
        const double then = length(step, n, tried);
        if (then >= now * (1 - 1e-12)) continue;
        order = std::move(tried);
        now = then;
        better = true;
      }
  }
  return order;
}

}  // namespace

DtfmGroups::DtfmGroups(const PredictWorld& world) : world_(world) {
  const auto n = static_cast<std::uint32_t>(world.nodes.size());
  for (std::uint32_t node = 0; node < n; ++node)
    if (world.nodes[node].stage == 0) data_nodes_.push_back(node);
  message_s_.resize(std::size_t{n} * n);
  for (std::uint32_t i = 0; i < n; ++i)
    for (std::uint32_t j = 0; j < n; ++j) message_s_[std::size_t{i} * n + j] = link_s(i, j, world.message_bytes);
}

// There and back; both directions together, since one matching serves both passes.
double DtfmGroups::link_s(std::uint32_t i, std::uint32_t j, double bytes) const {
  const double there = world_.bandwidth(i, j), back = world_.bandwidth(j, i);
  if (i != j && (there <= 0 || back <= 0)) return kNoLink;
  if (i == j) return 0;
  return world_.latency(i, j) + world_.latency(j, i) + bytes / there + bytes / back;
}

double DtfmGroups::exchange_s(const Group& group) const {
  double most = 0;
  const double share = world_.aggregation_bytes / static_cast<double>(std::max<std::size_t>(1, group.size()));
  steps_ += static_cast<std::int64_t>(group.size() * group.size());
  for (const auto i : group) {
    double sum = 0;
    for (const auto j : group)
      if (i != j) sum += link_s(i, j, share);
    most = std::max(most, sum);
  }
  return most;
}

// Whether links of at most `most_s` let everybody in `large` find somebody in `small`: by augmenting ways.
bool DtfmGroups::matches(const Group& large, const Group& small, double most_s) const {
  const std::size_t n = world_.nodes.size(), room = (large.size() + small.size() - 1) / small.size();
  std::vector<std::vector<std::size_t>> held(small.size());
  std::vector<bool> seen;
  const auto place = [&](auto&& self, std::size_t a) -> bool {
    for (std::size_t b = 0; b < small.size(); ++b) {
      ++steps_;
      if (seen[b] || message_s_[large[a] * n + small[b]] > most_s) continue;
      seen[b] = true;
      if (held[b].size() < room) {
        held[b].push_back(a);
        return true;
      }
      for (auto& other : held[b])
        if (self(self, other)) {
          other = a;
          return true;
        }
    }
    return false;
  };
  for (std::size_t a = 0; a < large.size(); ++a) {
    seen.assign(small.size(), false);
    if (!place(place, a)) return false;
  }
  return true;
}

double DtfmGroups::matching_s(const Group& a, const Group& b) const {
  const auto &large = a.size() >= b.size() ? a : b, &small = a.size() >= b.size() ? b : a;
  const std::size_t n = world_.nodes.size();
  std::vector<double> levels;
  for (const auto i : large)
    for (const auto j : small) levels.push_back(message_s_[i * n + j]);
  std::sort(levels.begin(), levels.end());
  levels.erase(std::unique(levels.begin(), levels.end()), levels.end());
  std::size_t low = 0, high = levels.size() - 1;
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (matches(large, small, levels[middle])) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return levels[low];
}

std::vector<std::uint32_t> DtfmGroups::tour(const std::vector<double>& step, std::size_t n) {
  if (n <= 1) return {};
  return n - 1 <= kExactTour ? exact_tour(step, n) : quick_tour(step, n);
}

}  // namespace tributary::flow
