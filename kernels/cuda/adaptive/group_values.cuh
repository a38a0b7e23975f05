// From values of groups to their norms and codes, and back, where widths are adaptive.
#ifndef GQ_KERNELS_CUDA_ADAPTIVE_GROUP_VALUES_CUH
#define GQ_KERNELS_CUDA_ADAPTIVE_GROUP_VALUES_CUH

#include "kernels/cuda/adaptive/group_codes.cuh"
#include "kernels/cuda/decode.cuh"

namespace gq::cuda {

/** Norms of blocks, in the order of groups. */
template <Dtypes kDtypes>
struct GroupNorms : GroupStage {
  static constexpr uint32_t kBlocksAtOnce = blocks_of(kDtypes, 4);
  struct Shared {};
  ValueSource<kDtypes> source;

  explicit GroupNorms(const NormArgs& args)
      : GroupStage(*args.range.grouped, 0, {}), source(args) {}

  GQ_DEVICE void run(const GroupUnit& unit, Shared&) const {
    auto* const out = static_cast<uint16_t*>(piece.words);
    for (uint32_t first = unit.first_block; first < unit.end_block; first += kTileBlocks) {
      const uint32_t block = block_of_thread(first);
      if (block >= unit.end_block) continue;
      const ThreadPlace place = place_of(unit, block, &SegmentPlace::send);
      float value[kThreadValues];
      source.at(place.values).load(place.in_buffer, value);
      uint32_t own = 0;
      keep_largest_of(value, own);
      const uint32_t largest = largest_of_block(unit, block, own);
      if (threadIdx.x % kSharers == 0) out[block_offset(unit, block)] = norm_code(largest);
    }
    const bool has_last = unit.first_block < unit.block_count && unit.end_block == unit.block_count;
    if (has_last) clear_behind(unit, out);
  }

 private:
  /** Of a piece that ends with a group, though the call ends before: norms are merged up to
   *  there. */
  GQ_DEVICE void clear_behind(const GroupUnit& unit, uint16_t* out) const {
    const uint64_t left = piece.value_count - uint64_t{unit.group} * groups.group_values;
    const uint64_t end = min(uint64_t{blocks_of_group()}, uint64_t{adaptive_blocks(left)});
    for (uint64_t block = unit.block_count + threadIdx.x; block < end; block += kBlockThreads) {
      out[uint64_t{unit.group} * blocks_of_group() + block] = 0;
    }
  }
};

template <Dtypes kDtypes>
struct QuantizeGroups : GroupStage {
  static constexpr uint32_t kBlocksAtOnce = kDtypes == Dtypes::float32 ? 3 : 2;
  using Shared = EncodedUnit;
  ValueSource<kDtypes> source;
  Rounder rounder;

  explicit QuantizeGroups(const QuantizeArgs& args)
      : GroupStage(*args.range.grouped, args.coding.mean_half_bits, args.norms),
        source(args),
        rounder(args) {}

  GQ_DEVICE void run(const GroupUnit& unit, Shared& shared) const {
    const GroupWidths widths(shared.widths, code_of_thread(piece.norms, unit), unit.plane_count);
    const Thresholds::Start start = rounder.thresholds.start();
    write_unit(unit, widths, shared.planes, words_of(unit),
               [&](uint32_t block, LaneWords& lanes) {
                 const ThreadPlace place = place_of(unit, block, &SegmentPlace::send);
                 float value[kThreadValues];
                 source.at(place.values).load(place.in_buffer, value);
                 const uint32_t width = widths.width(block);
                 const float norm = widths.norm(block);
                 if (width == 0) return;
                 encode_lanes(rounder, start, value_of(unit, block), norm, width,
                              place.in_buffer.value_count, value, lanes);
               });
  }
};

template <Dtypes kDtypes>
struct DequantizeGroups : GroupStage {
  static constexpr uint32_t kBlocksAtOnce = kDtypes == Dtypes::float32 ? 3 : 2;
  using Shared = GroupWidths::Shared;
  ValueTarget<kDtypes> target;
  KeyedStream thresholds;  ///< that subtractive codes were made with
  bool subtractive;
  uint32_t multiplier;

  explicit DequantizeGroups(const DequantizeArgs& args)
      : GroupStage(*args.range.grouped, args.coding.mean_half_bits, args.norms),
        target(args),
        thresholds(shared_stream(args.random, Draw::subtractive)),
        subtractive(args.coding.rounding_down == RoundingDown::subtractive),
        multiplier(args.op == GQSGD_SUM ? args.coding.ranks : 1) {}

  GQ_DEVICE void run(const GroupUnit& unit, Shared& shared) const {
    const GroupWidths widths(shared, code_of_thread(piece.norms, unit), unit.plane_count);
    const auto* const halves = reinterpret_cast<const uint16_t*>(words_of(unit));
    for (uint32_t first = unit.first_block; first < unit.end_block; first += kTileBlocks) {
      const uint32_t block = block_of_thread(first);
      if (block >= unit.end_block) continue;
      const uint64_t number = value_of(unit, block);
      const ThreadPlace place = place_of(unit, block, &SegmentPlace::recv);
      if (place.in_buffer.value_count == 0) continue;
      const float scale = norm_from_code(code_of(piece.scales, unit, block));
      const uint32_t width = widths.width(block);
      uint32_t planes[kWidthMax];
      get_planes(halves + half_of_thread(widths.first_plane(block)), width, planes);
      LaneWords lanes;
      lanes_of_halves(planes, lanes);
      float value[kThreadValues];
      decode(lanes, scale, steps_of_width(width), number, value);
      target.at(place.values).store(place.first_value, place.in_buffer, value);
    }
  }

 private:
  GQ_DEVICE void decode(const LaneWords& lanes, float scale, uint32_t top, uint64_t first_value,
                        float (&value)[kThreadValues]) const {
    const auto decode_with = [&](const auto& decoder) {
      decode_values(decoder, step_of(decoder, scale), first_value, lanes, value);
    };
    const LinearDecoder<8> linear{top, multiplier};
    if (!subtractive) return decode_with(linear);
    decode_with(SubtractiveDecoder<8>{linear, thresholds});
  }
};

}  // namespace gq::cuda

#endif
