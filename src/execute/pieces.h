// The pieces of a move: values that lie in one segment of a call and, where there are groups, in
// one of them. Stages work on those, where values are aligned and end as a call may; schedules and
// messages know nothing of either.
#ifndef GQ_EXECUTE_PIECES_H
#define GQ_EXECUTE_PIECES_H

#include <algorithm>
#include <vector>

#include "kernels/codec/groups.h"
#include "kernels/stages.h"
#include "src/schedule/move.h"
#include "src/support/status.h"

namespace gq {

struct Piece {
  Range range;
  size_t segment = 0;    ///< 0 where there are no segments
  uint64_t skipped = 0;  ///< values of the move before them; of a group, before the group
  uint64_t into_group = 0;  ///< values of the group before them, with places between segments
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

/** One piece for every run of granules of a group in one segment, in the order of groups. A move
 *  begins with a group; its values are numbered in that order. Segments begin at multiples of
 *  `alignment`. */
class GroupPieces {
 public:
  GroupPieces(const Move& move, const std::vector<Part>* segments, const Groups& groups,
              uint32_t mean_half_bits, uint32_t alignment = kAdaptiveBlock)
      : segments_(segments),
        groups_(groups),
        mean_half_bits_(mean_half_bits),
        alignment_(alignment),
        first_(move.first_value),
        end_(move.first_value + move.value_count),
        group_first_(first_) {
    begin_group();
  }

  /** False when there are no more. */
  bool next(Piece* piece) {
    if (group_first_ >= end_) return false;
    const uint64_t value = place_of(granule_) + within_;
    const size_t segment = segment_of(value);
    const uint64_t count = run_value_count(value, end_of(segment));
    GroupPlace place = place_;
    place.first_block = static_cast<uint32_t>(granule_ * kGranuleBlocks + within_ / kAdaptiveBlock);
    *piece = {{value, static_cast<size_t>(count), place},
              segment,
              group_first_ - first_,
              granule_ * kGranuleValues + within_};
    skip(count);
    return true;
  }

 private:
  void begin_group() {
    granule_ = within_ = 0;
    if (group_first_ >= end_) return;
    group_ = group_first_ / groups_.group_values;
    value_count_ = groups_.value_count_of(group_, end_);
    const uint32_t blocks = static_cast<uint32_t>(adaptive_blocks(value_count_));
    place_ = {blocks, groups_.planes_of_group(blocks, mean_half_bits_), 0,
              groups_.stride_values()};
  }

  /** The first value of a granule of the group. */
  uint64_t place_of(uint64_t granule) const {
    return groups_.first_value(group_) + granule * groups_.stride_values();
  }

  /** The one that has the value. */
  size_t segment_of(uint64_t value) const {
    if (segments_ == nullptr) return 0;
    const auto after =
        std::upper_bound(segments_->begin(), segments_->end(), value,
                         [](uint64_t a, const Part& part) { return a < part.first_value; });
    return static_cast<size_t>(after - segments_->begin()) - 1;
  }

  uint64_t end_of(size_t segment) const {
    if (segments_ == nullptr) return groups_.value_count;
    return (*segments_)[segment].first_value + (*segments_)[segment].value_count;
  }

  /** Values from this one on to the end of the segment or of the group: whole granules but for the
   *  last. What is left of a granule that another segment has begun is a run of its own. */
  uint64_t run_value_count(uint64_t value, uint64_t segment_end) const {
    if (within_ != 0) return std::min(kGranuleValues - within_, segment_end - value);
    const uint64_t left = value_count_ - granule_ * kGranuleValues;
    uint64_t count = 0;
    for (uint64_t at = value; count < left && at < segment_end; at += place_.stride_values) {
      const uint64_t here = std::min({uint64_t{kGranuleValues}, left - count, segment_end - at});
      count += here;
      if (here < kGranuleValues) break;
    }
    return count;
  }

  /** To the place after these values where a segment may begin. */
  void skip(uint64_t count) {
    const uint64_t at =
        granule_ * kGranuleValues + within_ + divided_up(count, alignment_) * alignment_;
    granule_ = at / kGranuleValues;
    within_ = at % kGranuleValues;
    if (at < value_count_) return;
    group_first_ += groups_.group_values;
    begin_group();
  }

  const std::vector<Part>* segments_;
  Groups groups_;
  uint32_t mean_half_bits_;
  uint32_t alignment_;
  uint64_t first_, end_;  // of the move
  uint64_t group_first_;  // the group at hand, in the order of groups
  uint64_t group_ = 0;
  uint64_t value_count_ = 0;  // of it
  GroupPlace place_;
  uint64_t granule_ = 0;  // the next one of it
  uint64_t within_ = 0;   // values of that granule that are done
};

}  // namespace gq

#endif
