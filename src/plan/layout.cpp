// Sizes and places in an arena: codes, sums, norms, the same as peers send them, then sparse
// entries or the landing slots of operands.
#include "src/plan/layout.h"

#include <algorithm>

#include "src/schedule/nodes.h"

namespace gq {
namespace {

// Regions begin on cache lines of their own.
constexpr size_t kLineBytes = 64;

// Slots that let a peer send ahead: two, and as many more as fit this, but no more than help.
constexpr size_t kSlotsBytes = size_t{2} << 20;
constexpr size_t kSlotsMin = 2;
constexpr size_t kSlotsMax = 8;

constexpr size_t round_up(size_t value, size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

constexpr uint64_t divide_up(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

}  // namespace

Layout::Layout(const Coding& coding, const Shape& shape, const Options& options)
    : packing_(coding.packing()),
      packing_down_(coding.packing_down()),
      block_(coding.block),
      rotated_(coding.rotated),
      rescale_(coding.wide && coding.rescale),
      float_sums_(shape.slices != nullptr && coding.bits_down == 32),
      sums_apart_(float_sums_ || packing_down_ != packing_),
      shard_(std::max<uint64_t>(1, shape.slices != nullptr
                                       ? shape.slice_value_count_max
                                       : part_of(shape, shard_count(shape), 0).value_count)),
      chunk_(shape.chunk_value_count),
      room_bytes_(options.has_room ? kRoomBytes : 0),
      chunk_scales_bytes_(room_bytes_) {
  const uint64_t in_a_chunk = std::min({chunk_, shard_, shape.value_count});
  if (rescale_) chunk_scales_bytes_ += round_up(norms_bytes(in_a_chunk), sizeof(uint32_t));
  const uint64_t parts = shape.nodes == nullptr ? 1 : shape.nodes->part_count();
  part_ = shape.encodes_nodes_down ? shard_ : shard_count(shape) / parts * shard_;
  placed_ = shape.value_count;
  // A gather takes as many bytes from each rank, though the last parts may be shorter.
  const bool may_gather = options.orders_messages && shape.slices == nullptr;
  if (may_gather) placed_ = std::max(placed_, shard_count(shape) * shard_);
  const uint64_t count = placed_;

  sums_bytes_ = round_up(packed_size_bytes(packing_, behind_codes_bytes(), count), kLineBytes);
  norms_bytes_ = sums_bytes_;
  if (sums_apart_) {
    const uint64_t sums = shape.encodes_nodes_down ? count : std::min(parts * shard_, count);
    norms_bytes_ +=
        round_up(packed_size_bytes(packing_down_, chunk_scales_bytes_, sums), kLineBytes);
  }
  landing_bytes_ = norms_bytes_;
  if (block_ != 0) landing_bytes_ += round_up(norms_bytes(count), kLineBytes);
  norm_results_bytes_ = norms_bytes_;
  if (!options.reads_in_place && shape.ranks > 1) add_results(options.orders_messages);
  arena_bytes_ = landing_bytes_;
  if (!options.reads_in_place && shape.ranks > 1) add_slots(shape);
}

/** Sums in float32 stay with their owner: what peers send are codes then. */
void Layout::add_results(bool orders_messages) {
  const bool are_sums = sums_apart_ && !float_sums_;
  results_bytes_ = landing_bytes_;
  landing_bytes_ = results_bytes_ + round_up(packed_size_bytes(are_sums ? packing_down_ : packing_,
                                                               chunk_scales_bytes_, placed_),
                                             kLineBytes);
  if (block_ == 0 || orders_messages) return;
  norm_results_bytes_ = landing_bytes_;
  landing_bytes_ += round_up(norms_bytes(placed_), kLineBytes);
}

void Layout::add_slots(const Shape& shape) {
  const uint64_t operand = std::min(chunk_, shape.value_count);
  slot_bytes_ = round_up(words_bytes(packing_, operand) + room_bytes_, kLineBytes);
  if (shape.encodes_nodes_down) {
    const size_t sums_bytes = words_bytes(packing_down_, operand) + chunk_scales_bytes_;
    slot_bytes_ = std::max(slot_bytes_, round_up(sums_bytes, kLineBytes));
  }
  if (block_ != 0) slot_bytes_ = std::max(slot_bytes_, round_up(norms_bytes(operand), kLineBytes));
  const size_t round_of_slots_bytes = std::max<size_t>(1, shape.ranks * slot_bytes_);
  slot_count_ = std::clamp(kSlotsBytes / round_of_slots_bytes, kSlotsMin, kSlotsMax);
  arena_bytes_ = landing_bytes_ + slot_count_ * shape.ranks * slot_bytes_;
}

void Layout::add_sparse_entries(const Shape& shape, bool reads_in_place) {
  // n - 1 copies of so many are no longer than what ranks send in the moves, each on average.
  sparse_entries_max_ = 2 * words_for(packing_, shape.value_count) / shape.ranks;
  sparse_workspace_bytes_ = round_up(sparse_entries_max_ * sizeof(uint32_t), kLineBytes);
  const size_t copies = reads_in_place ? 1 : 1 + static_cast<size_t>(shape.ranks);
  arena_bytes_ = std::max(arena_bytes_, landing_bytes_ + copies * sparse_workspace_bytes_);
}

void Layout::add_segments(uint64_t segment_count, uint32_t ranks, bool reads_in_place,
                          size_t scratch_bytes) {
  const size_t count = static_cast<size_t>(segment_count);
  segment_norms_bytes_ = round_up(arena_bytes_, kLineBytes);
  segment_norms_workspace_bytes_ = round_up(count * sizeof(uint64_t), kLineBytes);
  const size_t copies = reads_in_place ? 1 : 1 + static_cast<size_t>(ranks);
  global_norms_bytes_ = segment_norms_bytes_ + copies * segment_norms_workspace_bytes_;
  scratch_bytes_ = global_norms_bytes_ + round_up(count * sizeof(float), kLineBytes);
  arena_bytes_ = scratch_bytes_ + scratch_bytes;
}

size_t reserve_behind(Layout* layout, size_t size_bytes) {
  const size_t begin = round_up(layout->arena_bytes_, kLineBytes);
  layout->arena_bytes_ = begin + size_bytes;
  return begin;
}

size_t Layout::words_bytes(const Packing& packing, uint64_t value_count) const {
  return words_for(packing, code_count(rotated_, value_count)) * sizeof(uint32_t);
}

size_t Layout::norms_bytes(uint64_t value_count) const {
  return norm_count(block_, rotated_, value_count) * sizeof(uint16_t);
}

size_t Layout::packed_offset_bytes(const Packing& packing, size_t scales_bytes,
                                   uint64_t first_value) const {
  const uint64_t chunks_before =
      first_value / shard_ * divide_up(shard_, chunk_) + first_value % shard_ / chunk_;
  return words_bytes(packing, first_value) + chunks_before * scales_bytes;
}

size_t Layout::packed_size_bytes(const Packing& packing, size_t scales_bytes,
                                 uint64_t value_count) const {
  const uint64_t chunks = divide_up(value_count, shard_) * divide_up(shard_, chunk_);
  return words_bytes(packing, value_count) + chunks * scales_bytes;
}

size_t Layout::offset_bytes(Content content, uint64_t first_value) const {
  if (content == Content::norms) return norms_bytes_ + norms_bytes(first_value);
  if (content == Content::sums && sums_apart_) {
    const uint64_t value = first_value - sums_first_value_;
    return sums_bytes_ + packed_offset_bytes(packing_down_, chunk_scales_bytes_,
                                             value / part_ * shard_ + value % shard_);
  }
  return packed_offset_bytes(packing_, behind_codes_bytes(), first_value);
}

size_t Layout::result_bytes(Content content, uint64_t first_value) const {
  if (content == Content::norms) return norm_results_bytes_ + norms_bytes(first_value);
  if (results_bytes_ == 0) return offset_bytes(content, first_value);
  const Packing& packing = content == Content::sums ? packing_down_ : packing_;
  return results_bytes_ + packed_offset_bytes(packing, chunk_scales_bytes_, first_value);
}

size_t Layout::size_bytes(Content content, uint64_t value_count) const {
  switch (content) {
    case Content::norms:
      return norms_bytes(value_count);
    case Content::sums:
      return scales_offset_bytes(value_count) + (rescale_ ? norms_bytes(value_count) : 0);
    case Content::codes:
      break;
  }
  return words_bytes(packing_, value_count);
}

size_t Layout::scales_offset_bytes(uint64_t value_count) const {
  return words_bytes(packing_down_, value_count);
}

}  // namespace gq
