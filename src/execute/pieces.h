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

/** Of a call without segments. */
inline Piece whole_of(const Move& move) {
  return {{move.first_value, static_cast<size_t>(move.value_count)}, 0, 0};
}

/** One piece for every segment that the move touches, in order; with null segments the move is one
 *  piece. */
class Pieces {
 public:
  Pieces(const Move& move, const std::vector<Part>* segments)
      : first_value_(move.first_value),
        end_(move.first_value + move.value_count),
        segments_(segments) {
    if (segments == nullptr) return;
    const auto after =
        std::upper_bound(segments->begin(), segments->end(), move.first_value,
                         [](uint64_t value, const Part& part) { return value < part.first_value; });
    segment_ = static_cast<size_t>(after - segments->begin()) - 1;
  }

  /** False when there are no more. */
  bool next(Piece* piece) {
    if (segments_ == nullptr) {
      *piece = {{first_value_, static_cast<size_t>(end_ - first_value_)}, 0, 0};
      return segment_++ == 0;
    }
    while (segment_ < segments_->size() && (*segments_)[segment_].first_value < end_) {
      const Part& part = (*segments_)[segment_++];
      const uint64_t first = std::max(part.first_value, first_value_);
      const uint64_t last = std::min(part.first_value + part.value_count, end_);
      if (first >= last) continue;
      *piece = {{first, static_cast<size_t>(last - first)}, segment_ - 1, first - first_value_};
      return true;
    }
    return false;
  }

 private:
  uint64_t first_value_;
  uint64_t end_;
  const std::vector<Part>* segments_;
  size_t segment_ = 0;  // the next one; without segments 0 before the one piece
};

}  // namespace gq

#endif
