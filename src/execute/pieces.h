// The pieces of a move: values that lie in one segment of a call. Stages work on those, where
// values are aligned and end as a call may; schedules and messages know nothing of segments.
#ifndef GQ_EXECUTE_PIECES_H
#define GQ_EXECUTE_PIECES_H

#include <algorithm>
#include <vector>

#include "kernels/stages.h"
#include "src/schedule/move.h"
#include "src/support/status.h"

namespace gq {

struct Piece {
  Range range;
  size_t segment = 0;    ///< 0 where there are no segments
  uint64_t skipped = 0;  ///< values of the move before them
};

/** Calls each(piece) for every segment that the move touches, until one fails; with null segments
 *  the move is one piece. */
template <typename Each>
Status for_each_piece(const Move& move, const std::vector<Part>* segments, Each each) {
  const uint64_t end = move.first_value + move.value_count;
  if (segments == nullptr) {
    return each(Piece{{move.first_value, static_cast<size_t>(move.value_count)}, 0, 0});
  }
  const auto after =
      std::upper_bound(segments->begin(), segments->end(), move.first_value,
                       [](uint64_t value, const Part& part) { return value < part.first_value; });
  for (auto part = after - 1; part != segments->end() && part->first_value < end; ++part) {
    const uint64_t first = std::max(part->first_value, move.first_value);
    const uint64_t last = std::min(part->first_value + part->value_count, end);
    if (first >= last) continue;
    GQ_TRY(each(Piece{{first, static_cast<size_t>(last - first)},
                      static_cast<size_t>(part - segments->begin()),
                      first - move.first_value}));
  }
  return Status();
}

}  // namespace gq

#endif
