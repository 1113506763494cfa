#include "node/process.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "text/files.h"

namespace tributary::node {
namespace {

constexpr std::size_t kMostAddresses = 16384;
constexpr std::size_t kMostNamed = 16;
constexpr auto kDiskPause = std::chrono::seconds(1);
constexpr Duration kSlowHandler = milliseconds(5);
constexpr std::uint64_t kMostLogBytes = std::uint64_t{64} << 20;

const char* name_of(swarm::Node::Phase phase) {
  static constexpr const char* kNames[] = {"looking-for-a-place", "loading", "joining", "working", "finishing", "gone"};
  return kNames[static_cast<int>(phase)];
}

const char* name_of(swarm::TaskKind kind) {
  static constexpr const char* kNames[] = {"embed",      "forward",     "head",    "backward", "embed-backward",
                                           "fold",       "discard",     "retract", "partial",  "sum-share",
                                           "set",        "finish",      "apply",   "forget",   "init",
                                           "read-state", "write-state", "save",    "load",     "evaluate"};
  return kNames[static_cast<int>(kind)];
}

std::uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::filesystem::path log_path(const std::filesystem::path& folder) { return folder / "log"; }

}  // namespace

std::filesystem::path status_path(const std::filesystem::path& folder) { return folder / "status.json"; }

Result<wire::DurableLog> load_log(const std::filesystem::path& folder) {
  if (!std::filesystem::exists(log_path(folder))) return wire::DurableLog{};
  const auto bytes = text::read_file(log_path(folder), kMostLogBytes);
  if (!bytes) return bytes.error();
  constexpr std::size_t kSumBytes = 8;
  const auto all = std::as_bytes(std::span(bytes->data(), bytes->size()));
  std::uint64_t sum = 0;
  if (all.size() >= kSumBytes) std::memcpy(&sum, all.data(), kSumBytes);
  const auto body = all.subspan(std::min(kSumBytes, all.size()));
  auto log = wire::decode_log(body);
  if (all.size() < kSumBytes || sum != checksum64(body) || !log)
    return Error{
        "the decision log " + log_path(folder).string() +
        " is damaged. Restore it from a copy; or, if no other voter of the run has a whole one, remove the file on "
        "all voters: the run then goes on from its newest checkpoint"};
  return std::move(*log);
}

Process::Process(ProcessOptions options) : options_(std::move(options)), began_(std::chrono::steady_clock::now()) {}

Process::~Process() = default;

Time Process::now() const {
  return Time(std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - began_) + seconds(1));
}

void Process::post(Closure closure) {
  {
    const std::lock_guard lock(mutex_);
    inbox_.push_back(std::move(closure));
  }
  wake_.notify_all();
}

void Process::ask_to_leave() {
  post([this] { handle(swarm::LeaveAsked{}); });
}
void Process::ask_to_halt() {
  post([this] { handle(swarm::HaltAsked{}); });
}
void Process::stop_now() {
  stopped_ = true;
  wake_.notify_all();
}

void Process::set_black_hole(bool on) {
  post([this, on] {
    log::info("black-hole", {{"on", on}});
    transport_->set_blackhole(on);
  });
}

std::vector<net::Address> Process::known_addresses() const {
  std::vector<net::Address> out;
  for (const auto& [node, address] : addresses_)
    if (node != options_.node.self) out.push_back(address);
  return out;
}

// --- Protocol thread -------------------------------------------------------------------------------------------------

