#include "swarm/reduction.h"

#include <algorithm>

#include "swarm/planner.h"

namespace tributary::swarm {
namespace {

// Set hash of a piece sent on request after the commit: the committed hash of the whole result vouches for it.
constexpr std::uint64_t kByCommit = 0;
constexpr std::size_t kMostRanges = 2 * kMostPieces;  // partial sums of two cuts, when a plan changes
constexpr double kUnknownRate = 1e6;                  // bytes/s, of a link that was not measured yet

}  // namespace

void Reduction::begin(StageId stage, std::uint64_t size) {
  ++generation_;
  stage_ = stage;
  size_ = size;
  orders_ = {};
  partials_.clear();
  partials_sent_.clear();
  summing_.clear();
  given_.clear();
  pieces_.clear();
  covered_ = 0;
  finishing_ = complete_ = fetching_ = owner_lost_ = false;
  hash_ = 0;
  sum_squares_ = 0;
  retries_ = 0;
  slowest_ = 0;
  due_ = awaited_stale_ = true;
}

void Reduction::reset() {
  begin(StageId(0), 0);
  kept_.clear();
}

void Reduction::drop_results() {
  const auto orders = orders_;
  begin(stage_, size_);
  orders_.term = orders.term;
  orders_.revision = orders.revision;
}

bool Reduction::receive(const wire::Orders& orders) {
  const bool newer = std::pair(orders.term, orders.revision) > std::pair(orders_.term, orders_.revision);
  if (!newer) {
    ++context_.counters.stale_orders;
    return false;
  }
  if (orders_.sealed && orders.sealed) ++context_.counters.resealed;
  progress_at_ = context_.now;
  orders_ = orders;
  owner_lost_ = false;
  due_ = awaited_stale_ = true;
  measure_links();
  return true;
}

const std::vector<std::uint32_t>* Reduction::keys_owned_by(NodeId node) const {
  for (const auto& owned : orders_.owners)
    if (owned.node == node) return &owned.keys;
  return nullptr;
}

bool Reduction::wants(std::uint32_t key) const {
  if (!orders_.sealed) return true;
  const auto* own = keys_owned_by(context_.options.self);
  return own && std::binary_search(own->begin(), own->end(), key);
}

// Makes the folded set equal to the ordered one. True if it is.
bool Reduction::reconcile() {
  static const std::vector<std::uint32_t> kNone;
  const auto* owned = keys_owned_by(context_.options.self);
  const auto& own = owned ? *owned : kNone;
  std::vector<std::uint32_t> surplus;
  for (const auto key : pipeline_.folded())
    if (!std::binary_search(own.begin(), own.end(), key)) surplus.push_back(key);
  for (const auto key : surplus) pipeline_.retract(key);
  return std::equal(own.begin(), own.end(), pipeline_.folded().begin(), pipeline_.folded().end());
}

void Reduction::advance() {
  if (!due_ || size_ == 0 || !orders_.sealed) return;
  due_ = false;
  if (complete_) {
    for (const auto& share : orders_.shares)
      if (const auto piece = pieces_.find(share.begin); piece != pieces_.end() && context_.reachable(share.owner))
        give_back(share, piece->second);
  } else {
    const auto* self = member_of(context_.ledger.plan, context_.options.self);
    if (self && !self->listener && reconcile()) send_partials();
  }
  for (const auto& share : orders_.shares) {
    if (share.owner != context_.options.self) continue;
    sum_range(share);
    give_out(share);
  }
}

const wire::Share* Reduction::own_share(std::uint64_t begin) const {
  for (const auto& share : orders_.shares)
    if (share.begin == begin && share.owner == context_.options.self) return &share;
  return nullptr;
}

std::uint64_t Reduction::full_hash() {
  const std::pair state{generation_, context_.ledger.excluded.size()};
  if (!full_hash_ || full_hash_of_ != state) {
    full_hash_ = hash_of(full_set(stage_, context_.microbatches(), context_.ledger.excluded));
    full_hash_of_ = state;
  }
  return *full_hash_;
}

void Reduction::send_partials() {
  const auto* own = keys_owned_by(context_.options.self);
  if (!own || own->empty()) return;
  const auto set_hash = hash_of(*own);
  for (const auto& share : orders_.shares) {
    if (!context_.reachable(share.owner)) continue;
    if (const auto piece = pieces_.find(share.begin); piece != pieces_.end()) {
      give_back(share, piece->second);
      continue;
    }
    // The owner keeps only the last of a sender, so a set that comes back is sent again.
    const auto [sent, first] = partials_sent_.try_emplace({share.begin, share.owner}, set_hash);
    if (!first && sent->second == set_hash) continue;
    sent->second = set_hash;
    Task task;
    task.kind = TaskKind::kPartial;
    task.stage = stage_;
    task.iteration = context_.ledger.iteration;
    task.range = {share.begin, share.end};
    context_.run(task, [this, share, keys = *own, generation = generation_](const TaskResult& result) {
      if (generation != generation_) return;
      if (share.owner == context_.options.self) {
        partials_[share.begin][share.owner] = {share.end, keys, result.output};
        if (const auto* own_range = own_share(share.begin)) sum_range(*own_range);
      } else {
        context_.send(share.owner, wire::Partial{context_.stamp(), stage_, share.begin, share.end, keys},
                      result.output);
      }
    });
  }
}

// A range that was summed by other orders, before a death: its owner of now gets the result in place of a partial sum.
void Reduction::give_back(const wire::Share& share, const Piece& piece) {
  if (piece.from == share.owner || share.owner == context_.options.self) return;
  if (!given_.insert({share.begin, share.owner}).second) return;
  context_.send(share.owner, wire::Gathered{context_.stamp(), stage_, share.begin, piece.end, full_hash()},
                piece.payload);
}

void Reduction::receive(NodeId from, const wire::Partial& message, Payload payload) {
  if (!payload || message.stage != stage_ || message.end > size_ || message.begin >= message.end ||
      !std::is_sorted(message.keys.begin(), message.keys.end()) ||
      (partials_.size() >= kMostRanges && !partials_.contains(message.begin))) {
    ++context_.counters.dropped;
    return;
  }
  partials_[message.begin][from] = {message.end, message.keys, std::move(payload)};
  if (const auto* share = own_share(message.begin)) sum_range(*share);
}

// Once its partial sums are all there, each with exactly the keys that its sender owns by the orders.
void Reduction::sum_range(const wire::Share& share) {
  if (!orders_.sealed || complete_ || pieces_.contains(share.begin) || summing_.contains(share.begin)) return;
  // Nobody owns anything when every microbatch is excluded: then the sum is zero.
  const auto& partials = partials_[share.begin];
  const auto owners = static_cast<std::size_t>(std::count_if(orders_.owners.begin(), orders_.owners.end(),
                                                             [](const auto& owned) { return !owned.keys.empty(); }));
  if (partials.size() < owners) return;
  std::vector<Payload> inputs;
  for (const auto& owned : orders_.owners) {
    if (owned.keys.empty()) continue;
    const auto partial = partials.find(owned.node);
    if (partial == partials.end() || partial->second.end != share.end ||
        (partial->second.keys != owned.keys && !context_.bugs.accept_overlapping_partials))
      return;
    inputs.push_back(partial->second.payload);
  }
  summing_.insert(share.begin);
  Task task;
  task.kind = TaskKind::kSumShare;
  task.stage = stage_;
  task.iteration = context_.ledger.iteration;
  task.range = {share.begin, share.end};
  task.inputs = std::move(inputs);
  context_.run(task, [this, share, generation = generation_](const TaskResult& result) {
    if (generation != generation_) return;
    summing_.erase(share.begin);
    add_piece(context_.options.self, share.begin, share.end, result.output);
    partials_.erase(share.begin);
    // It may be another's by now.
    if (const auto* own_range = own_share(share.begin)) {
      give_out(*own_range);
    } else {
      due_ = true;
    }
  });
}

// A range that this node owns and has complete goes to every receiver, once.
void Reduction::give_out(const wire::Share& share) {
  const auto piece = pieces_.find(share.begin);
  if (piece == pieces_.end()) return;
  const auto full = full_hash();
  for (const auto receiver : orders_.receivers) {
    if (receiver == context_.options.self || !context_.reachable(receiver)) continue;
    if (!given_.insert({share.begin, receiver}).second) continue;
    context_.send(receiver, wire::Gathered{context_.stamp(), stage_, share.begin, piece->second.end, full},
                  piece->second.payload);
  }
}

void Reduction::receive(NodeId from, const wire::Gathered& message, Payload payload) {
  if (!payload || message.stage != stage_ || message.end > size_ || message.begin >= message.end ||
      (message.set_hash != full_hash() && !(fetching_ && message.set_hash == kByCommit))) {
    ++context_.counters.dropped;
    return;
  }
  add_piece(from, message.begin, message.end, std::move(payload));
}

void Reduction::add_piece(NodeId from, std::uint64_t begin, std::uint64_t end, Payload payload) {
  const auto after = pieces_.lower_bound(begin);
  if (after != pieces_.end() && after->first < end) return;
  if (after != pieces_.begin() && std::prev(after)->second.end > begin) return;
  pieces_[begin] = {end, payload, from};
  // Else its owner gave it, and nobody needs it from here.
  const auto share =
      std::find_if(orders_.shares.begin(), orders_.shares.end(), [&](const auto& one) { return one.begin == begin; });
  const auto owner = share == orders_.shares.end() ? wire::kNobody : share->owner;
  if (owner != from) due_ = true;
  if (std::find(awaited_.begin(), awaited_.end(), owner) != awaited_.end()) awaited_stale_ = true;
  progress_at_ = context_.now;
  covered_ += end - begin;
  Task task;
  task.kind = TaskKind::kSetResult;
  task.stage = stage_;
  task.iteration = context_.ledger.iteration;
  task.range = {begin, end};
  task.input = std::move(payload);
  context_.run(task, nullptr);
  if (covered_ < size_ || finishing_) return;
  finishing_ = true;
  task.kind = TaskKind::kFinishResult;
  task.input = nullptr;
  task.range = {0, size_};
  context_.run(task, [this, generation = generation_](const TaskResult& result) {
    if (generation != generation_) return;
    complete_ = due_ = true;
    hash_ = result.hash;
    sum_squares_ = result.sum_squares;
    on_change();
  });
}

void Reduction::receive(NodeId from, const wire::WantResult& message) {
  if (message.stage != stage_) return;
  const auto kept = kept_.find(message.stamp.iteration);
  const bool running = message.stamp.iteration == context_.ledger.iteration;
  if (running && !message.committed) {
    // Somebody misses ranges that this node may have given out before: once more.
    std::erase_if(given_, [&](const auto& entry) { return entry.second == from; });
    // ... or it has inherited a range whose former owner had given it out already.
    const auto full = full_hash();
    due_ = true;
    for (const auto& share : orders_.shares) {
      const auto piece = pieces_.find(share.begin);
      if (share.owner != from || piece == pieces_.end()) continue;
      context_.send(from, wire::Gathered{context_.stamp(), stage_, share.begin, piece->second.end, full},
                    piece->second.payload);
    }
    return advance();
  }
  const auto* pieces = kept != kept_.end() ? &kept->second : running && complete_ ? &pieces_ : nullptr;
  if (!pieces) return;
  // The set is the committed one; the hash of the whole result is what the asker checks.
  for (const auto& [begin, piece] : *pieces)
    if (!std::binary_search(message.have.begin(), message.have.end(), begin))
      context_.send(from, wire::Gathered{message.stamp, stage_, begin, piece.end, kByCommit}, piece.payload);
}

void Reduction::fetch(NodeId source) {
  ++context_.counters.adopted;
  // What has come so far may be part of the committed result. If it is not, or fits no other's pieces, the next try
  // begins from nothing.
  if (complete_ || fetching_) begin(stage_, size_);
  fetching_ = true;
  source_ = source;
  progress_at_ = context_.now;
  std::vector<std::uint64_t> have;
  for (const auto& [begin, piece] : pieces_) have.push_back(begin);
  context_.send(source, wire::WantResult{context_.stamp(), stage_, true, std::move(have)});
}

Time Reduction::silent_from() const {
  if ((covered_ == 0 || owner_lost_) && !fetching_) return Time::min();
  return progress_at_ + patience();
}

void Reduction::measure_links() {
  slowest_ = 0;
  for (const auto receiver : orders_.receivers) {
    const double rate = 1000.0 * context_.detector.kilobytes_per_s(receiver);
    if (rate > 0 && (slowest_ == 0 || rate < slowest_)) slowest_ = rate;
  }
}

// What was sent arrives, or its connection ends: this is for what neither explains. So it waits for several times what
// all that must move here can take, and twice as long each time.
Duration Reduction::patience() const {
  const auto& pace = context_.options.pace;
  const double bytes = 8.0 * static_cast<double>(size_) * context_.options.run.state_scale;
  const double transfers = 2 * bytes / (slowest_ > 0 ? slowest_ : kUnknownRate);
  return (pace.retry_first + seconds(pace.retry_factor * transfers)) * (1 << std::min(retries_, 4));
}

void Reduction::tick() {
  if (!orders_.sealed || complete_ || fetching_ || context_.now < retry_at()) return;
  retried_at_ = context_.now;
  ++retries_;
  ++context_.counters.retries;
  partials_sent_.clear();
  due_ = true;
  measure_links();
  std::set<NodeId> owners;
  for (const auto& share : orders_.shares) {
    if (pieces_.contains(share.begin)) continue;
    owners.insert(share.owner);
    // Those who have the range already send no partial sums of it; one of them may give it back.
    if (share.owner == context_.options.self) owners.insert(orders_.receivers.begin(), orders_.receivers.end());
  }
  owners.erase(context_.options.self);
  std::erase_if(owners, [&](NodeId owner) { return !context_.reachable(owner); });
  for (const auto owner : owners) context_.send(owner, wire::WantResult{context_.stamp(), stage_, false, {}});
  advance();
}

Time Reduction::next_wake() const { return orders_.sealed && !complete_ && !fetching_ ? retry_at() : kNever; }

void Reduction::keep(Iteration iteration, const wire::Plan& next) {
  // Who was admitted late may be in none of the orders that this node knew.
  const auto full = full_hash();
  for (const auto& share : orders_.shares) {
    const auto piece = pieces_.find(share.begin);
    if (share.owner != context_.options.self || piece == pieces_.end()) continue;
    for (const auto& member : next.members) {
      if (member.stage != stage_ || member.listener || member.node == context_.options.self ||
          !context_.reachable(member.node) || !given_.insert({share.begin, member.node}).second)
        continue;
      context_.send(member.node, wire::Gathered{context_.stamp(), stage_, share.begin, piece->second.end, full},
                    piece->second.payload);
    }
  }
  kept_[iteration] = pieces_;
  while (kept_.size() > 2) kept_.erase(kept_.begin());
}

void Reduction::peer_lost(NodeId peer) {
  if (!complete_)
    for (const auto& share : orders_.shares)
      if (share.owner == peer && !pieces_.contains(share.begin)) owner_lost_ = true;
  // What its former life gave, its next one does not have.
  for (auto& [begin, piece] : pieces_)
    if (piece.from == peer) piece.from = wire::kNobody;
  std::erase_if(given_, [&](const auto& entry) { return entry.second == peer; });
  std::erase_if(partials_sent_, [&](const auto& entry) { return entry.first.second == peer; });
  due_ = true;
}

void Reduction::add_awaited(std::vector<NodeId>& peers) {
  if (fetching_ && !complete_) peers.push_back(source_);
  if (!orders_.sealed || complete_) return;
  if (std::exchange(awaited_stale_, false)) choose_awaited();
  peers.insert(peers.end(), awaited_.begin(), awaited_.end());
}

// In a large stage each watches a few, those behind it; the leader watches all.
void Reduction::choose_awaited() {
  constexpr std::size_t kMostWatched = 8;
  std::set<NodeId> owners;
  for (const auto& share : orders_.shares)
    if (!pieces_.contains(share.begin) && share.owner != context_.options.self) owners.insert(share.owner);
  awaited_.clear();
  auto at = owners.upper_bound(context_.options.self);
  for (std::size_t i = 0; i < std::min(owners.size(), kMostWatched); ++i, ++at) {
    if (at == owners.end()) at = owners.begin();
    awaited_.push_back(*at);
  }
}

std::string Reduction::describe() const {
  std::string out = "reduction of stage " + to_string(stage_) + ", orders " + std::to_string(orders_.term) + "." +
                    std::to_string(orders_.revision) + (orders_.sealed ? " sealed" : "") + ":";
  if (complete_) return out + " complete\n";
  for (const auto& owned : orders_.owners)
    if (owned.node == context_.options.self &&
        !std::equal(owned.keys.begin(), owned.keys.end(), pipeline_.folded().begin(), pipeline_.folded().end()))
      out += " lacks contributions;";
  for (const auto& share : orders_.shares)
    if (!pieces_.contains(share.begin)) {
      out += " range " + std::to_string(share.begin) + " from node " + to_string(share.owner);
      const auto at = partials_.find(share.begin);
      if (at != partials_.end()) out += " (has " + std::to_string(at->second.size()) + " partial sums)";
      out += ";";
    }
  return out + "\n";
}

void Reduction::fill(wire::Report& report) const {
  report.revision = orders_.revision;
  report.term = orders_.term;
  report.result_complete = complete_;
  report.result_hash = hash_;
  report.sum_squares = sum_squares_;
  for (std::uint32_t i = 0; i < orders_.shares.size(); ++i)
    if (pieces_.contains(orders_.shares[i].begin)) report.shares_done.push_back(i);
}

}  // namespace tributary::swarm
