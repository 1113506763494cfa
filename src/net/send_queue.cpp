#include "net/send_queue.h"

#include <algorithm>

#include "net/frame.h"

namespace tributary::net {

bool SendQueue::push(Message message) {
  const std::size_t size = message.size();
  auto& lane = message.payload ? bulk_ : control_;
  auto& bytes = message.payload ? bulk_bytes_ : control_bytes_;
  const std::size_t max_bytes = message.payload ? limits_.max_bulk_bytes : limits_.max_control_bytes;
  const std::size_t max_messages = message.payload ? limits_.max_bulk_messages : limits_.max_control_messages;
  if (lane.size() >= max_messages || (!lane.empty() && bytes + size > max_bytes)) return false;
  bytes += size;
  lane.push_back(std::move(message));
  return true;
}

void SendQueue::fill(std::vector<std::byte>& out, std::size_t limit, bool control_only) {
  while (!control_.empty() && out.size() < limit) {
    append_frame(out, FrameKind::kControl, control_.front().control);
    control_bytes_ -= control_.front().size();
    control_.pop_front();
  }
  if (control_only) return;
  while (!bulk_.empty() && out.size() + kFrameHeaderSize < limit) {
    const Message& message = bulk_.front();
    if (!begun_) {
      append_frame(out, FrameKind::kPayloadBegin, message.control, message.payload->size());
      begun_ = true;
      offset_ = 0;
    } else {
      const std::size_t room = limit - out.size() - kFrameHeaderSize;
      const std::size_t size = std::min({room, kMaxSegment, message.payload->size() - offset_});
      append_frame(out, FrameKind::kPayloadSegment, message.payload->span().subspan(offset_, size), offset_);
      offset_ += size;
    }
    if (offset_ == message.payload->size()) {
      bulk_bytes_ -= message.size();
      bulk_.pop_front();
      begun_ = false;
      offset_ = 0;
    }
  }
}

std::size_t SendQueue::clear() {
  const std::size_t count = messages();
  control_.clear();
  bulk_.clear();
  control_bytes_ = bulk_bytes_ = 0;
  begun_ = false;
  offset_ = 0;
  return count;
}

}  // namespace tributary::net