Result<swarm::Exit> Process::run() {
  auto log = load_log(options_.folder);
  if (!log) return log.error();
  options_.transport.node = options_.node.self;
  options_.transport.incarnation = options_.node.incarnation;
  net::Callbacks callbacks;
  callbacks.executor = [this](Closure closure) { post(std::move(closure)); };
  callbacks.on_message = [this](NodeId from, Incarnation, net::Message message) {
    on_message(from, std::move(message));
  };
  callbacks.on_peer_up = [this](const net::PeerInfo& peer) { on_peer_up(peer); };
  callbacks.on_peer_down = [this](NodeId peer, Incarnation, const std::string& reason) {
    log::info("peer-down", {{"peer", peer}, {"reason", reason}});
    on_peer_down(peer);
  };
  callbacks.on_dial_failed = [this](const net::DialFailure& failure) {
    const auto level = failure.rejected ? log::Level::kError : log::Level::kInfo;
    log::event(level, "dial-failed", {{"address", net::to_string(failure.address)}, {"reason", failure.reason}});
    if (failure.node) on_peer_down(*failure.node);
    if (failure.rejected && connected_.empty() && !exit_)
      exit_ = swarm::Exit{swarm::ExitReason::kRefused,
                          net::to_string(failure.address) + " turned this node away: " + failure.reason};
  };
  callbacks.on_link_measured = [this](NodeId peer, double bytes_per_s) {
    handle(swarm::LinkMeasured{peer, bytes_per_s});
  };
  transport_ = std::make_unique<net::Transport>(options_.transport, callbacks);
  if (auto listening = transport_->listen(); !listening) return listening.error();
  addresses_[options_.node.self] = {options_.transport.listen_host, transport_->port()};
  node_ = std::make_unique<swarm::Node>(options_.node, *log, now());
  compute_thread_ = std::jthread([this](std::stop_token stop) { compute_loop(stop); });
  store_thread_ = std::jthread([this](std::stop_token stop) { store_loop(stop); });
  for (const auto& seed : options_.seeds) transport_->connect_seed(seed);
  handle(swarm::Woken{});
  if (auto written = write_status(name_of(node_->phase())); !written) fault_message_ = written.error().message;

  while (!exit_ && !stopped_ && !fault_) {
    std::deque<Closure> inbox;
    {
      std::unique_lock lock(mutex_);
      if (inbox_.empty() && !stopped_ && !fault_) {
        const auto until = std::min({node_->next_wake(), status_at_, now() + seconds(1)});
        wake_.wait_until(lock, began_ + (until.time_since_epoch() - seconds(1)),
                         [&] { return !inbox_.empty() || stopped_ || fault_; });
      }
      inbox.swap(inbox_);
    }
    for (auto& closure : inbox) {
      closure();
      if (exit_) break;
    }
    if (exit_) break;
    if (now() >= node_->next_wake()) handle(swarm::Woken{});
    if (now() >= status_at_) {
      status_at_ = now() + options_.status_every;
      (void)write_status(name_of(node_->phase()));
    }
  }
  const auto reason = exit_ ? exit_->reason : swarm::ExitReason::kStopped;
  transport_->flush(seconds(2));
  transport_->stop();
  compute_thread_ = {};
  store_thread_ = {};
  const bool good = reason != swarm::ExitReason::kStopped && reason != swarm::ExitReason::kRefused;
  (void)write_status(good ? (reason == swarm::ExitReason::kLeft ? "left" : "finished") : "stopped");
  if (fault_) {
    const std::lock_guard lock(mutex_);
    return Error{fault_message_};
  }
  return exit_ ? *exit_ : swarm::Exit{swarm::ExitReason::kStopped, "stopped"};
}

void Process::handle(const swarm::Event& event) {
  if (exit_) return;
  std::vector<swarm::Effect> effects;
  const auto begin = now();
  const auto index = node_->ledger().index;
  const auto repairs = node_->counters().repairs;
  node_->handle(begin, event, effects);
  if (const auto took = now() - begin; took > kSlowHandler)
    log::warning("slow-handler", {{"event", event.index()}, {"ms", to_seconds(took) * 1e3}});
  if (node_->ledger().index != index)
    log::debug("ledger", {{"index", node_->ledger().index}, {"iteration", node_->ledger().iteration}});
  for (auto& effect : effects) carry_out(effect);
  if (node_->counters().repairs > repairs) {
    log::info("led-round", {{"hops", node_->counters().repairs - repairs}});
    options_.on_repaired();
  }
}

// A payload that leaves a node which the plan did not name for it: a dead one's microbatch moves again.
void Process::note_stand_in(const wire::Body& body) const {
  const auto note = [&](std::uint16_t own_part, MicrobatchId microbatch) {
    const auto& paths = node_->ledger().plan.paths;
    if (microbatch.value() >= paths.size() || own_part >= paths[microbatch.value()].size()) return;
    if (paths[microbatch.value()][own_part] == options_.node.self) return;
    log::info("stand-in", {{"iteration", node_->ledger().iteration}, {"microbatch", microbatch}, {"part", own_part}});
  };
  if (const auto* forward = std::get_if<wire::Forward>(&body)) {
    note(static_cast<std::uint16_t>(forward->part.value() - 1), forward->microbatch);
  } else if (const auto* backward = std::get_if<wire::Backward>(&body)) {
    note(static_cast<std::uint16_t>(backward->part.value() + 1), backward->microbatch);
  }
}

