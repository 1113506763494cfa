// What waits to be sent to one peer: two lanes, first in first out each. Messages without payload go before those with
// one, also between the segments of a payload that is under way. Pure; the owner serialises access.
//
// Bounds: the bulk lane holds at most max_bulk_bytes and max_bulk_messages, the control lane its own reserve, so that
// tensors never shut out heartbeats; push() refuses beyond that and changes nothing. A lone message larger than the
// bytes of its lane is taken when the lane is empty.
#pragma once
#include <cstddef>
#include <deque>
#include <vector>

#include "net/message.h"

namespace tributary::net {

struct SendQueueLimits {
  std::size_t max_bulk_bytes = std::size_t{256} << 20;
  std::size_t max_bulk_messages = 1024;
  std::size_t max_control_bytes = 4 << 20;
  std::size_t max_control_messages = 4096;
};

class SendQueue {
 public:
  explicit SendQueue(const SendQueueLimits& limits) : limits_(limits) {}

  bool push(Message message);
  // Appends frames to `out` until it holds `limit` bytes or more, or nothing waits. Payload segments are cut so that
  // they end at the limit; control frames are never cut.
  void fill(std::vector<std::byte>& out, std::size_t limit, bool control_only);
  // Forgets everything, the payload under way included. Returns how many messages that were.
  std::size_t clear();

  bool empty() const { return control_.empty() && bulk_.empty(); }
  bool has_control() const { return !control_.empty(); }
  std::size_t bytes() const { return control_bytes_ + bulk_bytes_; }
  std::size_t messages() const { return control_.size() + bulk_.size(); }

 private:
  const SendQueueLimits limits_;
  std::deque<Message> control_;
  std::deque<Message> bulk_;  // the front one may be under way: begun_, offset_
  std::size_t control_bytes_ = 0;
  std::size_t bulk_bytes_ = 0;
  bool begun_ = false;
  std::size_t offset_ = 0;
};

}  // namespace tributary::net
