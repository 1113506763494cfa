// Any words as messages to a local router's agent that is at work among two stages beside it: refused, or taken without
// harm, whatever came before.
#include <cstring>
#include <vector>

#include "flow/agent.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tributary::flow;
  if (size < 2 || size > 4096) return 0;
  AgentSetup setup;
  setup.id = 3;
  setup.data_node = (data[0] & 2) != 0;
  setup.first_stage = !setup.data_node && (data[0] & 4) != 0;
  setup.capacity = 3;
  setup.nodes = 8;
  const auto agent = make_agent((data[0] & 1) != 0 ? "gwtf" : "labels", setup);
  agent->start({{0, 3, 6, 0}, {1, 3, 7, 1}});
  for (const std::uint32_t peer : {0u, 1u, 2u}) agent->link_up(AgentSide::kLast, peer, 10 + peer);
  for (const std::uint32_t peer : {6u, 7u}) agent->link_up(AgentSide::kNext, peer, 20 + peer);
  for (const std::uint32_t peer : {4u, 5u}) agent->link_up(AgentSide::kBeside, peer, 0);
  // [sender and what else happens, number of words, words of one byte, or of eight after a byte of 255] ..
  for (std::size_t at = 1; at + 1 < size;) {
    const auto from = static_cast<std::uint32_t>(data[at] % 8);
    if (data[at] >= 248) agent->peer_lost(from);
    if ((data[at] & 0x38) == 0x38) agent->link_up(AgentSide::kNext, from, data[at]);
    if ((data[at] & 0x38) == 0x30) agent->renew();
    std::size_t count = data[at + 1] % 40;
    at += 2;
    std::vector<std::uint64_t> words;
    for (; count > 0 && at < size; --count) {
      std::uint64_t word = data[at++];
      if (word == 255 && at + 8 <= size) {
        std::memcpy(&word, data + at, 8);
        at += 8;
      }
      words.push_back(word);
    }
    (void)agent->receive(from, words);
    for (const auto timer : agent->take_timers()) agent->timer(timer);
    (void)agent->take_outbox();
    if (agent->flows().size() > 10'000) __builtin_trap();
  }
  return 0;
}
