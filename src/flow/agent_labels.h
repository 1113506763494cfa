// labels::Node as an Agent: the part for interchangeable data nodes; flows of several are led home by the leader.
// Internal to src/flow.
#pragma once
#include "flow/agent.h"
#include "flow/labels_node.h"

namespace tributary::flow {

class LabelsAgent final : public Agent {
 public:
  explicit LabelsAgent(const AgentSetup& setup);
  void start(const std::vector<AgentPath>& flows) override;
  void link_up(AgentSide side, std::uint32_t peer, Cost cost) override;
  void peer_lost(std::uint32_t peer) override { node_.peer_lost(peer); }
  bool receive(std::uint32_t from, std::span<const std::uint64_t> words) override;
  void timer(AgentTimer timer) override;
  void renew() override {}
  std::vector<Out> take_outbox() override;
  std::vector<AgentTimer> take_timers() override;
  std::vector<AgentFlow> flows() const override;

 private:
  const AgentSetup setup_;
  labels::Node node_;
  bool walked_ = false;
};

}  // namespace tributary::flow
