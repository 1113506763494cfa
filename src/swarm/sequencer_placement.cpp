// The sequencer's search for better places: in slices beside the training, and moves at a commit.
#include "swarm/sequencer.h"

namespace tributary::swarm {
namespace {

constexpr std::uint64_t kMeasured = 2;  // iterations of an epoch before anybody moves
// Measures waver, on a busy machine by much, and a move costs the state: moving begins when the search has promised so
// much in iterations in a row, and ends a few iterations later.
constexpr double kPromising = 0.88;
constexpr int kInARow = 2;
constexpr std::uint64_t kMovingLasts = 8;
constexpr double kAwayIterations = 3;  // a relay that died so long ago is not expected back

}  // namespace

void Sequencer::plan_ahead() {
  const auto& ledger = raft_.ledger();
  const auto& run = context_.options.run;
  if (!run.switches.move_relays || run.router != "planned" || ledger.epoch == 0 || ledger.halted || fatal_ != "" ||
      ledger.iteration.value() < ledger.checkpoint.value() + kMeasured || ledger.iteration.value() >= run.iterations ||
      context_.now < search_at_ || run.stages < 2 || ledger.plan.members.size() > Placement::kMostMachines)
    return;
  search_at_ = context_.now + context_.options.pace.report;
  if (placement_ && placed_ == stamp_) {
    placement_->search();
    const auto found = placement_->target();
    for (const auto& [node, stage] : found.stages) target_.stages[node] = stage;
    target_.paths = found.paths;
    return;
  }
  const bool promising = placement_ && placement_->best_s() < kPromising * placement_->now_s();
  promising_ = promising && placed_.epoch == stamp_.epoch ? promising_ + 1 : 0;
  placed_ = stamp_;
  // Who died a moment ago is expected back: moves that make up for its absence would have to be taken back.
  const auto away = seconds(kAwayIterations * usual_iteration_s_);
  std::vector<Candidate> members;
  std::set<NodeId> movable;
  for (const auto& [node, peer] : peers_) {
    const auto* member = member_of(ledger.plan, node);
    const bool here = member && live(*member);
    const bool awaited = peer.died_at != kNever && context_.now < peer.died_at + away;
    if (peer.leaving || !peer.refusal.empty() || (!here && !awaited)) continue;
    const auto stage = member ? member->stage : peer.stage;
    if (stage.value() > run.stages) continue;
    const bool data_node = peer.hello ? peer.hello->data_node : stage == StageId(0);
    if (data_node != (stage == StageId(0))) continue;
    if (!data_node && peer.hello && peer.hello->any_stage) movable.insert(node);
    members.push_back(candidate(node, peer, stage, false));
  }
  placement_ = std::make_unique<Placement>(run, std::move(members), std::move(movable), ledger.plan.paths,
                                           ledger.plan.in_flight, target_, mix64(stamp_.epoch, ledger.index));
}

// Only from a whole swarm: one step of moves at a time.
std::vector<Placement::Move> Sequencer::moves_now() {
  const auto& ledger = raft_.ledger();
  const auto& run = context_.options.run;
  if (!run.switches.move_relays || !placement_ || placed_ != stamp_) return {};
  std::set<NodeId> full;
  for (const auto& member : ledger.plan.members) {
    if (!live(member)) continue;
    const auto* report = current_report(member);
    if (member.listener && !(report && report->ready)) return {};
    if (!peers_.at(member.node).leaving) full.insert(member.node);
  }
  const auto done = ledger.iteration.value() + 1;
  const bool moving = done <= moving_until_;
  if (!moving && promising_ < kInARow) return {};
  auto moves = placement_->moves(run.iterations > done ? run.iterations - done : 0, full);
  if (!moves.empty() && !moving) {
    moving_until_ = done + kMovingLasts;
    promising_ = 0;
  }
  return moves;
}

}  // namespace tributary::swarm