void Process::carry_out(swarm::Effect& effect) {
  if (auto* send = std::get_if<swarm::Send>(&effect)) {
    const auto to = send->to;
    note_stand_in(send->message.body);
    net::Message message{wire::encode(send->message.body), std::move(send->message.payload)};
    // Refused: no way there, or no room. The protocol treats both as a peer that cannot be reached now.
    if (!transport_->send(to, std::move(message))) post([this, to] { handle(swarm::PeerDown{to}); });
  } else if (auto* run = std::get_if<swarm::RunTask>(&effect)) {
    log::debug(
        "task",
        {{"kind", name_of(run->task.kind)}, {"iteration", run->task.iteration}, {"microbatch", run->task.microbatch}});
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(run->task));
    }
    wake_.notify_all();
  } else if (auto* store = std::get_if<swarm::StoreLog>(&effect)) {
    {
      const std::lock_guard lock(mutex_);
      stores_.push_back(std::move(*store));
    }
    wake_.notify_all();
  } else if (auto* applied = std::get_if<swarm::Applied>(&effect)) {
    options_.on_applied(*applied);
  } else if (auto* evaluated = std::get_if<swarm::Evaluated>(&effect)) {
    options_.on_evaluated(*evaluated);
  } else if (auto* distrusted = std::get_if<swarm::Distrusted>(&effect)) {
    ++bad_tensors_[distrusted->peer];
    log::warning("bad-tensor", {{"peer", distrusted->peer}, {"why", distrusted->why}});
    transport_->disconnect(distrusted->peer, distrusted->why);
  } else if (auto* exit = std::get_if<swarm::Exit>(&effect)) {
    exit_ = *exit;
  }
}

void Process::on_message(NodeId from, net::Message message) {
  auto body = wire::decode(message.control);
  if (!body) {
    ++bad_messages_;
    log::warning("bad-message", {{"peer", from}, {"why", body.error().message}});
    transport_->disconnect(from, body.error().message);
    return;
  }
  if (const auto* told = std::get_if<wire::Addresses>(&*body)) {
    for (const auto& entry : told->entries) {
      if (entry.node == options_.node.self || connected_.contains(entry.node)) continue;
      if (addresses_.size() >= kMostAddresses && !addresses_.contains(entry.node)) break;
      addresses_[entry.node] = {entry.host, entry.port};
      transport_->set_address(entry.node, {entry.host, entry.port});
    }
    return;
  }
  handle(swarm::Received{from, {std::move(*body), std::move(message.payload)}});
}

// Discovery: whoever connects learns all addresses that are known here, and the others learn of it.
void Process::on_peer_up(const net::PeerInfo& peer) {
  log::info("peer-up",
            {{"peer", peer.node}, {"incarnation", peer.incarnation}, {"address", net::to_string(peer.address)}});
  connected_.insert(peer.node);
  tell_addresses(peer.node);
  const auto known = addresses_.find(peer.node);
  const bool news = peer.address.port != 0 && (known == addresses_.end() || known->second.port != peer.address.port ||
                                               known->second.host != peer.address.host);
  if (news) {
    addresses_[peer.node] = peer.address;
    const wire::Addresses one{{{peer.node, peer.address.host, peer.address.port}}};
    for (const auto other : connected_)
      if (other != peer.node) transport_->send(other, {wire::encode(one), nullptr});
  }
  handle(swarm::PeerUp{peer.node});
}

void Process::tell_addresses(NodeId to) {
  wire::Addresses all;
  for (const auto& [node, address] : addresses_)
    if (node != to && node != options_.node.self) all.entries.push_back({node, address.host, address.port});
  if (!all.entries.empty()) transport_->send(to, {wire::encode(all), nullptr});
}

void Process::on_peer_down(NodeId peer) {
  connected_.erase(peer);
  handle(swarm::PeerDown{peer});
}

// Each fault is told once, and its end.
void Process::disk_said(const Result<void>& done, std::string Process::*fault) {
  const auto now = done ? std::string() : done.error().message;
  if (std::exchange(this->*fault, now) == now) return;
  if (now.empty()) {
    log::info("disk-writes-again");
  } else {
    log::error("disk-fault", {{"why", now}});
    options_.on_fault(now + ". Nothing is lost meanwhile; it is tried again");
  }
}

