#include "sim/symbolic_compute.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace tributary::sim {

using swarm::Task;
using swarm::TaskKind;
using swarm::TaskResult;

namespace {

std::uint64_t word_of(const Payload& payload) {
  std::uint64_t word = 0;
  if (payload) std::memcpy(&word, payload->data(), std::min<std::size_t>(8, payload->size()));
  return word;
}

template <class T>
Payload payload_of(const T* data, std::size_t count) {
  return copy_payload(std::as_bytes(std::span(data, count)));
}

template <class T>
std::vector<T> vector_of(const Payload& payload) {
  std::vector<T> out(payload_size(payload) / sizeof(T));
  if (!out.empty()) std::memcpy(out.data(), payload->data(), out.size() * sizeof(T));
  return out;
}

}  // namespace

SymbolicCompute::SymbolicCompute(SymbolicOptions options, std::shared_ptr<Disk> disk)
    : options_(std::move(options)), disk_(std::move(disk)) {}

void SymbolicCompute::init(StageId stage) {
  state_.stage = stage;
  state_.words.assign(3 * state_size(stage), 0);
  for (std::size_t i = 0; i < state_size(stage); ++i)
    state_.words[i] = static_cast<std::uint32_t>(mix64(mix64(options_.seed, stage.value()), i));
  pending_.clear();
  sums_.clear();
  results_.clear();
}

std::uint64_t SymbolicCompute::weights_hash() const { return range_hash({0, state_size(state_.stage)}); }

std::uint64_t SymbolicCompute::range_hash(const swarm::Range& range) const {
  return checksum64(std::as_bytes(std::span(state_.words.data() + range.begin, range.size())));
}

std::uint64_t SymbolicCompute::mixed(const Task& task) const {
  const auto kind = task.kind == TaskKind::kRetract || task.kind == TaskKind::kFold ? TaskKind::kBackward : task.kind;
  std::uint64_t word = mix64(weights_hash(), static_cast<std::uint64_t>(kind == TaskKind::kForward));
  word = mix64(word, mix64(task.part.value(), mix64(task.iteration.value(), task.microbatch.value())));
  return mix64(mix64(word, word_of(task.input)), word_of(task.gradient));
}

SymbolicCompute::Vector SymbolicCompute::contribution(const Task& task) const {
  Task copy = task;
  copy.kind = TaskKind::kBackward;
  const auto word = mixed(copy);
  Vector out(state_size(state_.stage));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = mix64(word, i);
  return out;
}

void SymbolicCompute::apply(const Task& task) {
  const auto& result = results_[task.iteration];
  const auto size = state_size(state_.stage);
  const auto knobs = mix64(mix64(std::bit_cast<std::uint64_t>(task.step.learning_rate), task.step.step),
                           std::bit_cast<std::uint64_t>(task.step.gradient_scale));
  for (auto i = task.range.begin; i < task.range.end; ++i) {
    auto& first = state_.words[size + i];
    auto& second = state_.words[2 * size + i];
    first = first * 3 + result.at(i);
    second = std::rotl(second, 5) ^ result.at(i);
    state_.words[i] += first * 5 + second + static_cast<std::uint32_t>(knobs);
  }
}

