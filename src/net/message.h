// What travels between two nodes.
#pragma once
#include <cstddef>
#include <vector>

#include "base/bytes.h"

namespace tributary::net {

struct Message {
  std::vector<std::byte> control;  // opaque here; src/wire encodes and decodes it
  Payload payload;                 // raw tensor bytes; null and empty are told apart on the other side too

  std::size_t size() const { return control.size() + payload_size(payload); }
};

}  // namespace tributary::net