Result<void> Process::write_status(const std::string& state) {
  const auto& ledger = node_->ledger();
  const auto& counters = node_->counters();
  const auto transported = transport_->counters();
  std::uint64_t in = 0, out = 0;
  for (const auto& [node, peer] : transported.peers) {
    in += peer.bytes_in;
    out += peer.bytes_out;
  }
  std::uint64_t bad_tensors = 0;
  auto bad_tensors_from = nlohmann::ordered_json::array();
  for (const auto& [peer, count] : bad_tensors_) {
    bad_tensors += count;
    if (bad_tensors_from.size() < kMostNamed) bad_tensors_from.push_back(peer.value());
  }
  const nlohmann::ordered_json status = {{"id", options_.node.self.value()},
                                         {"role", options_.node.data_node ? "data node" : "relay"},
                                         {"stage", node_->stage().value()},
                                         {"state", state},
                                         {"epoch", ledger.epoch},
                                         {"iteration", ledger.iteration.value()},
                                         {"leader", node_->leader().value()},
                                         {"leading", node_->leading()},
                                         {"address", net::to_string(addresses_.at(options_.node.self))},
                                         {"pid", ::getpid()},
                                         {"incarnation", node_->incarnation().value()},
                                         {"weights_hash", std::to_string(node_->weights_hash())},
                                         {"slots", options_.node.slots},
                                         {"resident_mib", resident_bytes() >> 20},
                                         {"memory_mib", options_.memory_budget >> 20},
                                         {"upload_mbps", options_.transport.upload_bytes_per_s * 8e-6},
                                         {"download_mbps", options_.transport.download_bytes_per_s * 8e-6},
                                         {"bytes_in", in},
                                         {"bytes_out", out},
                                         {"repairs", counters.repairs},
                                         {"replays", counters.replays},
                                         {"retractions", counters.retractions},
                                         {"rejoins", counters.rejoins},
                                         {"rewinds", counters.rewinds},
                                         {"false_suspicions", counters.false_suspicions},
                                         {"bad_frames", transported.bad_frames + bad_messages_},
                                         {"bad_tensors", bad_tensors},
                                         {"bad_tensors_from", bad_tensors_from},
                                         {"strangers", transported.rejected},
                                         {"fault", log_fault_.empty() ? save_fault_ : log_fault_},
                                         {"why", node_->why_waiting()},
                                         {"waits", node_->describe()}};
  auto text = status.dump(1);
  if (text == status_written_) return {};
  status_written_ = text;
  return text::write_file(status_path(options_.folder), text + "\n");
}

// --- Compute and store threads ---------------------------------------------------------------------------------------

void Process::compute_loop(std::stop_token stop) {
  auto compute = options_.make_compute();
  if (!compute) {
    {
      const std::lock_guard lock(mutex_);
      fault_message_ = compute.error().message;
    }
    fault_ = true;
    wake_.notify_all();
    return;
  }
  while (true) {
    swarm::Task task;
    {
      std::unique_lock lock(mutex_);
      if (!wake_.wait(lock, stop, [&] { return !tasks_.empty(); })) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    const auto begin = std::chrono::steady_clock::now();
    auto result = (*compute)->run(task);
    if (!result.ok) log::warning("task-failed", {{"kind", static_cast<int>(task.kind)}, {"why", result.error}});
    if (options_.slowness > 1) {
      const auto took = std::chrono::steady_clock::now() - begin;
      std::unique_lock lock(mutex_);
      const auto until = begin + std::chrono::duration_cast<Duration>(took * options_.slowness);
      wake_.wait_until(lock, stop, until, [] { return false; });
    }
    if (stop.stop_requested()) return;
    if (task.kind == swarm::TaskKind::kSave) {
      auto saved = result.ok ? Result<void>() : Result<void>(Error{result.error});
      post([this, saved = std::move(saved)] { disk_said(saved, &Process::save_fault_); });
    }
    post([this, result = std::move(result)] { handle(swarm::Computed{result}); });
  }
}

Result<void> Process::write_log(const wire::DurableLog& log) const {
  const auto body = wire::encode_log(log);
  const auto sum = checksum64(body);
  std::string bytes(reinterpret_cast<const char*>(&sum), sizeof sum);
  bytes.append(reinterpret_cast<const char*>(body.data()), body.size());
  return text::write_file(log_path(options_.folder), bytes);
}

void Process::store_loop(std::stop_token stop) {
  while (true) {
    swarm::StoreLog store;
    {
      std::unique_lock lock(mutex_);
      if (!wake_.wait(lock, stop, [&] { return !stores_.empty(); })) return;
      store = std::move(stores_.back());  // it contains the earlier ones
      stores_.clear();
    }
    auto written = write_log(store.log);
    post([this, written] { disk_said(written, &Process::log_fault_); });
    if (!written) {
      // Without its log a voter may not vote, but the run's state is still whole in memory: it waits for the disk.
      std::unique_lock lock(mutex_);
      if (stores_.empty()) stores_.push_back(std::move(store));
      wake_.wait_for(lock, stop, kDiskPause, [] { return false; });
      if (stop.stop_requested()) return;
      continue;
    }
    post([this, sequence = store.sequence] { handle(swarm::Stored{sequence}); });
  }
}

}  // namespace tributary::node
