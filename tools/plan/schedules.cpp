// One walk over the moves of a rank.
#include "tools/plan/schedules.h"

#include <algorithm>
#include <string_view>

#include "src/support/names.h"

namespace gq {

const Schedule* schedule_by_name(const char* name) {
  for (int32_t id = 0; id < static_cast<int32_t>(names_of(kScheduleList).count); ++id) {
    if (std::string_view(kScheduleList[id]) == name) return schedule_by_id(id);
  }
  return nullptr;
}

Totals totals_of(const Schedule& schedule, const Shape& shape, uint32_t rank) {
  Totals totals;
  MoveCursor cursor(&schedule, shape, rank);
  for (Move move; cursor.next(&move);) {
    totals.largest_hop = std::max(totals.largest_hop, move.hop);
    switch (move.kind) {
      case MoveKind::send:
        ++totals.messages_sent;
        (move.content == Content::norms ? totals.norm_values_sent : totals.values_sent) +=
            move.value_count;
        break;
      case MoveKind::reduce:
        totals.reductions += move.value_count;
        break;
      case MoveKind::reduce_many:
        totals.reductions += move.value_count * (operand_count(shape, rank, move) - 1);
        break;
      case MoveKind::norm:
      case MoveKind::merge_norms:
      case MoveKind::quantize:
      case MoveKind::receive_operand:
      case MoveKind::receive_result:
      case MoveKind::add_all:
      case MoveKind::await_sum:
      case MoveKind::dequantize:
        break;
    }
  }
  return totals;
}

}  // namespace gq
