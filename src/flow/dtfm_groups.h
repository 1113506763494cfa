// The parts that DT-FM's placement is weighed by: exchanges within a group, matchings between two, and the tour over
// all. Pure.
#pragma once
#include <cstdint>
#include <vector>

#include "flow/predict.h"

namespace tributary::flow {

using Group = std::vector<std::uint32_t>;

class DtfmGroups {
 public:
  explicit DtfmGroups(const PredictWorld& world);

  const Group& data_nodes() const { return data_nodes_; }
  // Each member exchanges a share with every other: the member that takes longest.
  double exchange_s(const Group& group) const;
  // A message there and back over the dearest link of the best matching. Where one group is larger, a member of the
  // smaller one takes several, as evenly as can be.
  double matching_s(const Group& a, const Group& b) const;
  // The way from the data nodes (place 0) through all groups and back that costs least, by `step` [from * n + to]; its
  // places in order, without the data nodes. Exact up to kExactTour groups, else by insertion and reversals.
  static std::vector<std::uint32_t> tour(const std::vector<double>& step, std::size_t n);
  static constexpr std::size_t kExactTour = 11;

  // Elementary steps made, for budgets.
  std::int64_t steps() const { return steps_; }

 private:
  double link_s(std::uint32_t i, std::uint32_t j, double bytes) const;
  bool matches(const Group& large, const Group& small, double most_s) const;

  const PredictWorld& world_;
  Group data_nodes_;
  std::vector<double> message_s_;  // [i * n + j]
  mutable std::int64_t steps_ = 0;
};

}  // namespace tributary::flow
