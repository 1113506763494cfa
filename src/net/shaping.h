// Links as slow and far as those of a planet, on one machine: what the transport needs to know of them. Values; pure.
// The sender serialises what it sends on its one uplink, at the bandwidth of the link; the receiver holds everything,
// the end of the connection too, for the latency.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace tributary::net {

// One direction of a link.
struct LinkShape {
  Duration latency{};                // one way
  Duration jitter{};                 // up to so much more, evenly spread; order is kept
  double bandwidth_bytes_per_s = 0;  // 0: as fast as it goes
  double losses_per_hour = 0;        // how often a connection breaks, on average
};

class LinkTable {
 public:
  // Nothing is shaped.
  LinkTable() = default;
  // Every link is like this one.
  static LinkTable uniform(const LinkShape& shape);
  // The ten locations of the GWTF paper (and of DT-FM): Oregon, Virginia, Ohio, Tokyo, Seoul, Singapore, Sydney,
  // London, Frankfurt, Ireland; inside one of them 5 ms and 2 Gbit/s.
  static LinkTable ten_locations();
  // "none" or "ten-locations". Errors: another name.
  static Result<LinkTable> preset(std::string_view name);

  // A time scale of 0.1 makes everything ten times faster: latencies shorter, bandwidths higher, losses more frequent.
  // Requires scale > 0.
  LinkTable scaled(double scale) const;
  // Sets jitter and losses of every link.
  LinkTable with(Duration jitter, double losses_per_hour) const;

  bool shaped() const { return shaped_; }
  const std::vector<std::string>& regions() const { return regions_; }
  // Regions that the table does not name are joined by the default shape (nothing, for the presets).
  const LinkShape& between(std::string_view from, std::string_view to) const;

 private:
  bool shaped_ = false;
  std::vector<std::string> regions_;
  std::vector<LinkShape> links_;  // regions x regions, row = from
  LinkShape default_;
};

}  // namespace tributary::net
