// Where codes, encoded sums and norms lie in an arena: the same places on every rank, so that a
// message is found by its range alone.
#ifndef GQ_PLAN_LAYOUT_H
#define GQ_PLAN_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/codec/formats.h"
#include "src/schedule/move.h"

namespace gq {

/** The scales of a chunk of sums follow its words, so that both are one message; the words of two
 *  chunks leave space for them. Sums overwrite the codes that they were made of if they have as
 *  many bits. Otherwise they have a place of their own, large enough for the shards that one rank
 *  owns at most: one, or in a hierarchy one of each part; for all of them if sums of nodes are
 *  encoded as results are. On transports that copy, what peers send has places apart from what is
 *  sent to them, so that receives can be posted while sends are under way. */
class Layout {
 public:
  struct Options {
    bool reads_in_place = false;  ///< peers' words are read where they are, not received
    /** Each chunk of codes and of sums leaves space for a trailer behind it, as for scales; its
     *  messages are then single chunks. */
    bool has_room = false;
    /** Operations on a rank's memory have one order, as on a stream, so that global norms may be
     *  put where its own were. */
    bool orders_messages = false;
  };

  Layout() = default;
  Layout(const Coding& coding, const Shape& shape, const Options& options);
  /** Bytes of that space: a cache line, so that chunks stay aligned. */
  static constexpr size_t kRoomBytes = 64;
  friend bool has_room(const Layout& layout, Content content) {
    return layout.room_bytes_ > 0 && content != Content::norms;
  }

  /** `first_value` is the first of a chunk where there are scales, else aligned as shards are. */
  size_t offset_bytes(Content content, uint64_t first_value) const;
  size_t size_bytes(Content content, uint64_t value_count) const;
  /** From the first word of a chunk of sums to its scales. */
  size_t scales_offset_bytes(uint64_t value_count) const;
  size_t arena_bytes() const { return arena_bytes_; }

  /** Where a transport that copies puts results: the place of the words themselves if there is but
   *  one rank, or if peers' words are read in place. */
  size_t result_bytes(Content content, uint64_t first_value) const;
  /** Where a transport that copies puts the operands of `peer`: one chunk in each slot,
   *  cyclically. */
  size_t landing_bytes(uint32_t peer, uint64_t operand) const {
    return landing_bytes_ + (peer * slot_count_ + operand % slot_count_) * slot_bytes_;
  }
  uint64_t slot_count() const { return slot_count_; }

  /** Bytes from an aligned value of a chunk to another one. */
  size_t between_bytes(Content content, uint64_t value_count) const {
    return words_bytes(content == Content::sums ? packing_down_ : packing_, value_count);
  }
  size_t between_scales_bytes(uint64_t value_count) const {
    return value_count == 0 ? 0 : norms_bytes(value_count);
  }

  /** Sums have a place of their own, for values from `first_value` on. */
  void begin_sums_at(uint64_t first_value) { sums_first_value_ = first_value; }

  /** Reserves, behind everything else, memory for one norm of each segment of a call, this rank's
   *  and, on transports that copy, those of peers; for the global ones; and for `scratch_bytes`. */
  void add_segments(uint64_t segment_count, uint32_t ranks, bool reads_in_place,
                    size_t scratch_bytes);
  size_t segment_norms_bytes() const { return segment_norms_bytes_; }
  size_t segment_norms_stride_bytes() const { return segment_norms_workspace_bytes_; }
  /** Where those of `peer` are put by a transport that copies. */
  size_t segment_norms_landing_bytes(uint32_t peer) const {
    return segment_norms_bytes_ + (1 + static_cast<size_t>(peer)) * segment_norms_workspace_bytes_;
  }
  size_t global_norms_bytes() const { return global_norms_bytes_; }
  size_t scratch_bytes() const { return scratch_bytes_; }

  /** Reserves memory behind everything else, and returns where it begins. */
  friend size_t reserve_behind(Layout* layout, size_t size_bytes);

  /** Reserves memory for this rank's sparse entries and, on transports that copy, for those of
   *  peers. It overlaps the landing slots, since a call sends either operands or entries. */
  void add_sparse_entries(const Shape& shape, bool reads_in_place);
  size_t sparse_bytes() const { return landing_bytes_; }
  /** Where a transport that copies puts the sparse entries of `peer`. */
  size_t sparse_landing_bytes(uint32_t peer) const {
    return landing_bytes_ + (1 + static_cast<size_t>(peer)) * sparse_workspace_bytes_;
  }
  /** The most entries that are sent. */
  uint64_t sparse_entries_max() const { return sparse_entries_max_; }

 private:
  void add_results(bool orders_messages);
  void add_slots(const Shape& shape);
  size_t words_bytes(const Packing& packing, uint64_t value_count) const;
  size_t norms_bytes(uint64_t value_count) const;
  /** Space behind a chunk of codes: sums take their place where they have none of their own. */
  size_t behind_codes_bytes() const { return sums_apart_ ? room_bytes_ : chunk_scales_bytes_; }
  /** Bytes up to the words of a value, space for scales included. */
  size_t packed_offset_bytes(const Packing& packing, size_t scales_bytes,
                             uint64_t first_value) const;
  size_t packed_size_bytes(const Packing& packing, size_t scales_bytes,
                           uint64_t value_count) const;

  Packing packing_{};
  Packing packing_down_{};
  uint32_t block_ = 0;
  bool rotated_ = false;
  bool rescale_ = false;
  bool float_sums_ = false;  // of slices, which stay with their owner
  bool sums_apart_ = false;
  uint64_t shard_ = 1;  // values that one rank adds
  uint64_t chunk_ = 1;  // values of a chunk
  uint64_t placed_ = 0;  // values that there are places for; on streams those of whole parts
  uint64_t part_ = 1;   // values of shards whose sums have one place: different ranks add them
  size_t room_bytes_ = 0;
  size_t chunk_scales_bytes_ = 0;  // with the room behind them
  uint64_t sums_first_value_ = 0;
  size_t sums_bytes_ = 0;
  size_t norms_bytes_ = 0;
  size_t results_bytes_ = 0;
  size_t norm_results_bytes_ = 0;
  size_t landing_bytes_ = 0;
  uint64_t slot_count_ = 1;
  size_t slot_bytes_ = 0;
  uint64_t sparse_entries_max_ = 0;
  size_t sparse_workspace_bytes_ = 0;
  size_t segment_norms_bytes_ = 0;
  size_t segment_norms_workspace_bytes_ = 0;
  size_t global_norms_bytes_ = 0;
  size_t scratch_bytes_ = 0;
  size_t arena_bytes_ = 0;
};

}  // namespace gq

#endif
