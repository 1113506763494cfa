// The protocol's time: integer nanoseconds since a moment that the host chooses. There is no now() here: time is an
// argument, which is what lets the same objects run in the real and in the simulated world.
#pragma once
#include <chrono>
#include <cstdint>

namespace tributary {

using Duration = std::chrono::nanoseconds;

struct HostClock {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<HostClock>;
  static constexpr bool is_steady = true;
};
using Time = HostClock::time_point;

inline constexpr Time kNever = Time::max();

constexpr Duration seconds(double s) { return Duration(static_cast<std::int64_t>(s * 1e9 + (s < 0 ? -0.5 : 0.5))); }
constexpr Duration milliseconds(std::int64_t ms) { return std::chrono::milliseconds(ms); }
constexpr double to_seconds(Duration d) { return static_cast<double>(d.count()) * 1e-9; }

}  // namespace tributary
