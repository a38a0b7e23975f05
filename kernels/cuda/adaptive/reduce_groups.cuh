// Wide sums, where widths are adaptive: planes of all operands are added bit by bit, sixteen values
// at once, and become numbers when all have been.
#ifndef GQ_KERNELS_CUDA_ADAPTIVE_REDUCE_GROUPS_CUH
#define GQ_KERNELS_CUDA_ADAPTIVE_REDUCE_GROUPS_CUH

#include "kernels/cuda/adaptive/group_codes.cuh"
#include "kernels/cuda/adaptive/group_norms.cuh"

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

/** Thresholds: as of sum_thresholds(). */
template <typename Thresholds>
struct ReduceGroups : GroupStage {
  static constexpr uint32_t kBlocksAtOnce = 2;
  using Shared = EncodedUnit;
  GroupEncoder<Thresholds> encoder;
  uint32_t ranks;
  bool rescale;
  const uint32_t* const* operands = nullptr;
  const void* norms = nullptr;
  uint32_t* words = nullptr;
  uint16_t* scales = nullptr;

  ReduceGroups(const ReduceManyArgs& args, uint64_t values_in_all)
      : GroupStage(*args.range.grouped, args.coding.mean_half_bits, args.norms, values_in_all),
        encoder{sum_thresholds<Thresholds>(args), args.coding.rounding == Rounding::nearest},
        ranks(args.coding.ranks),
        rescale(args.coding.rescale) {}

  GQ_HD void set(const Piece& piece) {
    GroupStage::set(piece);
    operands = static_cast<const uint32_t* const*>(piece.values);
    norms = piece.norms;
    words = static_cast<uint32_t*>(piece.words);
    scales = static_cast<uint16_t*>(piece.scales);
  }

  GQ_DEVICE void run(const GroupUnit& unit, Shared& shared) const {
    const GroupWidths widths(shared.widths, code_of_thread(norms, unit), unit.plane_count);
    const typename Thresholds::Start start = encoder.thresholds.start();
    write_unit(unit, widths, shared.planes, words + word_offset(unit),
               [&](uint32_t block, LaneWords& lanes) {
                 const uint32_t width = widths.width(block);
                 const uint64_t first = value_of(unit, block);
                 const uint32_t count = value_count_at(unit, block);
                 float value[kThreadValues] = {};
                 if (width > 0) {
                   const uint64_t half = 2 * word_offset(unit) +
                                         half_of_thread(widths.first_plane(block));
                   add(half, width, count, value);
                 }
                 const float sum_norm = norm_of_sums(unit, block, widths.norm(block), width, value);
                 if (width == 0) return;
                 encoder.encode(start, first, sum_norm, width, count, value, lanes);
               });
  }

 private:
  GQ_DEVICE uint32_t value_count_at(const GroupUnit& unit, uint32_t block) const {
    return place_of(unit, block, &SegmentPlace::send).in_buffer.value_count;
  }

  /** half: where all operands have the thread's half of the block's plane 0. */
  GQ_DEVICE void add(uint64_t half, uint32_t width, uint32_t count,
                     float (&value)[kThreadValues]) const {
    const auto offset = static_cast<int32_t>(ranks * steps_of_width(width));
    int32_t total[kThreadValues];
    GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) total[e] = -offset;
    for (uint32_t first = 0; first < ranks; first += PlaneSums::kOperandsMax) {
      const uint32_t end = min(first + PlaneSums::kOperandsMax, ranks);
      PlaneSums sums;
      for (uint32_t rank = first; rank < end; ++rank) {
        const auto* const from = reinterpret_cast<const uint16_t*>(kept(operands[rank]));
        uint32_t planes[kWidthMax];
        get_planes(from + half, width, planes);
        sums.add(planes);
      }
      sums.add_to(total);
    }
    GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
      value[e] = e < count ? static_cast<float>(total[e]) : 0;
    }
  }

  /** What the sums of a block are encoded with. All its sharers come here. */
  GQ_DEVICE float norm_of_sums(const GroupUnit& unit, uint32_t block, float norm, uint32_t width,
                               const float (&value)[kThreadValues]) const {
    const double full = static_cast<double>(ranks) * steps_of_width(width);
    if (!rescale) return static_cast<float>(full);
    uint32_t own = 0;
    keep_largest_of(value, own);
    const float peak = float_from_bits(largest_of_block(unit, block, own));
    const Rescaled made = rescaled(norm, peak, full);
    if (threadIdx.x % kSharers == 0) scales[block_offset(unit, block)] = made.code;
    return made.sum_norm;
  }
};

}  // namespace gq::cuda

#endif
