#include "flow/agent.h"

#include "flow/agent_gwtf.h"
#include "flow/agent_labels.h"

namespace tributary::flow {

std::unique_ptr<Agent> make_agent(std::string_view router, const AgentSetup& setup) {
  if (router == "gwtf") return std::make_unique<GwtfAgent>(setup);
  if (router == "labels") return std::make_unique<LabelsAgent>(setup);
  return nullptr;
}

}  // namespace tributary::flow
