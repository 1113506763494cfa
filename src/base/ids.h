// Strong integer ids: a StageId is not a NodeId, and neither converts to a bare number by accident.
#pragma once
#include <compare>
#include <cstdint>
#include <functional>
#include <string>

namespace tributary {

template <class Tag, class Rep>
class StrongId {
 public:
  using rep = Rep;
  constexpr StrongId() = default;
  constexpr explicit StrongId(Rep value) : value_(value) {}
  constexpr Rep value() const { return value_; }
  constexpr auto operator<=>(const StrongId&) const = default;

 private:
  Rep value_ = 0;
};

// A process of a run. Unique within the run for ever; a restarted process keeps it and changes its incarnation.
using NodeId = StrongId<struct NodeIdTag, std::uint32_t>;
// A slice of the model's blocks, 1..S; 0 is the data nodes.
using StageId = StrongId<struct StageIdTag, std::uint16_t>;
// One unit of optimizer state: 0 the embedding, 1..S the stages, S+1 the head.
using PartId = StrongId<struct PartIdTag, std::uint16_t>;
// A microbatch's place within its iteration, 0..M-1.
using MicrobatchId = StrongId<struct MicrobatchIdTag, std::uint32_t>;
// One optimizer step of an island, from 0.
using Iteration = StrongId<struct IterationTag, std::uint64_t>;
// New at each start of a process; a higher one is the death of the lower.
using Incarnation = StrongId<struct IncarnationTag, std::uint64_t>;

template <class Tag, class Rep>
std::string to_string(StrongId<Tag, Rep> id) {
  return std::to_string(id.value());
}

}  // namespace tributary

template <class Tag, class Rep>
struct std::hash<tributary::StrongId<Tag, Rep>> {
  std::size_t operator()(tributary::StrongId<Tag, Rep> id) const { return std::hash<Rep>{}(id.value()); }
};
