// Wide sums, where widths are adaptive: planes of all operands are added bit by bit, sixteen values
// at once, and become numbers when all have been.
#ifndef GQ_KERNELS_CUDA_ADAPTIVE_REDUCE_GROUPS_CUH
#define GQ_KERNELS_CUDA_ADAPTIVE_REDUCE_GROUPS_CUH

#include "kernels/cuda/adaptive/group_codes.cuh"

namespace gq::cuda {

/** Sums of lanes as planes: plane p has bit p of sixteen sums. */
struct PlaneSums {
  static constexpr uint32_t kOperandsMax = 256;  ///< lanes are below 256 as well
  uint32_t plane[2 * kWidthMax] = {};

  GQ_DEVICE void add(const uint32_t (&half)[kWidthMax]) {
    uint32_t carry = 0;
    GQ_UNROLL for (uint32_t p = 0; p < kWidthMax; ++p) {
      const uint32_t next = majority_bits(plane[p], half[p], carry);
      plane[p] ^= half[p] ^ carry;
      carry = next;
    }
    GQ_UNROLL for (uint32_t p = kWidthMax; p < 2 * kWidthMax; ++p) {
      const uint32_t next = plane[p] & carry;
      plane[p] ^= carry;
      carry = next;
    }
  }

  /** Adds the sums to numbers. */
  GQ_DEVICE void add_to(int32_t (&total)[kThreadValues]) const {
    uint32_t low[kWidthMax], high[kWidthMax];
    GQ_UNROLL for (uint32_t p = 0; p < kWidthMax; ++p) {
      low[p] = plane[p];
      high[p] = plane[kWidthMax + p];
    }
    LaneWords lanes, upper;
    lanes_of_halves(low, lanes);
    lanes_of_halves(high, upper);
    GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
      total[e] += static_cast<int32_t>(lane<8>(lanes[e / 4], e) | lane<8>(upper[e / 4], e) << 8);
    }
  }
};

/** A block of values in the operands, as one of its sharers finds it. */
struct BlockPlace {
  uint64_t half;   ///< the thread's half of plane 0
  uint64_t scale;  ///< its number among the operand's scales
  uint32_t width;
};

/** Codes of ranks, or of means as often as each has ranks: their sums are integers. */
struct AddCodes {
  uint32_t ranks;
  bool rescale;

  explicit AddCodes(const ReduceManyArgs& args)
      : ranks(args.coding.ranks), rescale(args.coding.rescale) {}

  GQ_DEVICE void add(const Piece& piece, const BlockPlace& place,
                     float (&value)[kThreadValues]) const {
    const auto* const operands = static_cast<const uint32_t* const*>(piece.values);
    const auto offset = static_cast<int32_t>(ranks * steps_of_width(place.width));
    int32_t total[kThreadValues];
    GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) total[e] = -offset;
    for (uint32_t first = 0; first < ranks; first += PlaneSums::kOperandsMax) {
      const uint32_t end = min(first + PlaneSums::kOperandsMax, ranks);
      PlaneSums sums;
      for (uint32_t rank = first; rank < end; ++rank) {
        const auto* const from = reinterpret_cast<const uint16_t*>(kept(operands[rank]));
        uint32_t planes[kWidthMax];
        get_planes(from + place.half, place.width, planes);
        sums.add(planes);
      }
      sums.add_to(total);
    }
    GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
      value[e] = static_cast<float>(total[e]);
    }
  }

  GQ_DEVICE double full(uint32_t width) const {
    return static_cast<double>(ranks) * steps_of_width(width);
  }
  /** peak: the largest sum's pattern. */
  GQ_DEVICE Rescaled rescaled_by(float norm, uint32_t width, uint32_t peak) const {
    return rescaled(norm, float_from_bits(peak), full(width));
  }
};

/** Codes of means that have scales of their own, in the order of nodes. Weights are in memory of
 *  the device. */
struct AddScaledCodes {
  static constexpr bool rescale = true;
  uint32_t ranks, count;
  const uint64_t* weights;

