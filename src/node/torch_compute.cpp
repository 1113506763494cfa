#include "node/torch_compute.h"

#include <optional>

#include "model/kernels.h"
#include "model/parallel.h"
#include "model/stage.h"
#include "node/stage_store.h"
#include "node/wire_encoding.h"

namespace tributary::node {
namespace {

using swarm::BadInput;
using swarm::Task;
using swarm::TaskKind;
using swarm::TaskResult;

// A forward pass waiting for its backward pass.
struct KeptGraph {
  Payload input;
  model::StageSaved saved;
};

bool same_bytes(const Payload& a, const Payload& b) {
  return a == b || (a && b && a->size() == b->size() && std::memcmp(a->data(), b->data(), a->size()) == 0);
}

// The stage's mathematics with its state.
struct Held {
  Held(const ComputeOptions& options, StageId stage) : store(options, stage) {
    const model::StageOptions stage_options{options.config,
                                            options.cut,
                                            stage,
                                            options.precision,
                                            {options.batch, options.sequence},
                                            options.recompute_activations,
                                            at::Device(options.device)};
    if (stage.value() == 0) {
      end.emplace(stage_options);
    } else {
      blocks.emplace(stage_options);
    }
  }
  // The weights have changed: graphs of older ones are of no use, and the compute copies must be made anew.
  void touch() {
    stale = true;
    graphs.clear();
  }
  void refresh() {
    if (!stale) return;
    if (end) end->set_weights(store.state().weights.data());
    if (blocks) blocks->set_weights(store.state().weights.data());
    stale = false;
  }
  StageStore store;
  std::optional<model::EndStage> end;
  std::optional<model::BlockStage> blocks;
  std::map<std::pair<Iteration, MicrobatchId>, KeptGraph> graphs;
  bool stale = true;
};

}  // namespace

struct TorchCompute::Implementation {
  explicit Implementation(ComputeOptions given) : options(std::move(given)) {}

  ComputeOptions options;
  std::map<StageId, std::unique_ptr<Held>> stages;

  std::int64_t rows() const { return static_cast<std::int64_t>(options.batch) * options.sequence; }
  model::CheckpointKey checkpoint_key() const { return {options.checkpoints, options.config, options.cut}; }

  Held* find(StageId stage) {
    const auto found = stages.find(stage);
    return found == stages.end() ? nullptr : found->second.get();
  }
  Held& make(StageId stage) {
    if (!options.hold_all && !stages.contains(stage)) stages.clear();
    auto& held = stages[stage];
    if (!held) held = std::make_unique<Held>(options, stage);
    held->touch();
    return *held;
  }