TaskResult SymbolicCompute::run(const Task& task) {
  TaskResult out;
  out.id = task.id;
  if (task.kind != TaskKind::kLoad &&
      (task.kind == TaskKind::kInit || state_.words.empty() || state_.stage != task.stage)) {
    init(task.stage);
    out.hash = weights_hash();
    if (task.kind == TaskKind::kInit) return out;
  }
  const auto size = state_size(state_.words.empty() ? task.stage : state_.stage);
  const auto key = std::tuple(task.iteration, task.microbatch, task.part);
  const auto& range = task.range;
  switch (task.kind) {
    case TaskKind::kEmbed:
    case TaskKind::kForward:
    case TaskKind::kHead:
    case TaskKind::kBackward:
    case TaskKind::kEmbedBackward: {
      const bool backward = task.kind == TaskKind::kBackward || task.kind == TaskKind::kEmbedBackward;
      out.ok = !options_.not_finite(task.iteration, task.microbatch, task.part, backward);
      if (!out.ok) {
        out.error = "not finite";
        break;
      }
      const auto word = mixed(task);
      out.output = payload_of(&word, 1);
      if (task.kind == TaskKind::kEmbed || task.kind == TaskKind::kForward) break;
      pending_[key] = contribution(task);
      out.loss = static_cast<double>(word % 1000) / 100;
      out.tokens = 1;
      break;
    }
    case TaskKind::kEvaluate: {
      const auto word =
          mix64(mix64(weights_hash(), task.part.value()), mix64(task.microbatch.value(), word_of(task.input)));
      out.output = payload_of(&word, 1);
      out.loss = static_cast<double>(word % 1000) / 100;
      out.tokens = 1;
      break;
    }
    case TaskKind::kFold: {
      const auto at = pending_.find(key);
      TRIBUTARY_CHECK(at != pending_.end(), "fold without a contribution");
      auto& sum = sums_[task.iteration];
      sum.resize(size);
      for (std::size_t i = 0; i < size; ++i) sum[i] += at->second[i];
      pending_.erase(at);
      break;
    }
    case TaskKind::kDiscard:
      pending_.erase(key);
      break;
    case TaskKind::kRetract: {
      const auto vector = contribution(task);
      auto& sum = sums_[task.iteration];
      sum.resize(size);
      for (std::size_t i = 0; i < size; ++i) sum[i] -= vector[i];
      break;
    }
    case TaskKind::kPartial: {
      auto& sum = sums_[task.iteration];
      sum.resize(size);
      out.output = payload_of(sum.data() + range.begin, range.size());
      break;
    }
    case TaskKind::kSumShare: {
      Vector total(range.size());
      for (const auto& input : task.inputs) {
        const auto partial = vector_of<std::uint64_t>(input);
        for (std::size_t i = 0; i < total.size(); ++i) total[i] += partial.at(i);
      }
      std::vector<std::uint32_t> result(range.size());
      for (std::size_t i = 0; i < total.size(); ++i) {
        result[i] = static_cast<std::uint32_t>(mix64(total[i]));
        if (options_.rounding != 0) result[i] ^= mix64(options_.rounding, range.begin + i) & 1;
      }
      out.output = payload_of(result.data(), result.size());
      break;
    }
    case TaskKind::kSetResult: {
      const auto piece = vector_of<std::uint32_t>(task.input);
      auto& result = results_[task.iteration];
      result.resize(size);
      std::copy(piece.begin(), piece.end(), result.begin() + static_cast<std::ptrdiff_t>(range.begin));
      break;
    }
    case TaskKind::kFinishResult: {
      const auto& result = results_[task.iteration];
      out.hash = checksum64(std::as_bytes(std::span(result)));
      out.sum_squares = static_cast<double>(out.hash % 1009) / 64;
      break;
    }
    case TaskKind::kApply:
      apply(task);
      out.hash = range_hash(range);
      break;
    case TaskKind::kForget:
      std::erase_if(pending_, [&](const auto& entry) { return std::get<0>(entry.first) <= task.iteration; });
      std::erase_if(sums_, [&](const auto& entry) { return entry.first <= task.iteration; });
      std::erase_if(results_, [&](const auto& entry) { return entry.first <= task.iteration; });
      break;
    case TaskKind::kReadState: {
      std::vector<std::uint32_t> words;
      for (std::size_t block = 0; block < 3; ++block)
        for (auto i = range.begin; i < range.end; ++i) words.push_back(state_.words[block * size + i]);
      out.output = payload_of(words.data(), words.size());
      break;
    }
    case TaskKind::kWriteState: {
      const auto words = vector_of<std::uint32_t>(task.input);
      for (std::size_t block = 0; block < 3; ++block)
        for (std::size_t i = 0; i < range.size(); ++i)
          state_.words[block * size + range.begin + i] = words.at(block * range.size() + i);
      break;
    }
    case TaskKind::kSave:
      disk_->checkpoints[{task.stage, task.iteration}] = state_.words;
      out.hash = weights_hash();
      break;
    case TaskKind::kLoad: {
      const auto at = disk_->checkpoints.find({task.stage, task.iteration});
      out.ok = at != disk_->checkpoints.end();
      if (!out.ok) {
        out.error = "no such checkpoint";
        break;
      }
      init(task.stage);
      state_.words = at->second;
      out.hash = weights_hash();
      break;
    }
    case TaskKind::kInit:
      break;
  }
  return out;
}

}  // namespace tributary::sim
