#include "node/stage_store.h"

#include <atomic>
#include <cmath>
#include <limits>

#include "model/kernels.h"
#include "model/parallel.h"

namespace tributary::node {
namespace {

using model::kernels;
using model::parallel_for;

constexpr std::size_t kGrain = 65536;
constexpr std::uint64_t kNormBlock = 4096;

// Calls f(values, out offset, count) for each contiguous run of a piece's elements; values are of type T.
template <class F>
void for_runs(const model::GradientPiece& piece, F&& f) {
  const auto count = static_cast<std::uint64_t>(piece.values.numel());
  const auto with = [&](auto* values) {
    if (piece.rows.empty()) {
      f(values, piece.offset, count);
      return;
    }
    const std::uint64_t width = count / piece.rows.size();
    for (std::size_t i = 0; i < piece.rows.size(); ++i) {
      f(values + i * width, piece.offset + static_cast<std::uint64_t>(piece.rows[i]) * width, width);
    }
  };
  if (piece.values.scalar_type() == at::kFloat) {
    with(static_cast<const float*>(piece.values.data_ptr()));
  } else {
    with(static_cast<const model::Bf16*>(piece.values.data_ptr()));
  }
}
template <class T>
const auto& kernels_of(const T*) {
  return kernels().rows<T>();
}

double power(double base, std::uint64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if (exponent & 1) result *= base;
    base *= base;
  }
  return result;
}

const float* floats(const Payload& payload) { return reinterpret_cast<const float*>(payload->data()); }

bool all_finite(const float* values, std::uint64_t count) {
  return kernels().f32.all_below(values, std::numeric_limits<float>::infinity(), 0, count);
}

}  // namespace

void RangeSet::add(swarm::Range range) {
  if (range.size() == 0) return;
  auto it = ends_.upper_bound(range.begin);
  if (it != ends_.begin() && std::prev(it)->second >= range.begin) --it;
  while (it != ends_.end() && it->first <= range.end) {
    range.begin = std::min(range.begin, it->first);
    range.end = std::max(range.end, it->second);
    it = ends_.erase(it);
  }
  ends_[range.begin] = range.end;
}

bool RangeSet::covers(std::uint64_t size) const {
  return size == 0 || (ends_.size() == 1 && ends_.begin()->first == 0 && ends_.begin()->second == size);
}

StageStore::StageStore(const ComputeOptions& options, StageId stage)
    : options_(options), layout_(model::stage_layout(options.config, options.cut, stage)) {
  state_.weights.resize(layout_.size);
  state_.first.resize(layout_.size);
  state_.second.resize(layout_.size);
}

void StageStore::initialise(std::uint64_t seed) {
  model::initialise(layout_, seed, state_.weights.data());
  std::fill(state_.first.begin(), state_.first.end(), 0.0f);
  std::fill(state_.second.begin(), state_.second.end(), 0.0f);
}

float StageStore::limit() const {
  if (!options_.reproducible) return std::numeric_limits<float>::infinity();
  return static_cast<float>(0x1p18 / options_.microbatches);
}

Result<void> StageStore::check(const model::Gradients& gradients) const {
  for (const auto& piece : gradients) {
    std::atomic<bool> good = true;
    const auto with = [&](const auto* values) {
      parallel_for(static_cast<std::size_t>(piece.values.numel()), kGrain, [&](std::size_t begin, std::size_t end) {
        if (!kernels_of(values).all_below(values, limit(), begin, end)) good = false;
      });
    };
    if (piece.values.scalar_type() == at::kFloat) {
      with(static_cast<const float*>(piece.values.data_ptr()));
    } else {
      with(static_cast<const model::Bf16*>(piece.values.data_ptr()));
    }
    if (!good) return Error{"a gradient is not finite, or too large for the fixed-point sum"};
  }
  return {};
}

void StageStore::hold(Iteration iteration, MicrobatchId microbatch, PartId part, model::Gradients gradients) {
  held_[{iteration, microbatch, part}] = std::move(gradients);
}

StageStore::Sum& StageStore::sum(Iteration iteration) {
  auto [it, fresh] = sums_.try_emplace(iteration);
  if (fresh && options_.reproducible) it->second.fixed.resize(layout_.size);
  if (fresh && !options_.reproducible) it->second.floating.resize(layout_.size);
  return it->second;
}

