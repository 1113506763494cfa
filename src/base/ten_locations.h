// The ten locations of the GWTF paper, the same matrix as DT-FM's: what lies between two sites.
#pragma once
#include <cstddef>

namespace tributary::ten_locations {

inline constexpr std::size_t kSites = 10;
inline constexpr const char* kSiteNames[kSites] = {"Oregon",    "Virginia", "Ohio",   "Tokyo",     "Seoul",
                                                   "Singapore", "Sydney",   "London", "Frankfurt", "Ireland"};
// One-way latency in ms.
inline constexpr int kLatencyMs[kSites][kSites] = {
    {5, 67, 49, 96, 124, 163, 139, 136, 143, 124},   {67, 5, 11, 143, 172, 230, 197, 76, 90, 67},
    {49, 11, 5, 130, 159, 197, 185, 86, 99, 77},     {96, 143, 130, 5, 34, 73, 100, 210, 223, 199},
    {124, 172, 159, 34, 5, 74, 148, 238, 235, 228},  {163, 230, 197, 73, 74, 5, 92, 169, 155, 179},
    {139, 197, 185, 100, 148, 92, 5, 262, 265, 254}, {136, 76, 86, 210, 238, 169, 262, 5, 14, 12},
    {143, 90, 99, 223, 235, 155, 265, 14, 5, 24},    {124, 67, 77, 199, 228, 179, 254, 12, 24, 5},
};
// Bandwidth in Mbit/s.
inline constexpr int kBandwidthMbps[kSites][kSites] = {
    {2000, 790, 1100, 523, 460, 341, 360, 420, 404, 482},    {790, 2000, 1120, 524, 500, 364, 383, 1160, 1020, 1050},
    {1100, 1120, 2000, 694, 529, 452, 484, 1050, 799, 1140}, {523, 524, 694, 2000, 1100, 1010, 761, 366, 360, 465},
    {460, 500, 529, 1100, 2000, 1140, 580, 342, 358, 335},   {341, 364, 452, 1010, 1140, 2000, 816, 500, 535, 492},
    {360, 383, 484, 761, 580, 816, 2000, 326, 328, 344},     {420, 1160, 1050, 366, 342, 500, 326, 2000, 1140, 1090},
    {404, 1020, 799, 360, 358, 535, 328, 1140, 2000, 1080},  {482, 1050, 1140, 465, 335, 492, 344, 1090, 1080, 2000},
};

}  // namespace tributary::ten_locations