  explicit AddScaledCodes(const ReduceManyArgs& args)
      : ranks(args.coding.ranks), count(args.weight_count), weights(args.device_weights) {}

  GQ_DEVICE void add(const Piece& piece, const BlockPlace& place,
                     float (&value)[kThreadValues]) const {
    const auto* const operands = static_cast<const uint32_t* const*>(piece.values);
    const uint32_t steps = steps_of_width(place.width);
    for (uint32_t k = 0; k < count; ++k) {
      const char* const words = reinterpret_cast<const char*>(kept(operands[k]));
      const auto* const scales = reinterpret_cast<const uint16_t*>(words + piece.scales_bytes);
      const auto weight = static_cast<uint32_t>(__ldg(weights + k));
      const float factor = mean_factor(scales[place.scale], mean_weight(weight, ranks, steps));
      uint32_t planes[kWidthMax];
      get_planes(reinterpret_cast<const uint16_t*>(words) + place.half, place.width, planes);
      LaneWords lanes;
      lanes_of_halves(planes, lanes);
      GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
        const float term = linear_decode(lane<8>(lanes[e / 4], e), steps, factor);
        value[e] = k == 0 ? term : value[e] + term;
      }
    }
  }

  GQ_DEVICE double full(uint32_t) const { return 1; }
  GQ_DEVICE Rescaled rescaled_by(float norm, uint32_t width, uint32_t peak) const {
    return width == 0 ? rescaled(norm, 0, 1) : rescaled_means(peak);
  }
};

template <typename Add>
struct ReduceGroups : GroupStage {
  static constexpr uint32_t kBlocksAtOnce = 2;
  using Shared = EncodedUnit;
  Rounder rounder;
  Add add;

  explicit ReduceGroups(const ReduceManyArgs& args)
      : GroupStage(*args.range.grouped, args.coding.mean_half_bits, args.norms),
        rounder(args),
        add(args) {}

  GQ_DEVICE void run(const GroupUnit& unit, Shared& shared) const {
    const GroupWidths widths(shared.widths, code_of_thread(piece.norms, unit), unit.plane_count);
    const Thresholds::Start start = rounder.thresholds.start();
    write_unit(unit, widths, shared.planes, words_of(unit),
               [&](uint32_t block, LaneWords& lanes) {
                 const uint32_t width = widths.width(block);
                 const uint64_t first = value_of(unit, block);
                 const uint32_t count = value_count_at(unit, block);
                 float value[kThreadValues] = {};
                 if (width > 0) {
                   const uint64_t half = 2 * word_offset(unit) +
                                         half_of_thread(widths.first_plane(block));
                   add.add(piece, {half, block_offset(unit, block), width}, value);
                 }
                 GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
                   if (e >= count) value[e] = 0;
                 }
                 const float sum_norm = norm_of_sums(unit, block, widths.norm(block), width, value);
                 if (width == 0) return;
                 encode_lanes(rounder, start, first, sum_norm, width, count, value, lanes);
               });
  }

 private:
  GQ_DEVICE uint32_t value_count_at(const GroupUnit& unit, uint32_t block) const {
    return place_of(unit, block, &SegmentPlace::send).in_buffer.value_count;
  }

  /** What the sums of a block are encoded with. All its sharers come here. */
  GQ_DEVICE float norm_of_sums(const GroupUnit& unit, uint32_t block, float norm, uint32_t width,
                               const float (&value)[kThreadValues]) const {
    if (!add.rescale) return static_cast<float>(add.full(width));
    uint32_t own = 0;
    keep_largest_of(value, own);
    const uint32_t peak = largest_of_block(unit, block, own);
    const Rescaled made = add.rescaled_by(norm, width, peak);
    auto* const scales = static_cast<uint16_t*>(piece.scales);
    if (threadIdx.x % kSharers == 0) scales[block_offset(unit, block)] = made.code;
    return made.sum_norm;
  }
};

}  // namespace gq::cuda

#endif
