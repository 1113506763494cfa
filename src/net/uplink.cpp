#include "net/uplink.h"

#include <algorithm>

namespace tributary::net {
namespace {

// Timers fire late, on a busy machine by many milliseconds. A turn counts from when its frames were ready and the
// uplink free, so that lateness is caught up; but at most so much of it.
constexpr auto kMostLateness = std::chrono::milliseconds(100);
// Shorter turns than this do not wait for a timer, they only move the end of the next.
constexpr auto kTooShort = std::chrono::microseconds(200);
// A turn is at most so long, so that control frames of other peers need not wait for 64 KiB on a slow link.
constexpr double kTurnSeconds = 0.005;
constexpr std::size_t kSmallestTurn = 2 << 10;

}  // namespace

void Uplink::request(const std::shared_ptr<Connection>& connection, bool control, bool backlog) {
  const int wanted = control ? 2 : 1;
  if (stopped_ || connection->slot >= wanted) return;
  if (connection->slot == 0) connection->ready_at = backlog ? connection->turn_end : SteadyClock::now();
  connection->slot = wanted;
  (control ? control_ : bulk_).push_back(connection);
  serve();
}

std::shared_ptr<Connection> Uplink::next(bool& control) {
  for (auto* list : {&control_, &bulk_}) {
    control = list == &control_;
    while (!list->empty()) {
      auto connection = std::move(list->front());
      list->pop_front();
      // One that has moved to the other list since, or that ended, left its old place behind.
      if (connection->slot != (control ? 2 : 1)) continue;
      connection->slot = 0;
      if (connection->idle()) return connection;
    }
  }
  return nullptr;
}

void Uplink::serve() {
  bool control = false;
  while (!busy_ && !stopped_) {
    const auto connection = next(control);
    if (!connection) return;
    double rate = connection->outgoing().bandwidth_bytes_per_s;
    if (cap_ > 0) rate = rate > 0 ? std::min(rate, cap_) : cap_;
    std::size_t limit = kMaxSegment + kFrameHeaderSize;
    if (rate > 0) limit = std::clamp(static_cast<std::size_t>(rate * kTurnSeconds), kSmallestTurn, limit);
    const std::size_t size = connection->take(limit, control);
    if (size == 0) continue;
    const auto now = SteadyClock::now();
    const auto start = std::max({free_, connection->ready_at, now - kMostLateness});
    free_ = start + (rate > 0 ? seconds(static_cast<double>(size) / rate) : Duration::zero());
    connection->turn_end = free_;
    connection->turn_begin = rate > 0 ? start : now;
    connection->turn_bytes = size;
    if (free_ - now < kTooShort) {
      connection->write_taken();
      continue;
    }
    busy_ = true;
    timer_.expires_at(free_);
    timer_.async_wait([this, connection](const asio::error_code&) {
      busy_ = false;
      if (stopped_) return;
      connection->write_taken();
      serve();
    });
  }
}

void Uplink::stop() {
  stopped_ = true;
  control_.clear();
  bulk_.clear();
  timer_.cancel();
}

std::size_t Downlink::turn(std::size_t wanted) const {
  if (cap_ <= 0) return wanted;
  return std::min(wanted, std::max(kSmallestTurn, static_cast<std::size_t>(cap_ * kTurnSeconds)));
}

SteadyClock::time_point Downlink::charge(std::size_t bytes) {
  const auto now = SteadyClock::now();
  if (cap_ <= 0) return now;
  free_ = std::max(free_, now - kMostLateness) + seconds(static_cast<double>(bytes) / cap_);
  return free_;
}

}  // namespace tributary::net