  Result<Payload> encode(const at::Tensor& tensor) const;
  // An input that is not what it must be is marked in the result.
  Result<at::Tensor> decode(const Payload& payload, BadInput which, TaskResult& result) const;
  Result<void> run(const Task& task, TaskResult& result);
  Result<void> pipeline(const Task& task, Held& held, TaskResult& result, model::Gradients* retracted);
  Result<void> forward(const Task& task, Held& held, TaskResult& result);
  Result<void> backward(const Task& task, Held& held, TaskResult& result, model::Gradients& gradients);
  Result<void> head(const Task& task, Held& held, TaskResult& result, model::Gradients& gradients);
  Result<void> retract(const Task& task, Held& held);
  Result<void> evaluate(const Task& task, Held& held, TaskResult& result);
  Result<void> replace_state(const Task& task, TaskResult& result);
  std::vector<text::Token> columns(const std::vector<text::Token>& windows, std::size_t first_row,
                                   std::size_t first_column) const;
};

Result<Payload> TorchCompute::Implementation::encode(const at::Tensor& tensor) const {
  return encode_tensor(tensor.to(at::kCPU).contiguous(), options.wire);
}

Result<at::Tensor> TorchCompute::Implementation::decode(const Payload& payload, BadInput which,
                                                        TaskResult& result) const {
  auto tensor =
      decode_tensor(payload, options.wire, rows(), options.config.hidden, model::scalar_type(options.precision));
  if (tensor) return tensor->to(at::Device(options.device));
  result.bad_input = which;
  return Error{std::string(which == BadInput::kInput ? "the activation " : "the gradient ") + tensor.error().message};
}

// [batch, sequence] out of windows of sequence + 1 tokens: inputs from column 0, targets from column 1.
std::vector<text::Token> TorchCompute::Implementation::columns(const std::vector<text::Token>& windows,
                                                               std::size_t first_row, std::size_t first_column) const {
  std::vector<text::Token> out;
  out.reserve(static_cast<std::size_t>(rows()));
  for (std::size_t row = first_row; row < first_row + options.batch; ++row) {
    const auto* begin = windows.data() + row * (options.sequence + 1ull) + first_column;
    out.insert(out.end(), begin, begin + options.sequence);
  }
  return out;
}

Result<void> TorchCompute::Implementation::forward(const Task& task, Held& held, TaskResult& result) {
  auto x = decode(task.input, BadInput::kInput, result);
  if (!x) return x.error();
  KeptGraph graph{task.input, {}};
  const bool keep = options.kept_graphs > 0;
  auto output = encode(held.blocks->forward(*x, keep ? &graph.saved : nullptr));
  if (!output) return output.error();
  result.output = std::move(*output);
  if (!keep) return {};
  held.graphs[{task.iteration, task.microbatch}] = std::move(graph);
  while (held.graphs.size() > options.kept_graphs) held.graphs.erase(held.graphs.begin());
  return {};
}

Result<void> TorchCompute::Implementation::backward(const Task& task, Held& held, TaskResult& result,
                                                    model::Gradients& gradients) {
  auto dy = decode(task.gradient, BadInput::kGradient, result);
  if (!dy) return dy.error();
  KeptGraph graph;
  const auto kept = held.graphs.find({task.iteration, task.microbatch});
  if (kept != held.graphs.end() && same_bytes(kept->second.input, task.input)) {
    graph = std::move(kept->second);
    held.graphs.erase(kept);
  } else {
    auto x = decode(task.input, BadInput::kInput, result);
    if (!x) return x.error();
    held.blocks->forward(*x, &graph.saved);
  }
  auto output = encode(held.blocks->backward(graph.saved, *dy, gradients));
  if (!output) return output.error();
  result.output = std::move(*output);
  return {};
}

Result<void> TorchCompute::Implementation::head(const Task& task, Held& held, TaskResult& result,
                                                model::Gradients& gradients) {
  auto x = decode(task.input, BadInput::kInput, result);
  if (!x) return x.error();
  const auto targets = columns(options.tokens(task.iteration, task.microbatch), 0, 1);
  const double scale = 1.0 / (static_cast<double>(options.microbatches) * static_cast<double>(rows()));
  auto head = held.end->head(*x, targets.data(), scale, gradients);
  if (!std::isfinite(head.loss)) return Error{"the loss is not finite"};
  auto output = encode(head.dx);
  if (!output) return output.error();
  result.output = std::move(*output);
  result.loss = head.loss;
  result.tokens = static_cast<std::uint64_t>(rows());
  return {};
}

// The five tasks that move a microbatch. `retracted` takes the contribution instead of the store, if given.
Result<void> TorchCompute::Implementation::pipeline(const Task& task, Held& held, TaskResult& result,
                                                    model::Gradients* retracted) {
  held.refresh();
  model::Gradients gradients;
  PartId part(task.stage.value());
  if (task.kind == TaskKind::kEmbed) {
    const auto inputs = columns(options.tokens(task.iteration, task.microbatch), 0, 0);
    auto output = encode(held.end->embed(inputs.data()));
    if (!output) return output.error();
    result.output = std::move(*output);
    return {};
  }
  if (task.kind == TaskKind::kForward) return forward(task, held, result);
  if (task.kind == TaskKind::kHead) {
    part = PartId(static_cast<std::uint16_t>(options.cut.stages() + 1));
    if (auto done = head(task, held, result, gradients); !done) return done;
  } else if (task.kind == TaskKind::kBackward) {
    if (auto done = backward(task, held, result, gradients); !done) return done;
  } else {
    auto dx = decode(task.gradient, BadInput::kGradient, result);
    if (!dx) return dx.error();
    const auto inputs = columns(options.tokens(task.iteration, task.microbatch), 0, 0);
    held.end->embed_backward(inputs.data(), *dx, gradients);
  }
  for (auto& piece : gradients) piece.values = piece.values.to(at::kCPU).contiguous();
  if (auto checked = held.store.check(gradients); !checked) return checked;
  if (retracted) {
    *retracted = std::move(gradients);
  } else {
    held.store.hold(task.iteration, task.microbatch, part, std::move(gradients));
  }
  return {};
}

Result<void> TorchCompute::Implementation::retract(const Task& task, Held& held) {
  Task again = task;
  if (task.stage.value() > 0) {
    again.kind = TaskKind::kBackward;
  } else {
    again.kind = task.part.value() == 0 ? TaskKind::kEmbedBackward : TaskKind::kHead;
  }
  TaskResult unused;
  model::Gradients gradients;
  if (auto done = pipeline(again, held, unused, &gradients); !done) return done;
  held.store.subtract(task.iteration, gradients);
  return {};
}

Result<void> TorchCompute::Implementation::evaluate(const Task& task, Held& held, TaskResult& result) {
  held.refresh();
  const bool first = task.stage.value() == 0;
  std::vector<text::Token> windows;
  if (first) {
    if (!options.held_out) return Error{"only a data node with its text evaluates"};
    windows = options.held_out(task.microbatch.value());
    if (windows.size() != options.batch * (options.sequence + 1ull))
      return Error{"there is no held-out batch " + to_string(task.microbatch)};
  }
  at::Tensor x;
  if (task.part.value() > 0) {
    auto input = decode(task.input, BadInput::kInput, result);
    if (!input) return input.error();
    x = std::move(*input);
  }
  if (first && task.part.value() > 0) {
    result.loss = held.end->loss(x, columns(windows, 0, 1).data());
    result.tokens = static_cast<std::uint64_t>(rows());
    return {};
  }
  auto output = encode(first ? held.end->embed(columns(windows, 0, 0).data()) : held.blocks->forward(x, nullptr));
  if (!output) return output.error();
  result.output = std::move(*output);
  return {};
}

// A state that begins anew takes nothing along: after a rewind the sums and results of iterations that come again are
// still here.
Result<void> TorchCompute::Implementation::replace_state(const Task& task, TaskResult& result) {
  if (task.kind == TaskKind::kLoad) {
    auto state = model::load_checkpoint(checkpoint_key(), task.iteration, task.stage);
    if (!state) return state.error();
    stages.erase(task.stage);
    auto& held = make(task.stage);
    held.store.state() = std::move(*state);
    result.hash = model::hash_floats(held.store.state().weights);
    return {};
  }
  if (task.kind == TaskKind::kInit) stages.erase(task.stage);
  auto& held = make(task.stage);
  if (task.kind == TaskKind::kInit) {
    held.store.initialise(options.seed);
    result.hash = model::hash_floats(held.store.state().weights);
    return {};
  }
  if (auto checked = held.store.check(task.range); !checked) return checked;
  return held.store.write_state(task);
}

Result<void> TorchCompute::Implementation::run(const Task& task, TaskResult& result) {
  if (task.stage.value() > options.cut.stages()) return Error{"there is no stage " + to_string(task.stage)};
  if (task.kind == TaskKind::kInit || task.kind == TaskKind::kLoad || task.kind == TaskKind::kWriteState) {
    return replace_state(task, result);
  }
  Held* held = find(task.stage);
  if (!held) return Error{"stage " + to_string(task.stage) + " is not held here"};
  StageStore& store = held->store;
  if (auto checked = store.check(task.range); !checked) return checked;
  const bool first = task.stage.value() == 0;
  switch (task.kind) {
    case TaskKind::kEmbed:
    case TaskKind::kHead:
    case TaskKind::kEmbedBackward:
      if (!first || !options.tokens) return Error{"only a data node with its text does this task"};
      return pipeline(task, *held, result, nullptr);
    case TaskKind::kForward:
    case TaskKind::kBackward:
      if (first) return Error{"stage 0 has no blocks"};
      return pipeline(task, *held, result, nullptr);
    case TaskKind::kEvaluate:
      return evaluate(task, *held, result);
    case TaskKind::kFold:
      return store.fold(task.iteration, task.microbatch, task.part);
    case TaskKind::kDiscard:
      store.discard(task.iteration, task.microbatch, task.part);
      return {};
    case TaskKind::kRetract:
      return retract(task, *held);
    case TaskKind::kPartial:
      store.partial(task, result);
      return {};
    case TaskKind::kSumShare:
      return store.sum_share(task, result);
    case TaskKind::kSetResult:
      return store.set_result(task);
    case TaskKind::kFinishResult:
      return store.finish_result(task.iteration, result);
    case TaskKind::kApply:
      held->touch();
      return store.apply(task, result);
    case TaskKind::kForget:
      store.forget(task.iteration);
      std::erase_if(held->graphs, [&](const auto& graph) { return graph.first.first <= task.iteration; });
      return {};
    case TaskKind::kReadState:
      store.read_state(task.range, result);
      return {};
    case TaskKind::kSave: {
      auto saved = model::save_checkpoint(checkpoint_key(), task.iteration, task.stage, store.state());
      if (!saved) return saved.error();
      result.hash = *saved;
      return {};
    }
    default:
      return Error{"an unknown task"};
  }
}

std::uint64_t ComputeOptions::payload_bytes() const {
  return encoded_bytes(wire, std::uint64_t{batch} * sequence * config.hidden);
}

std::string devices_here() { return at::hasCUDA() ? "cpu, cuda" : "cpu"; }

Result<std::unique_ptr<TorchCompute>> TorchCompute::create(ComputeOptions options) {
  auto faults = options.config.check();
  if (options.batch == 0 || options.sequence == 0 || options.microbatches == 0) {
    faults.emplace_back("training.batch, training.sequence and training.microbatches must be at least 1");
  }
  if (options.device != "cpu" && options.device != "cuda") {
    faults.push_back("training.device is \"" + options.device + "\"; it must be \"cpu\" or \"cuda\"");
  } else if (options.device == "cuda" && !at::hasCUDA()) {
    faults.emplace_back(
        "training.device is \"cuda\", but this LibTorch sees no GPU: take \"cpu\", or build with TORCH_DIR set to a "
        "LibTorch for CUDA");
  } else if (options.device == "cuda" && options.reproducible) {
    faults.emplace_back("training.reproducible needs training.device = \"cpu\": a GPU does not promise the same bits");
  }
  if (options.sequence > options.config.context) faults.emplace_back("training.sequence exceeds model.context");
  if (faults.empty()) {
    if (auto cut = model::cut_as_given(options.config, options.cut.blocks); !cut) faults.push_back(cut.error().message);
  }
  if (!faults.empty()) {
    std::string message;
    for (const auto& fault : faults) {
      if (!message.empty()) message += "; ";
      message += fault;
    }
    return Error{std::move(message)};
  }
  if (options.threads > 0) model::set_threads(options.threads);
  return std::unique_ptr<TorchCompute>(new TorchCompute(std::make_unique<Implementation>(std::move(options))));
}

TorchCompute::TorchCompute(std::unique_ptr<Implementation> implementation)
    : implementation_(std::move(implementation)) {}
TorchCompute::~TorchCompute() = default;

TaskResult TorchCompute::run(const Task& task) {
  const at::NoGradGuard no_autograd;
  TaskResult result;
  result.id = task.id;
  if (const auto done = implementation_->run(task, result); !done) {
    result.ok = false;
    result.error = done.error().message;
    result.output = nullptr;
  }
  return result;
}

std::uint64_t TorchCompute::state_size(StageId stage) const {
  return model::stage_layout(implementation_->options.config, implementation_->options.cut, stage).size;
}

}  // namespace tributary::node
