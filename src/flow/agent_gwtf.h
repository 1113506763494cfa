// gwtf::Node as an Agent. Internal to src/flow.
#pragma once
#include "flow/agent.h"
#include "flow/gwtf_node.h"

namespace tributary::flow {

class GwtfAgent final : public Agent {
 public:
  explicit GwtfAgent(const AgentSetup& setup);
  void start(const std::vector<AgentPath>& flows) override;
  void link_up(AgentSide side, std::uint32_t peer, Cost cost) override;
  void peer_lost(std::uint32_t peer) override { node_.peer_lost(peer); }
  bool receive(std::uint32_t from, std::span<const std::uint64_t> words) override;
  void timer(AgentTimer) override {}
  void renew() override;
  std::vector<Out> take_outbox() override;
  std::vector<AgentTimer> take_timers() override { return {}; }
  std::vector<AgentFlow> flows() const override;
  const gwtf::Node& node() const { return node_; }

 private:
  const AgentSetup setup_;
  gwtf::Node node_;
};

}  // namespace tributary::flow
