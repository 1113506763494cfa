#include "flow/agent_gwtf.h"

#include "flow/gwtf_words.h"

namespace tributary::flow {
namespace {

// Enough to settle in, and a bound on what one iteration may cost: a proposal is up to a dozen messages.
constexpr int kProposalsAnIteration = 200;

GwtfOptions options(bool settled) {
  GwtfOptions options;
  options.cooling_proposals = settled ? 0 : 100;
  options.max_proposals = kProposalsAnIteration;
  return options;
}

}  // namespace

GwtfAgent::GwtfAgent(const AgentSetup& setup)
    : setup_(setup),
      node_({setup.id, setup.data_node, setup.first_stage, setup.capacity}, options(setup.settled), setup.seed) {}

// The hops of the k-th flow have the id k + 1 everywhere; a data node's end of it comes after all of them.
void GwtfAgent::start(const std::vector<AgentPath>& flows) {
  const auto count = static_cast<gwtf::HopId>(flows.size());
  for (gwtf::HopId k = 0; k < count; ++k) {
    const auto& path = flows[k];
    const auto ref = [&](std::size_t at) {
      return gwtf::HopRef{path[at], at + 1 == path.size() ? count + k + 1 : k + 1};
    };
    for (std::size_t at = 0; at < path.size(); ++at) {
      if (path[at] != setup_.id) continue;
      const bool sink = at + 1 == path.size();
      node_.adopt(ref(at).hop, path.front(), at == 0 ? gwtf::HopRef{} : ref(at - 1),
                  sink ? gwtf::HopRef{} : ref(at + 1), sink, 2 * count);
    }
  }
  node_.start();
}

void GwtfAgent::link_up(AgentSide side, std::uint32_t peer, Cost cost) {
  node_.link_up(side == AgentSide::kNext   ? gwtf::Side::kNext
                : side == AgentSide::kLast ? gwtf::Side::kLast
                                           : gwtf::Side::kBeside,
                peer, cost);
}

bool GwtfAgent::receive(std::uint32_t from, std::span<const std::uint64_t> words) {
  auto body = gwtf::from_words(words);
  if (!body) return false;
  node_.handle({from, setup_.id, std::move(*body)});
  return true;
}

void GwtfAgent::renew() { node_.renew(kProposalsAnIteration); }

std::vector<Agent::Out> GwtfAgent::take_outbox() {
  std::vector<Out> out;
  for (const auto& message : node_.take_outbox()) out.push_back({message.to, gwtf::to_words(message.body)});
  return out;
}

std::vector<AgentFlow> GwtfAgent::flows() const {
  std::vector<AgentFlow> flows;
  for (const auto& [id, hop] : node_.hops())
    if (!hop.pending && !hop.sink && hop.next) flows.push_back({id, hop.next.node, hop.next.hop, 1});
  return flows;
}

}  // namespace tributary::flow
