// How a stage's vector is divided among those who sum it.
#include <algorithm>

#include "swarm/planner.h"

namespace tributary::swarm {
namespace {

constexpr double kFallbackRate = 1e8;  // bytes/s; only its being the same everywhere matters
constexpr int kUnits = 1 << 12;        // weights in which the search moves
constexpr double kPieceElements = 1 << 18;
constexpr std::size_t kFew = 16;  // whose shares are found by a search

struct Uploads {
  std::vector<std::vector<double>> cost;  // [from][to]: seconds a byte
};

Uploads uploads(const std::vector<const Candidate*>& members) {
  const auto rate = [](const Candidate* from, const Candidate* to) {
    const auto at = from->bytes_per_s.find(to->member.node);
    return at == from->bytes_per_s.end() ? 0.0 : at->second;
  };
  double all = 0;
  int counted = 0;
  std::vector<double> own(members.size(), 0);
  for (std::size_t i = 0; i < members.size(); ++i) {
    int known = 0;
    for (const auto* to : members)
      if (const double r = rate(members[i], to); r > 0) own[i] += r, ++known;
    all += own[i];
    counted += known;
    if (known > 0) own[i] /= known;
  }
  const double fallback = counted > 0 ? all / counted : kFallbackRate;
  Uploads out;
  for (std::size_t i = 0; i < members.size(); ++i) {
    out.cost.emplace_back();
    for (const auto* to : members) {
      const double known = rate(members[i], to);
      out.cost[i].push_back(to == members[i] ? 0 : 1 / (known > 0 ? known : own[i] > 0 ? own[i] : fallback));
    }
  }
  return out;
}

// The longest upload: node i sends k's range of its sum to k, and of its own range the result to all. Both go on at
// once, piece by piece.
double duration(const Uploads& uploads, const std::vector<int>& shares) {
  double longest = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    double upload = 0;
    for (std::size_t k = 0; k < shares.size(); ++k) upload += (shares[k] + shares[i]) * uploads.cost[i][k];
    longest = std::max(longest, upload);
  }
  return longest;
}

// Moves weight from one to another while that helps, in smaller and smaller steps. The problem is convex.
void balance(const Uploads& uploads, std::vector<int>& shares) {
  double best = duration(uploads, shares);
  for (int step = kUnits / 4; step >= kUnits / 256; step /= 2) {
    for (bool moved = true; moved;) {
      moved = false;
      for (auto& from : shares) {
        for (auto& to : shares) {
          if (&from == &to || from < step) continue;
          from -= step;
          to += step;
          const double now = duration(uploads, shares);
          if (now < best * (1 - 1e-9)) {
            best = now;
            moved = true;
          } else {
            from += step;
            to -= step;
          }
        }
      }
    }
  }
}

// The same for many, where the differences between one sender's links even out: node i uploads its partial sums and n
// times its own range, at its mean cost c, which takes c (1 + n share). All take equally long, but those that are too
// slow for a range at all.
std::vector<int> pour(const Uploads& uploads) {
  const auto n = uploads.cost.size();
  std::vector<double> speed;  // in stages' vectors a second
  for (const auto& row : uploads.cost) {
    double sum = 0;
    for (const double cost : row) sum += cost;
    speed.push_back(static_cast<double>(n) / sum);
  }
  auto fastest = speed;
  std::sort(fastest.begin(), fastest.end(), std::greater<>());
  double time = 0, sum = 0;
  for (std::size_t k = 0; k < n && (k == 0 || time * fastest[k] > 1); ++k) {
    sum += fastest[k];
    time = (static_cast<double>(n) + static_cast<double>(k + 1)) / sum;
  }
  std::vector<int> shares;
  for (const double s : speed)
    shares.push_back(static_cast<int>(kUnits * std::max(0.0, time * s - 1) / static_cast<double>(n)));
  return shares;
}

}  // namespace

void weigh_shares(const std::vector<const Candidate*>& all, wire::Plan& plan, bool uneven) {
  auto members = all;
  if (members.size() > kMostShares) members.resize(kMostShares);
  std::vector<int> shares(members.size());
  for (std::size_t i = 0; i < shares.size(); ++i)
    shares[i] = static_cast<int>((kUnits * (i + 1)) / shares.size() - kUnits * i / shares.size());
  // A measure that is a little off must not move ranges every iteration.
  constexpr double kWorthIt = 0.9;
  if (uneven) {
    const auto known = uploads(members);
    auto balanced = shares;
    if (members.size() > kFew) {
      balanced = pour(known);
    } else {
      balance(known, balanced);
    }
    if (duration(known, balanced) < kWorthIt * duration(known, shares)) shares = balanced;
  }
  for (std::size_t i = 0; i < members.size(); ++i) {
    const auto at = std::find_if(plan.members.begin(), plan.members.end(),
                                 [&](const auto& member) { return member.node == members[i]->member.node; });
    if (at != plan.members.end()) at->share = static_cast<std::uint16_t>(shares[i]);
  }
}

std::vector<wire::Share> make_shares(const RunOptions& run, const wire::Plan& plan, StageId stage) {
  struct Range {
    NodeId owner;
    std::uint64_t begin, end;  // in blocks
  };
  std::vector<const wire::Member*> owners;
  std::uint64_t total = 0;
  for (const auto& member : plan.members) {
    if (member.stage != stage || member.share == 0) continue;
    owners.push_back(&member);
    total += member.share;
  }
  const auto size = run.state_sizes[stage.value()];
  const std::uint64_t blocks = (size + run.block - 1) / run.block;
  std::vector<Range> ranges;
  std::uint64_t sum = 0, begin = 0;
  for (const auto* owner : owners) {
    sum += owner->share;
    const auto end = owner == owners.back() ? blocks : blocks * sum / total;
    if (begin < end) ranges.push_back({owner->node, begin, end});
    begin = end;
  }
  // A piece's result goes out while the next one's sums come in. First pieces first, so that no owner waits.
  const double elements = static_cast<double>(size) * run.state_scale;
  const auto most = static_cast<double>(kMostPieces / std::max<std::size_t>(1, ranges.size()));
  const auto pieces = static_cast<std::uint64_t>(std::clamp(elements / kPieceElements, 1.0, std::max(1.0, most)));
  std::vector<wire::Share> shares;
  for (std::uint64_t piece = 0; piece < pieces; ++piece)
    for (const auto& range : ranges) {
      const auto length = range.end - range.begin;
      const auto from = (range.begin + length * piece / pieces) * run.block;
      const auto to = std::min(size, (range.begin + length * (piece + 1) / pieces) * run.block);
      if (from < to) shares.push_back({range.owner, from, to});
    }
  return shares;
}

}  // namespace tributary::swarm
