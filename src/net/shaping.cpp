#include "net/shaping.h"

#include <algorithm>
#include <cmath>

namespace tributary::net {
namespace {

constexpr std::size_t kSites = 10;
constexpr const char* kSiteNames[kSites] = {"Oregon",    "Virginia", "Ohio",   "Tokyo",     "Seoul",
                                            "Singapore", "Sydney",   "London", "Frankfurt", "Ireland"};
// One-way latency in ms.
constexpr int kLatencyMs[kSites][kSites] = {
    {5, 67, 49, 96, 124, 163, 139, 136, 143, 124},   {67, 5, 11, 143, 172, 230, 197, 76, 90, 67},
    {49, 11, 5, 130, 159, 197, 185, 86, 99, 77},     {96, 143, 130, 5, 34, 73, 100, 210, 223, 199},
    {124, 172, 159, 34, 5, 74, 148, 238, 235, 228},  {163, 230, 197, 73, 74, 5, 92, 169, 155, 179},
    {139, 197, 185, 100, 148, 92, 5, 262, 265, 254}, {136, 76, 86, 210, 238, 169, 262, 5, 14, 12},
    {143, 90, 99, 223, 235, 155, 265, 14, 5, 24},    {124, 67, 77, 199, 228, 179, 254, 12, 24, 5},
};
// Bandwidth in Mbit/s.
constexpr int kBandwidthMbps[kSites][kSites] = {
    {2000, 790, 1100, 523, 460, 341, 360, 420, 404, 482},    {790, 2000, 1120, 524, 500, 364, 383, 1160, 1020, 1050},
    {1100, 1120, 2000, 694, 529, 452, 484, 1050, 799, 1140}, {523, 524, 694, 2000, 1100, 1010, 761, 366, 360, 465},
    {460, 500, 529, 1100, 2000, 1140, 580, 342, 358, 335},   {341, 364, 452, 1010, 1140, 2000, 816, 500, 535, 492},
    {360, 383, 484, 761, 580, 816, 2000, 326, 328, 344},     {420, 1160, 1050, 366, 342, 500, 326, 2000, 1140, 1090},
    {404, 1020, 799, 360, 358, 535, 328, 1140, 2000, 1080},  {482, 1050, 1140, 465, 335, 492, 344, 1090, 1080, 2000},
};

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