void StageStore::add(Iteration iteration, const model::Gradients& gradients, bool subtract) {
  Sum& total = sum(iteration);
  for (const auto& piece : gradients) {
    for_runs(piece, [&](const auto* values, std::uint64_t offset, std::uint64_t count) {
      const auto& k = kernels_of(values);
      parallel_for(count, kGrain, [&](std::size_t begin, std::size_t end) {
        const bool folded = options_.reproducible
                                ? k.fold_fixed(values, total.fixed.data() + offset, limit(), subtract, begin, end)
                                : k.fold_float(values, total.floating.data() + offset, subtract, begin, end);
        TRIBUTARY_CHECK(folded, "a contribution is checked before it is held");
      });
    });
  }
}

Result<void> StageStore::fold(Iteration iteration, MicrobatchId microbatch, PartId part) {
  const auto found = held_.find({iteration, microbatch, part});
  if (found == held_.end()) {
    return Error{"no contribution of microbatch " + to_string(microbatch) + " to part " + to_string(part) +
                 " is held for iteration " + to_string(iteration)};
  }
  add(iteration, found->second, false);
  held_.erase(found);
  return {};
}

void StageStore::discard(Iteration iteration, MicrobatchId microbatch, PartId part) {
  held_.erase({iteration, microbatch, part});
}

void StageStore::subtract(Iteration iteration, const model::Gradients& gradients) { add(iteration, gradients, true); }

Result<void> StageStore::check(swarm::Range range) const {
  if (range.begin > range.end || range.end > layout_.size) {
    return Error{"the range " + std::to_string(range.begin) + ".." + std::to_string(range.end) +
                 " lies outside the stage's " + std::to_string(layout_.size) + " elements"};
  }
  return {};
}

void StageStore::partial(const swarm::Task& task, swarm::TaskResult& result) const {
  const std::size_t element = options_.reproducible ? 8 : 4;
  auto buffer = make_buffer(task.range.size() * element);
  const auto found = sums_.find(task.iteration);
  if (found == sums_.end()) {
    std::memset(buffer->data(), 0, buffer->size());
  } else if (options_.reproducible) {
    std::memcpy(buffer->data(), found->second.fixed.data() + task.range.begin, buffer->size());
  } else {
    std::memcpy(buffer->data(), found->second.floating.data() + task.range.begin, buffer->size());
  }
  result.output = std::move(buffer);
}

Result<void> StageStore::sum_share(const swarm::Task& task, swarm::TaskResult& result) const {
  const std::uint64_t count = task.range.size(), element = options_.reproducible ? 8 : 4;
  for (const auto& input : task.inputs) {
    if (payload_size(input) != count * element) return Error{"a partial sum has not the size of its range"};
  }
  auto out = make_buffer(count * 4);
  auto* gradient = reinterpret_cast<float*>(out->data());
  if (options_.reproducible) {
    std::vector<std::int64_t> total(count);
    for (const auto& input : task.inputs) {
      const auto* values = reinterpret_cast<const std::int64_t*>(input->data());
      parallel_for(count, kGrain,
                   [&](std::size_t begin, std::size_t end) { kernels().add_fixed(values, total.data(), begin, end); });
    }
    parallel_for(count, kGrain, [&](std::size_t begin, std::size_t end) {
      kernels().fixed_to_float(total.data(), gradient, begin, end);
    });
  } else {
    std::memset(gradient, 0, count * 4);
    for (const auto& input : task.inputs) {
      parallel_for(count, kGrain, [&](std::size_t begin, std::size_t end) {
        kernels().f32.accumulate(floats(input), gradient, begin, end);
      });
    }
  }
  if (!all_finite(gradient, count)) return Error{"the summed gradient is not finite"};
  result.output = std::move(out);
  result.hash = checksum64(result.output->span());
  return {};
}

Result<void> StageStore::set_result(const swarm::Task& task) {
  if (payload_size(task.input) != task.range.size() * 4) return Error{"a result has not the size of its range"};
  if (!all_finite(floats(task.input), task.range.size())) return Error{"a result is not finite"};
  auto& result = results_[task.iteration];
  result.gradient.resize(layout_.size);
  std::memcpy(result.gradient.data() + task.range.begin, task.input->data(), task.input->size());
  result.ranges.add(task.range);
  return {};
}

