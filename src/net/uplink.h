// The one uplink of a node: connections take turns, those with control frames first, and each turn lasts as long as its
// bytes take at the bandwidth of the link and under the upload cap. I/O thread only. Internal.
#pragma once
#include <deque>
#include <memory>

#include "net/connection.h"

namespace tributary::net {

class Uplink {
 public:
  // cap 0: none.
  Uplink(asio::io_context& io, double cap_bytes_per_s) : timer_(io), cap_(cap_bytes_per_s) {}
  // Whether this connection has to wait for turns at all.
  bool governs(const Connection& connection) const {
    return cap_ > 0 || connection.outgoing().bandwidth_bytes_per_s > 0;
  }
  // `backlog`: the frames have waited since the connection's last turn ended.
  void request(const std::shared_ptr<Connection>& connection, bool control, bool backlog);
  void stop();

 private:
  std::shared_ptr<Connection> next(bool& control);
  void serve();

  asio::steady_timer timer_;
  const double cap_;
  std::deque<std::shared_ptr<Connection>> control_, bulk_;
  SteadyClock::time_point free_{};
  bool busy_ = false, stopped_ = false;
};

// The cap on what a node takes in: a connection that has read waits until the bytes of all that was read so far would
// have arrived at the cap. I/O thread only. Internal.
class Downlink {
 public:
  // cap 0: none.
  explicit Downlink(double cap_bytes_per_s) : cap_(cap_bytes_per_s) {}
  // The most to read at once, so that connections take short turns.
  std::size_t turn(std::size_t wanted) const;
  // So many bytes were read. Returns when the same connection may read again.
  SteadyClock::time_point charge(std::size_t bytes);

 private:
  const double cap_;
  SteadyClock::time_point free_;
};

}  // namespace tributary::net
