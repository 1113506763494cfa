#include "swarm/planner.h"

#include <algorithm>

#include "base/random.h"
#include "flow/router.h"
#include "swarm/predicted_paths.h"

namespace tributary::swarm {
namespace {

Duration compute_time(const Candidate& candidate) {
  return candidate.forward == Duration::zero() ? milliseconds(100) : candidate.forward;
}

Duration one_way(const Candidate& from, NodeId to) {
  const auto at = from.round_trip.find(to);
  return at == from.round_trip.end() ? milliseconds(1) : at->second / 2;
}

using Stages = PlanStages;

// A relay's work so far is the time until it is free for one more forward and backward; where it has few slots, each is
// taken for as long as a microbatch is further down (`held`, by stage).
std::vector<NodeId> earliest_finish(const Stages& stages, const Candidate& data_node, const std::vector<Duration>& held,
                                    std::map<NodeId, Duration>& busy) {
  std::vector<NodeId> path = {data_node.member.node};
  const Candidate* at = &data_node;
  for (std::size_t s = 1; s < stages.size(); ++s) {
    const Candidate* best = nullptr;
    Duration best_finish{}, best_takes{};
    for (const auto* relay : stages[s]) {
      const auto takes = std::max(3 * compute_time(*relay), held[s] / std::max<int>(1, relay->member.slots));
      const auto finish = busy[relay->member.node] + takes + 2 * one_way(*at, relay->member.node);
      if (!best || finish < best_finish) {
        best = relay;
        best_finish = finish;
        best_takes = takes;
      }
    }
    busy[best->member.node] += best_takes;
    path.push_back(best->member.node);
    at = best;
  }
  path.push_back(data_node.member.node);
  return path;
}

// How long a microbatch is at a stage, from its forward pass to the end of its backward pass, by stage.
std::vector<Duration> times_held(const RunOptions& run, const Stages& stages) {
  std::vector<Duration> held(stages.size());
  Duration below{};
  for (std::size_t s = stages.size(); s-- > 1;) {
    Duration compute{}, wire{};
    int links = 0;
    for (const auto* relay : stages[s]) {
      compute += 3 * compute_time(*relay);
      for (const auto& [to, round_trip] : relay->round_trip) {
        const auto rate = relay->bytes_per_s.find(to);
        wire += round_trip;
        if (rate != relay->bytes_per_s.end())
          wire += seconds(2 * static_cast<double>(run.payload_bytes) / rate->second);
        ++links;
      }
    }
    below += compute / static_cast<int>(stages[s].size());
    held[s] = below;
    if (links > 0) below += wire / links;
  }
  return held;
}

bool usable(const Stages& stages, const std::vector<NodeId>& path) {
  if (path.size() != stages.size() + 1) return false;
  for (std::size_t p = 0; p < path.size(); ++p) {
    const auto& stage = stages[p % stages.size()];
    if (std::none_of(stage.begin(), stage.end(), [&](const auto* c) { return c->member.node == path[p]; }))
      return false;
  }
  return true;
}

// The flows of run.router, by data node; none if it is not a central flow::Router or cannot serve this network.
Chains route(const RunOptions& run, const Stages& stages) {
  if (run.router == "earliest-finish" || run.router == "planned" || is_local(run.router)) return {};
  const auto router = flow::make_router(run.router);
  if (!router) return {};
  flow::Network network;
  std::vector<const Candidate*> nodes;
  std::vector<std::vector<std::uint32_t>> ids(stages.size());
  const auto share = (run.microbatches + stages[0].size() - 1) / stages[0].size();
  for (std::size_t s = 0; s < stages.size(); ++s)
    for (const auto* candidate : stages[s]) {
      ids[s].push_back(static_cast<std::uint32_t>(nodes.size()));
      nodes.push_back(candidate);
      network.capacity.push_back(static_cast<std::int32_t>(s == 0 ? share : candidate->member.slots));
    }
  network.data_nodes = ids[0];
  network.stages.assign(ids.begin() + 1, ids.end());
  network.links.resize(nodes.size());
  for (std::size_t s = 0; s < ids.size(); ++s)
    for (const auto from : ids[s])
      for (const auto to : ids[(s + 1) % ids.size()]) {
        const auto compute = (compute_time(*nodes[from]) + compute_time(*nodes[to])) / 2;
        const auto cost = (compute + 2 * one_way(*nodes[from], nodes[to]->member.node)).count() / 1000;
        network.links[from].push_back({to, std::clamp<flow::Cost>(cost, 0, flow::kMaxCost)});
      }
  const auto solution = (*router)->solve(network, mix64(network.size(), run.microbatches));
  if (!solution) return {};
  Chains flows;
  for (const auto& indices : solution->flows) {
    std::vector<NodeId> path;
    for (const auto index : indices) path.push_back(nodes[index.value()]->member.node);
    flows[path.front()].push_back(std::move(path));
  }
  return flows;
}

}  // namespace

bool is_local(const std::string& router) { return router == "gwtf" || router == "labels" || router == "swarm"; }

wire::Plan make_plan(const RunOptions& run, const std::vector<Candidate>& given,
                     const std::vector<std::vector<NodeId>>& previous, std::uint64_t seed, const Chains& chains) {
  const auto candidates = with_estimates(given);
  wire::Plan plan;
  Stages stages(run.stages + 1);
  for (const auto& candidate : candidates) {
    plan.members.push_back(candidate.member);
    if (!candidate.member.listener) stages[candidate.member.stage.value()].push_back(&candidate);
  }
  std::sort(plan.members.begin(), plan.members.end(), [](const auto& a, const auto& b) { return a.node < b.node; });
  for (auto& members : stages) {
    TRIBUTARY_CHECK(!members.empty(), "a plan needs a member in every stage");
    std::sort(members.begin(), members.end(), [](auto* a, auto* b) { return a->member.node < b->member.node; });
  }

  std::size_t thinnest = ~std::size_t{0};
  for (std::size_t s = 1; s < stages.size(); ++s) {
    std::size_t slots = 0;
    for (const auto* member : stages[s]) slots += member->member.slots;
    thinnest = std::min(thinnest, slots);
  }
  // More in flight than slots: inputs wait where they are needed next (headroom.md: 5 more is enough).
  const std::size_t extra = run.switches.extra_in_flight ? 5 : 0;
  plan.in_flight = static_cast<std::uint16_t>(std::clamp<std::size_t>(thinnest / stages[0].size() + extra, 1, 0xffff));

  for (const auto& members : stages) weigh_shares(members, plan, run.switches.uneven_shares);

  const auto flows = is_local(run.router) ? chains : route(run, stages);
  const auto greedy = [&](const std::vector<Duration>& held) {
    Paths paths;
    std::map<NodeId, Duration> busy;
    for (std::uint32_t m = 0; m < run.microbatches; ++m)
      paths.push_back(earliest_finish(stages, *stages[0][m % stages[0].size()], held, busy));
    return paths;
  };
  plan.paths = greedy(std::vector<Duration>(stages.size()));
  std::map<NodeId, std::size_t> turn;
  for (std::uint32_t m = 0; m < run.microbatches; ++m) {
    const auto data_node = plan.paths[m].front();
    if (const auto own = flows.find(data_node); own != flows.end() && !own->second.empty())
      plan.paths[m] = own->second[turn[data_node]++ % own->second.size()];
  }
  if (run.router != "planned") return plan;
  // The last plan's paths where their nodes are still there, so that the search goes on from iteration to iteration.
  auto former = greedy(times_held(run, stages));
  std::vector<Paths> starts = {former, plan.paths};
  bool whole = previous.size() == run.microbatches;
  for (std::size_t m = 0; m < std::min<std::size_t>(previous.size(), run.microbatches); ++m) {
    const bool fits = usable(stages, previous[m]) && previous[m].front() == former[m].front();
    if (fits) former[m] = previous[m];
    whole = whole && fits;
  }
  starts.push_back(former);
  plan.paths = predicted_paths(run, stages, plan.in_flight, std::move(starts), whole ? &previous : nullptr, seed);
  return plan;
}

StageId neediest_stage(const RunOptions& run, const std::vector<Candidate>& members) {
  struct Stage {
    std::size_t relays = 0;
    double speed = 0;
  };
  std::vector<Stage> stages(run.stages + 1);
  for (const auto& member : with_estimates(members)) {
    auto& stage = stages[member.member.stage.value()];
    ++stage.relays;
    stage.speed += 1 / std::max(1e-6, to_seconds(compute_time(member)));
  }
  const auto needier = [](const Stage& a, const Stage& b) {
    constexpr std::size_t kSafe = 2;  // so many, and one may die
    const auto safe_a = std::min(a.relays, kSafe), safe_b = std::min(b.relays, kSafe);
    return safe_a != safe_b ? safe_a < safe_b : a.speed < b.speed;
  };
  std::size_t best = 1;
  for (std::size_t s = 2; s < stages.size(); ++s)
    if (needier(stages[s], stages[best])) best = s;
  return StageId(static_cast<std::uint16_t>(best));
}

}  // namespace tributary::swarm
