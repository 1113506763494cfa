// gwtf's messages as words. Internal to src/flow.
#pragma once
#include <optional>

#include "flow/gwtf_message.h"
#include "flow/words.h"

namespace tributary::flow::gwtf {

Words to_words(const Body& body);
// Nothing, if that is no message: an unknown kind, a number out of range, too many or too few words.
std::optional<Body> from_words(std::span<const std::uint64_t> words);

}  // namespace tributary::flow::gwtf
