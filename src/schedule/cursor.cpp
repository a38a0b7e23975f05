// The walk over one rank's moves: rounds, in each its chunks, for each chunk its moves.
#include <algorithm>

#include "src/schedule/norms.h"

namespace gq {

MoveCursor::MoveCursor(const Schedule* schedule, const Shape& shape, uint32_t rank)
    : next_schedule_(schedule), shape_(shape), rank_(rank) {
  const bool norms_first = shape.block_norms && !schedule->weaves_norms;
  begin(norms_first ? &kNormExchange : schedule);
}

void MoveCursor::begin(const Schedule* schedule) {
  schedule_ = schedule;
  if (next_schedule_ == schedule) next_schedule_ = nullptr;
  round_ = 0;
  round_count_ = schedule->round_count(shape_, rank_);
  enter_round();
}

void MoveCursor::enter_round() {
  index_ = 0;
  left_ = round_ < round_count_ ? schedule_->round(shape_, rank_, round_) : Round();
}

bool MoveCursor::next(Move* move) {
  if (split_.value_count != 0) {
    take_one_origin(move);
    return true;
  }
  while (left_.value_count == 0 || left_.move_count == 0) {
    if (round_ < round_count_) {
      round_ += 1 + left_.idle_rounds_after;
      enter_round();
    } else if (next_schedule_ != nullptr) {
      begin(next_schedule_);
    } else {
      return false;
    }
  }
  *move = schedule_->move(shape_, rank_, round_, index_);
  move->first_value = left_.first_value;
  move->value_count = left_.in_one_piece ? left_.value_count
                                         : std::min(left_.value_count, shape_.chunk_value_count);
  if (++index_ == left_.move_count) {
    index_ = 0;
    left_.first_value += move->value_count;
    left_.value_count -= move->value_count;
  }
  if (move->origin_value_count != 0) {
    split_ = *move;
    take_one_origin(move);
  }
  return true;
}

// A message may span the results of several owners; a stage works on the words of one.
void MoveCursor::take_one_origin(Move* move) {
  const uint64_t shard = split_.origin_value_count;
  const uint64_t into_shard = split_.first_value % shard;
  const bool is_message = split_.kind != MoveKind::dequantize;
  const bool one_origin = split_.value_count <= shard - into_shard;
  *move = split_;
  move->origin = static_cast<uint32_t>(split_.first_value / shard);
  if (!is_message || one_origin) move->origin_value_count = 0;
  if (!is_message && !one_origin) move->value_count = shard - into_shard;
  split_.first_value += move->value_count;
  split_.value_count -= move->value_count;
}

}  // namespace gq
