// Dequantize, where widths are adaptive.
#ifndef GQ_KERNELS_CUDA_ADAPTIVE_DEQUANTIZE_GROUPS_CUH
#define GQ_KERNELS_CUDA_ADAPTIVE_DEQUANTIZE_GROUPS_CUH

#include "kernels/cuda/adaptive/group_codes.cuh"
#include "kernels/cuda/decode.cuh"

namespace gq::cuda {

struct DequantizeGroups : GroupStage {
  static constexpr uint32_t kBlocksAtOnce = 2;
  using Shared = GroupWidths::Shared;
  ValueTarget target;
  KeyedStream thresholds;  ///< that subtractive codes were made with
  bool subtractive;
  uint32_t multiplier;
  const void* norms = nullptr;
  const void* scales = nullptr;
  const uint32_t* words = nullptr;

  explicit DequantizeGroups(const DequantizeArgs& args, uint64_t values_in_all)
      : GroupStage(*args.range.grouped, args.coding.mean_half_bits, args.norms, values_in_all),
        target(args.values, args.dtype, args.coding.rounding == Rounding::nearest,
               shared_stream(args.random, Draw::output)),
        thresholds(shared_stream(args.random, Draw::subtractive)),
        subtractive(args.coding.rounding_down == RoundingDown::subtractive),
        multiplier(args.op == GQSGD_SUM ? args.coding.ranks : 1) {}

  GQ_HD void set(const Piece& piece) {
    GroupStage::set(piece);
    norms = piece.norms;
    scales = piece.scales;
    words = static_cast<const uint32_t*>(piece.words);
  }

  GQ_DEVICE void run(const GroupUnit& unit, Shared& shared) const {
    const GroupWidths widths(shared, code_of_thread(norms, unit), unit.plane_count);
    const auto* const halves = reinterpret_cast<const uint16_t*>(words + word_offset(unit));
    for (uint32_t first = unit.first_block; first < unit.end_block; first += kTileBlocks) {
      const uint32_t block = block_of_thread(first);
      if (block >= unit.end_block) continue;
      const uint64_t number = value_of(unit, block);
      const ThreadPlace place = place_of(unit, block, &SegmentPlace::recv);
      if (place.in_buffer.value_count == 0) continue;
      const float scale = norm_from_code(code_of(scales, unit, block));
      const uint32_t width = widths.width(block);
      uint32_t planes[kWidthMax];
      get_planes(halves + half_of_thread(widths.first_plane(block)), width, planes);
      LaneWords lanes;
      lanes_of_halves(planes, lanes);
      float value[kThreadValues];
      decode(lanes, scale, steps_of_width(width), number, value);
      ValueTarget to = target;
      to.set(place.values);
      to.store(place.first_value, place.in_buffer, value);
    }
  }

 private:
  GQ_DEVICE void decode(const LaneWords& lanes, float scale, uint32_t top, uint64_t first_value,
                        float (&value)[kThreadValues]) const {
    if (scale == 0 || !is_finite(scale)) {
      const float constant = scale == 0 ? 0 : float_from_bits(kFloatNanBits);
      GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) value[e] = constant;
    } else if (subtractive) {
      const float step = subtractive_step(scale, multiplier, top);
      uint32_t bits[kThreadValues];
      fill_bits(thresholds, first_value, bits);
      GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
        value[e] = subtractive_decode(lane<8>(lanes[e / 4], e), top, step, bits[e]);
      }
    } else {
      const float step = linear_step(scale, multiplier, top);
      GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
        value[e] = linear_decode(lane<8>(lanes[e / 4], e), top, step);
      }
    }
  }
};

}  // namespace gq::cuda

#endif
