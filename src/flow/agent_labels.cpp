#include "flow/agent_labels.h"

#include <algorithm>
#include <optional>

namespace tributary::flow {
namespace {

using labels::LabelUpdate;
using labels::Token;
using labels::Walker;

// Above all that links of the least number of stages cost, and the same everywhere.
constexpr Cost kOneFlow = kMostLinkCost << 16;

labels::NodeSetup node_setup(const AgentSetup& setup) {
  return {setup.id,       setup.data_node, setup.last_stage,
          setup.capacity, kOneFlow,        std::max<std::size_t>(2, 2 * setup.nodes)};
}

// Two sides of each node.
constexpr std::uint64_t kMostSide = 0xffffffff;

Words to_words(const labels::Body& body) {
  WordWriter out;
  out.put(body.index());
  if (const auto* update = std::get_if<LabelUpdate>(&body)) {
    out.put(update->side);
    out.put(update->label.version);
    out.put(update->label.path.size());
    for (const auto& step : update->label.path) out.put(step.side), out.put_cost(step.rest);
  } else if (const auto* token = std::get_if<Token>(&body)) {
    out.put(static_cast<std::uint64_t>(token->lap));
    out.put(token->at);
    out.put(token->cycle.size());
    for (const auto side : token->cycle) out.put(side);
  } else if (const auto* walker = std::get_if<Walker>(&body)) {
    out.put(static_cast<std::uint64_t>(walker->walk));
    out.put(walker->at);
    out.put(walker->path.size());
    for (const auto node : walker->path) out.put(node);
  }
  return out.take();
}

std::optional<labels::Body> from_words(std::span<const std::uint64_t> words) {
  WordReader in(words);
  const auto kind = in.get(2);
  const auto list = [&](std::vector<std::uint32_t>& into) {
    into.resize(in.get_count(1));
    for (auto& item : into) item = static_cast<std::uint32_t>(in.get(kMostSide));
  };
  labels::Body body;
  if (kind == 0) {
    auto& update = body.emplace<LabelUpdate>();
    update.side = in.get32();
    update.label.version = in.get();
    update.label.path.resize(in.get_count(2));
    for (auto& step : update.label.path) {
      step.side = in.get32();
      step.rest = in.get_cost(-kMostPathCost, kMostPathCost);
    }
  } else if (kind == 1) {
    auto& token = body.emplace<Token>();
    token.lap = static_cast<labels::Lap>(in.get(2));
    token.at = in.get();
    list(token.cycle);
  } else {
    auto& walker = body.emplace<Walker>();
    walker.walk = static_cast<labels::Walk>(in.get(2));
    walker.at = in.get();
    list(walker.path);
  }
  if (!in.done()) return std::nullopt;
  return body;
}

}  // namespace

LabelsAgent::LabelsAgent(const AgentSetup& setup) : setup_(setup), node_(node_setup(setup), LabelsOptions()) {}

void LabelsAgent::start(const std::vector<AgentPath>& flows) {
  for (const auto& path : flows) {
    if (path.front() == setup_.id) node_.adopt(path[path.size() - 2], path[1]);
    for (std::size_t at = 1; at + 1 < path.size(); ++at)
      if (path[at] == setup_.id) node_.adopt(path[at - 1], path[at + 1]);
  }
  node_.start();
}

void LabelsAgent::link_up(AgentSide side, std::uint32_t peer, Cost cost) {
  if (side != AgentSide::kBeside) node_.link_up(side == AgentSide::kNext, peer, cost);
}

bool LabelsAgent::receive(std::uint32_t from, std::span<const std::uint64_t> words) {
  auto body = from_words(words);
  if (!body) return false;
  // A label is its owner's word.
  if (const auto* update = std::get_if<LabelUpdate>(&*body); update && labels::node_of(update->side) != from)
    return false;
  node_.handle(labels::Message{from, setup_.id, std::move(*body)});
  return true;
}

// Walkers set out when the first quiet time is over: by then, links are up.
void LabelsAgent::timer(AgentTimer timer) {
  if (timer == AgentTimer::kQuiet && !std::exchange(walked_, true)) node_.walk();
  node_.handle(timer == AgentTimer::kQuiet  ? labels::Timer::kGrow
               : timer == AgentTimer::kSoon ? labels::Timer::kEvaluateIn
                                            : labels::Timer::kEvaluateOut);
}

std::vector<Agent::Out> LabelsAgent::take_outbox() {
  std::vector<Out> out;
  for (const auto& message : node_.take_outbox()) out.push_back({message.to, to_words(message.body)});
  return out;
}

std::vector<AgentTimer> LabelsAgent::take_timers() {
  std::vector<AgentTimer> timers;
  for (const auto timer : node_.take_timers())
    timers.push_back(timer == labels::Timer::kGrow         ? AgentTimer::kQuiet
                     : timer == labels::Timer::kEvaluateIn ? AgentTimer::kSoon
                                                           : AgentTimer::kSoonToo);
  return timers;
}

std::vector<AgentFlow> LabelsAgent::flows() const {
  std::vector<AgentFlow> flows;
  for (const auto& [next, units] : node_.flows_out())
    if (units > 0) flows.push_back({0, next, 0, static_cast<std::uint32_t>(units)});
  return flows;
}

}  // namespace tributary::flow
