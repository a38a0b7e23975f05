// The second walk: receives in the order of the moves, as far as there are places for them.
#include "src/execute/look_ahead.h"

#include <algorithm>

#include "src/execute/messages.h"

namespace gq {
namespace {

// As many as keep a wire busy; each costs its transport a question in every round of progress.
constexpr uint32_t kUnderWayMax = 64;

}  // namespace

void LookAhead::begin(Endpoint& endpoint, const Plan& plan) {
  copies_ = !endpoint.host->reads_in_place();
  ended_ = !copies_;
  if (!copies_) return;
  endpoint_ = &endpoint;
  plan_ = &plan;
  cursor_ = MoveCursor(plan.schedule, plan.shape, endpoint.rank());
  std::fill(endpoint.operand_counts.begin(), endpoint.operand_counts.end(), OperandCounts());
}

bool LookAhead::next_receive() {
  while (cursor_.next(&move_)) {
    const bool receives =
        move_.kind == MoveKind::receive_operand || move_.kind == MoveKind::receive_result;
    if (receives) return true;
  }
  ended_ = true;
  return false;
}

Status LookAhead::announce() {
  while (!ended_ && under_way_ < kUnderWayMax) {
    if (!held_) held_ = next_receive();
    if (!held_) return Status();
    const Layout& layout = plan_->layout;
    size_t here_bytes = layout.result_bytes(move_.content, move_.first_value);
    if (move_.kind == MoveKind::receive_operand) {
      OperandCounts& counts = endpoint_->operand_counts[move_.peer];
      if (counts.expected - counts.merged == layout.slot_count()) return Status();
      here_bytes = layout.landing_bytes(move_.peer, counts.expected);
      counts.expected += 1;
    }
    GQ_TRY(endpoint_->messages.expect(message_of(*plan_, move_, here_bytes)));
    held_ = false;
    under_way_ += 1;
  }
  return Status();
}

void LookAhead::received(const Move& move) {
  if (!copies_) return;
  under_way_ -= 1;
  if (move.kind == MoveKind::receive_operand) endpoint_->operand_counts[move.peer].received += 1;
}

void LookAhead::merged(uint32_t peer) {
  if (copies_) endpoint_->operand_counts[peer].merged += 1;
}

size_t LookAhead::operand_bytes(uint32_t peer) const {
  if (!copies_) return 0;
  const uint64_t received = endpoint_->operand_counts[peer].received;
  return plan_->layout.landing_bytes(peer, received == 0 ? 0 : received - 1);
}

}  // namespace gq