Result<void> StageStore::finish_result(Iteration iteration, swarm::TaskResult& result) const {
  const auto found = results_.find(iteration);
  if (found == results_.end() || !found->second.ranges.covers(layout_.size)) {
    return Error{"the result of iteration " + to_string(iteration) + " is not complete"};
  }
  const auto& gradient = found->second.gradient;
  result.hash = model::hash_floats(gradient);
  const std::size_t blocks = (gradient.size() + kNormBlock - 1) / kNormBlock;
  std::vector<double> sums(blocks);
  parallel_for(blocks, 16, [&](std::size_t begin, std::size_t end) {
    for (std::size_t block = begin; block < end; ++block) {
      const std::size_t at = block * kNormBlock;
      sums[block] =
          kernels().block_sum_squares(gradient.data() + at, std::min<std::size_t>(kNormBlock, gradient.size() - at));
    }
  });
  for (const double sum : sums) result.sum_squares += sum;
  return {};
}

Result<void> StageStore::apply(const swarm::Task& task, swarm::TaskResult& result) {
  const auto found = results_.find(task.iteration);
  if (found == results_.end()) return Error{"there is no result of iteration " + to_string(task.iteration)};
  model::AdamStep step{};
  step.learning_rate = static_cast<float>(task.step.learning_rate);
  step.beta1 = static_cast<float>(options_.beta1);
  step.beta2 = static_cast<float>(options_.beta2);
  step.epsilon = static_cast<float>(options_.epsilon);
  step.gradient_scale = static_cast<float>(task.step.gradient_scale);
  step.correction1 = static_cast<float>(1 - power(options_.beta1, task.step.step));
  step.correction2 = static_cast<float>(1 - power(options_.beta2, task.step.step));
  const float* gradient = found->second.gradient.data();
  for (const auto& parameter : layout_.parameters) {
    const std::uint64_t first = std::max(parameter.offset, task.range.begin);
    const std::uint64_t last = std::min(parameter.offset + parameter.size, task.range.end);
    if (first >= last) continue;
    step.decay = parameter.decay ? static_cast<float>(options_.weight_decay) : 0.0f;
    parallel_for(last - first, kGrain, [&](std::size_t begin, std::size_t end) {
      kernels().adamw(state_.weights.data(), state_.first.data(), state_.second.data(), gradient, step, first + begin,
                      first + end);
    });
  }
  const auto weights = std::span<const float>(state_.weights).subspan(task.range.begin, task.range.size());
  if (!all_finite(weights.data(), weights.size())) return Error{"the step made weights that are not finite"};
  result.hash = model::hash_floats(weights);
  return {};
}

void StageStore::forget(Iteration last) {
  sums_.erase(sums_.begin(), sums_.upper_bound(last));
  results_.erase(results_.begin(), results_.upper_bound(last));
  while (!held_.empty() && std::get<0>(held_.begin()->first) <= last) held_.erase(held_.begin());
}

void StageStore::read_state(swarm::Range range, swarm::TaskResult& result) const {
  const std::size_t bytes = range.size() * 4;
  auto out = make_buffer(3 * bytes);
  std::memcpy(out->data(), state_.weights.data() + range.begin, bytes);
  std::memcpy(out->data() + bytes, state_.first.data() + range.begin, bytes);
  std::memcpy(out->data() + 2 * bytes, state_.second.data() + range.begin, bytes);
  result.output = std::move(out);
}

Result<void> StageStore::write_state(const swarm::Task& task) {
  const std::size_t bytes = task.range.size() * 4;
  if (payload_size(task.input) != 3 * bytes) return Error{"a piece of state has not the size of its range"};
  if (!all_finite(floats(task.input), task.range.size() * 3)) return Error{"a piece of state is not finite"};
  const auto* from = task.input->data();
  std::memcpy(state_.weights.data() + task.range.begin, from, bytes);
  std::memcpy(state_.first.data() + task.range.begin, from + bytes, bytes);
  std::memcpy(state_.second.data() + task.range.begin, from + 2 * bytes, bytes);
  return {};
}

}  // namespace tributary::node
