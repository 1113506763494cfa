#include "net/shaping.h"

#include <algorithm>
#include <cmath>

#include "base/ten_locations.h"

namespace tributary::net {
namespace {

LinkShape scale(LinkShape shape, double factor) {
  const auto shorter = [&](Duration d) { return Duration(std::llround(static_cast<double>(d.count()) * factor)); };
  shape.latency = shorter(shape.latency);
  shape.jitter = shorter(shape.jitter);
  shape.bandwidth_bytes_per_s /= factor;
  shape.losses_per_hour /= factor;
  return shape;
}

}  // namespace

LinkTable LinkTable::uniform(const LinkShape& shape) {
  LinkTable table;
  table.shaped_ = true;
  table.default_ = shape;
  return table;
}

LinkTable LinkTable::ten_locations() {
  using namespace tributary::ten_locations;
  LinkTable table;
  table.shaped_ = true;
  table.regions_.assign(std::begin(kSiteNames), std::end(kSiteNames));
  for (std::size_t i = 0; i < kSites; ++i)
    for (std::size_t j = 0; j < kSites; ++j)
      table.links_.push_back({.latency = milliseconds(kLatencyMs[i][j]),
                              .jitter = {},
                              .bandwidth_bytes_per_s = kBandwidthMbps[i][j] * 1e6 / 8,
                              .losses_per_hour = 0});
  return table;
}

Result<LinkTable> LinkTable::preset(std::string_view name) {
  if (name.empty() || name == "none") return LinkTable();
  if (name == "ten-locations") return ten_locations();
  return Error{"no link preset is called \"" + std::string(name) + "\"; there are \"none\" and \"ten-locations\""};
}

LinkTable LinkTable::scaled(double factor) const {
  TRIBUTARY_CHECK(factor > 0, "a time scale must be positive");
  LinkTable table = *this;
  for (auto& link : table.links_) link = scale(link, factor);
  table.default_ = scale(default_, factor);
  return table;
}

LinkTable LinkTable::with(Duration jitter, double losses_per_hour) const {
  LinkTable table = *this;
  const auto set = [&](LinkShape& link) {
    link.jitter = jitter;
    link.losses_per_hour = losses_per_hour;
  };
  table.shaped_ = table.shaped_ || jitter > Duration::zero() || losses_per_hour > 0;
  for (auto& link : table.links_) set(link);
  set(table.default_);
  return table;
}

const LinkShape& LinkTable::between(std::string_view from, std::string_view to) const {
  const auto index = [&](std::string_view name) {
    return static_cast<std::size_t>(std::find(regions_.begin(), regions_.end(), name) - regions_.begin());
  };
  const std::size_t i = index(from), j = index(to);
  if (i == regions_.size() || j == regions_.size()) return default_;
  return links_[i * regions_.size() + j];
}

}  // namespace tributary::net
