#include "swarm/placement.h"

#include <algorithm>

namespace tributary::swarm {
namespace {

constexpr std::size_t kSliceSteps = 60'000;  // event steps of predictions in a slice: some milliseconds
constexpr std::size_t kTrials = 24;          // changes of paths before a placement is judged
constexpr double kWarmth = 0.02;             // at first, a placement this much slower may be gone on from
constexpr std::size_t kCold = 400;           // proposals until none may
constexpr double kWorthMoving = 0.95;        // of the present time; less is within what measures waver by
constexpr double kCostOfMove = 0.5;          // iterations that a round of moves costs: a stage is short of a relay
constexpr double kMargin = 2;                // what is saved over what is paid

PlanStages by_stage(const RunOptions& run, const std::vector<Candidate>& members) {
  PlanStages stages(run.stages + 1u);
  for (const auto& member : members) stages[member.member.stage.value()].push_back(&member);
  for (auto& list : stages)
    std::sort(list.begin(), list.end(), [](auto* a, auto* b) { return a->member.node < b->member.node; });
  return stages;
}

}  // namespace

Placement::Placement(const RunOptions& run, std::vector<Candidate> members, std::set<NodeId> movable,
                     const Paths& paths, std::uint16_t in_flight, const Target& former, std::uint64_t seed)
    : run_(run),
      members_(with_estimates(std::move(members))),
      world_(make_plan_world(run, by_stage(run, members_), in_flight)),
      random_(seed),
      search_(world_, mix64(seed, 1)) {
  const bool whole = std::none_of(world_.stages.begin(), world_.stages.end(), [](const auto& s) { return s.empty(); });
  const auto n = world_.nodes.size();
  if (!whole || n > kMostMachines || paths.empty() || 4 * kTrials * PathSearch::steps(run) > 10 * kSliceSteps ||
      !world_.predict.check())
    return;
  for (std::uint32_t i = 0; i < n; ++i) {
    forward_s_.push_back(world_.predict.nodes[i].forward_s);
    now_.stage_of.push_back(world_.predict.nodes[i].stage);
    if (movable.contains(world_.nodes[i]) && now_.stage_of[i] > 0) movable_.push_back(i);
  }
  if (movable_.empty()) return;
  usable_ = true;

  const auto microbatches_of = [&](const Paths& given, const Arrangement& like) {
    PathSearch::Microbatches out;
    for (std::uint32_t m = 0; m < given.size(); ++m) {
      flow::PredictMicrobatch microbatch;
      microbatch.id = m;
      const auto index = [&](NodeId node) {
        const auto at = world_.index.find(node);
        return at == world_.index.end() ? ~std::uint32_t{0} : at->second;
      };
      microbatch.data_node = index(given[m].front());
      if (microbatch.data_node >= like.stage_of.size()) microbatch.data_node = world_.stages[0].front();
      for (std::size_t p = 1; p + 1 < given[m].size(); ++p) microbatch.path.push_back(index(given[m][p]));
      out.push_back(std::move(microbatch));
    }
    return out;
  };
  now_.microbatches = microbatches_of(paths, now_);
  repair(now_);
  enter(now_);
  search_.improve(kTrials);
  now_ = current_ = best_ = present();

  Arrangement hint = now_;
  for (const auto i : movable_)
    if (const auto at = former.stages.find(world_.nodes[i]); at != former.stages.end())
      hint.stage_of[i] = at->second.value();
  if (hint.stage_of == now_.stage_of || former.paths.size() != paths.size()) return;
  std::vector<int> count(run.stages + 1u, 0);
  for (const auto stage : hint.stage_of) ++count[stage];
  if (std::find(count.begin(), count.end(), 0) != count.end()) return;
  hint.microbatches = microbatches_of(former.paths, hint);
  for (std::size_t m = 0; m < paths.size(); ++m) hint.microbatches[m].data_node = now_.microbatches[m].data_node;
  repair(hint);
  enter(hint);
  search_.improve(kTrials);
  current_ = present();
  if (current_.time < best_.time) best_ = current_;
}

// Gives each microbatch whose relay is not in its stage the one with the least to do for its speed.
void Placement::repair(Arrangement& arrangement) const {
  const auto stages = run_.stages;
  std::vector<double> busy(arrangement.stage_of.size(), 0);
  for (const auto& microbatch : arrangement.microbatches)
    for (std::size_t s = 1; s <= stages; ++s)
      if (const auto at = microbatch.path[s - 1]; at < busy.size() && arrangement.stage_of[at] == s)
        busy[at] += forward_s_[at];
  for (auto& microbatch : arrangement.microbatches)
    for (std::size_t s = 1; s <= stages; ++s) {
      auto& at = microbatch.path[s - 1];
      if (at < busy.size() && arrangement.stage_of[at] == s) continue;
      at = ~std::uint32_t{0};
      for (std::uint32_t i = 0; i < busy.size(); ++i)
        if (arrangement.stage_of[i] == s && (at >= busy.size() || busy[i] + forward_s_[i] < busy[at] + forward_s_[at]))
          at = i;
      busy[at] += forward_s_[at];
    }
}

void Placement::enter(const Arrangement& arrangement) {
  for (auto& stage : world_.stages) stage.clear();
  for (std::uint32_t i = 0; i < arrangement.stage_of.size(); ++i) {
    const auto stage = arrangement.stage_of[i];
    auto& node = world_.predict.nodes[i];
    world_.stages[stage].push_back(i);
    node.stage = stage;
    if (stage > 0) {
      const auto size = [&](std::uint32_t s) { return static_cast<double>(run_.state_sizes[s]); };
      node.forward_s = forward_s_[i] * size(stage) / size(now_.stage_of[i]);
    }
  }
  search_.restaged();
  search_.take(arrangement.microbatches);
}

Placement::Arrangement Placement::present() const {
  Arrangement out;
  for (const auto& node : world_.predict.nodes) out.stage_of.push_back(node.stage);
  out.microbatches = search_.microbatches();
  out.time = search_.time();
  return out;
}

bool Placement::propose(Arrangement& arrangement) {
  auto& stage_of = arrangement.stage_of;
  const auto one = movable_[random_.below(movable_.size())];
  const auto from = stage_of[one];
  if (random_.chance(0.6)) {
    const auto other = movable_[random_.below(movable_.size())];
    const auto to = stage_of[other];
    if (to == from) return false;
    std::swap(stage_of[one], stage_of[other]);
    for (auto& microbatch : arrangement.microbatches) {
      if (microbatch.path[from - 1] == one) microbatch.path[from - 1] = other;
      if (microbatch.path[to - 1] == other) microbatch.path[to - 1] = one;
    }
    return true;
  }
  const auto to = 1 + static_cast<std::uint32_t>(random_.below(run_.stages));
  if (to == from) return false;
  std::vector<std::size_t> count(run_.stages + 1u, 0);
  for (const auto stage : stage_of) ++count[stage];
  // Not so thin that one death could end it, unless it is already.
  if (count[from] <= 2) return false;
  stage_of[one] = to;
  repair(arrangement);
  // Its part of the work of its new stage.
  const auto share = arrangement.microbatches.size() / (count[to] + 1);
  for (std::size_t k = 0; k < share; ++k)
    arrangement.microbatches[random_.below(arrangement.microbatches.size())].path[to - 1] = one;
  return true;
}

void Placement::search() {
  if (!usable_) return;
  const auto budget = std::max<std::size_t>(1, kSliceSteps / (kTrials * PathSearch::steps(run_)));
  for (std::size_t i = 0; i < budget; ++i) {
    ++proposals_;
    auto next = current_;
    if (!propose(next)) continue;
    enter(next);
    search_.improve(kTrials);
    const double warmth = proposals_ < kCold ? kWarmth * (1 - static_cast<double>(proposals_) / kCold) : 0;
    const double bound = current_.time.end * (1 + warmth * random_.uniform());
    if (search_.time().end > bound) continue;
    current_ = present();
    if (current_.time < best_.time) best_ = current_;
  }
  // Paths of the two that are compared are searched alike.
  for (auto* kept : {&best_, &now_}) {
    enter(*kept);
    search_.improve(kTrials);
    *kept = present();
  }
}

Placement::Target Placement::target() const {
  Target out;
  if (!usable_) return out;
  for (const auto i : movable_) out.stages[world_.nodes[i]] = StageId(static_cast<std::uint16_t>(best_.stage_of[i]));
  for (const auto& microbatch : best_.microbatches) {
    out.paths.push_back({world_.nodes[microbatch.data_node]});
    for (const auto relay : microbatch.path) out.paths.back().push_back(world_.nodes[relay]);
    out.paths.back().push_back(world_.nodes[microbatch.data_node]);
  }
  return out;
}

std::vector<Placement::Move> Placement::moves(std::uint64_t iterations_left, const std::set<NodeId>& full) const {
  std::vector<Move> out;
  if (!usable_ || best_.time.end > kWorthMoving * now_.time.end) return out;
  std::map<std::uint32_t, double> leaving;
  for (const auto i : movable_)
    if (best_.stage_of[i] != now_.stage_of[i]) ++leaving[now_.stage_of[i]];
  double rounds = 0;
  for (const auto& [stage, count] : leaving) rounds = std::max(rounds, count);
  const double saved = (now_.time.end - best_.time.end) * static_cast<double>(iterations_left);
  if (saved < kMargin * kCostOfMove * rounds * now_.time.end) return out;
  std::map<std::uint32_t, std::size_t> left;
  for (std::uint32_t i = 0; i < now_.stage_of.size(); ++i)
    if (full.contains(world_.nodes[i])) ++left[now_.stage_of[i]];
  std::set<std::uint32_t> left_by;
  for (const auto i : movable_) {
    const auto from = now_.stage_of[i];
    if (best_.stage_of[i] == from || !full.contains(world_.nodes[i]) || left[from] < 2) continue;
    if (!left_by.insert(from).second) continue;
    out.push_back({world_.nodes[i], StageId(static_cast<std::uint16_t>(best_.stage_of[i]))});
  }
  return out;
}

}  // namespace tributary::swarm
