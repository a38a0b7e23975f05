// Reads a group's words on a device, all cells at once. Unary codes have 32 ones for each cell that
// has codes, so that those of a cell begin behind a one whose number is known: it is found by
// counts of ones.
#ifndef GQ_KERNELS_CUDA_RICE_READ_WORDS_CUH
#define GQ_KERNELS_CUDA_RICE_READ_WORDS_CUH

#include <cub/block/block_scan.cuh>

#include "kernels/cuda/rice/rice_stage.cuh"

namespace gq::cuda {

/** The place of a word's one with this number, from 0 on: there is one. */
GQ_DEVICE uint32_t place_of_one(uint32_t word, uint32_t number) {
  uint32_t place = 0;
  GQ_UNROLL for (uint32_t bits = 16; bits > 0; bits /= 2) {
    const uint32_t ones = __popc(word >> place & ((1u << bits) - 1));
    if (number < ones) continue;
    number -= ones;
    place += bits;
  }
  return place;
}

/** One group after the other; whatever its words are, nothing beyond them is read. */
class GroupReader {
 public:
  using Scan = cub::BlockScan<uint32_t, kBlockThreads>;

  struct Shared {
    typename Scan::TempStorage scan;
    uint32_t cell[kRiceGroupCells];       ///< as CellOfGroup has it
    uint32_t begin[kRiceGroupCells + 1];  ///< the bit of a cell's unary codes, of those with codes
    uint32_t before_bad;  ///< cells from the first one on that ends behind the words, to 2^32
  };

  /** All threads of the block come here; afterwards they may read cells. */
  GQ_DEVICE GroupReader(Shared& shared, const RiceGroup& group, const RiceWords& from)
      : shared_(shared), from_(from), step_(norm_from_code(static_cast<uint16_t>(from.words[0]))) {
    __syncthreads();  // threads may still read what was shared last
    const uint32_t coded = list_cells(group.cells);
    const uint32_t found = find_begins(coded);
    __syncthreads();
    find_first_bad(group.cells, found);
    __syncthreads();
    first_bad_ = ~shared.before_bad;
  }

  /** The lane's value: all lanes of a warp come here. `sum`: what it is added to, 0 at first. */
  GQ_DEVICE float add_to(float sum, bool is_first, uint32_t cell) const {
    const CellOfGroup here{shared_.cell[cell]};
    if (cell >= first_bad_ || here.parameter() == kRicePoisoned) {
      return float_from_bits(kFloatNanBits);
    }
    if (here.parameter() == kRiceZeros) return sum;
    const float value = rice_value(code_of(here), step_);
    return is_first ? value : sum + value;
  }

 private:
  static constexpr uint32_t kThreadCells = kRiceGroupCells / kBlockThreads;
  static constexpr uint32_t kThreadUnary = 4;  ///< words of unary codes that a thread counts

  /** Planes and cells with codes before a cell, and its parameter. */
  struct CellOfGroup {
    static constexpr uint32_t kPlaneBits = 14, kCellBits = 14, kParameterAt = 28;
    static_assert(kRiceGroupCells * kRiceParameterMax < 1u << kPlaneBits);
    static_assert(kRiceGroupCells < 1u << kCellBits);
    uint32_t packed;

    GQ_DEVICE uint32_t planes() const { return packed & ((1u << kPlaneBits) - 1); }
    GQ_DEVICE uint32_t coded() const { return packed >> kPlaneBits & ((1u << kCellBits) - 1); }
    GQ_DEVICE uint32_t parameter() const { return packed >> kParameterAt; }
    GQ_DEVICE bool has_codes() const { return parameter() <= kRiceParameterMax; }
  };

  /** Parameters of the thread's cells; those beyond the last have no codes. */
  GQ_DEVICE uint32_t parameter_of(uint32_t cell, uint32_t cells) const {
    if (cell >= cells) return kRiceZeros;
    return rice_parameter_at(from_.words[1 + cell / kRiceWordParameters], cell);
  }

  /** Returns how many cells have codes. */
  GQ_DEVICE uint32_t list_cells(uint32_t cells) const {
    const uint32_t first = threadIdx.x * kThreadCells;
    uint32_t parameter[kThreadCells], before[kThreadCells], all;
    GQ_UNROLL for (uint32_t k = 0; k < kThreadCells; ++k) {
      parameter[k] = parameter_of(first + k, cells);
      const bool has_codes = parameter[k] <= kRiceParameterMax;
      before[k] = has_codes ? parameter[k] | 1u << CellOfGroup::kPlaneBits : 0;
    }
    Scan(shared_.scan).ExclusiveSum(before, before, all);
    GQ_UNROLL for (uint32_t k = 0; k < kThreadCells; ++k) {
      shared_.cell[first + k] = before[k] | parameter[k] << CellOfGroup::kParameterAt;
    }
    if (threadIdx.x == 0) {
      shared_.begin[0] = 0;
      shared_.before_bad = 0;
    }
    __syncthreads();  // the scan's memory is used again
    return CellOfGroup{all}.coded();
  }

  /** 32 bits of the string of unary codes; zeros behind its end. */
  GQ_DEVICE uint32_t unary(uint32_t number) const {
    return number < from_.word_count ? from_.words[from_.unary_word(number)] : 0;
  }

  /** Where cells with codes end, which is where the next ones begin. Returns of how many there are
   *  all ones. */
  GQ_DEVICE uint32_t find_begins(uint32_t coded) const {
    uint32_t found = 0;  // ones
    for (uint32_t tile = 0; tile < from_.word_count && found < coded * kRiceCell;
         tile += kBlockThreads * kThreadUnary) {
      const uint32_t first = tile + threadIdx.x * kThreadUnary;
      uint32_t word[kThreadUnary], in_tile[kThreadUnary], all;
      GQ_UNROLL for (uint32_t k = 0; k < kThreadUnary; ++k) {
        word[k] = unary(first + k);
        in_tile[k] = __popc(word[k]);
      }
      Scan(shared_.scan).ExclusiveSum(in_tile, in_tile, all);
      GQ_UNROLL for (uint32_t k = 0; k < kThreadUnary; ++k) {
        const uint32_t before = found + in_tile[k], cell = before / kRiceCell + 1;
        if (before + __popc(word[k]) < cell * kRiceCell || cell > coded) continue;
        const uint32_t last = place_of_one(word[k], cell * kRiceCell - before - 1);
        shared_.begin[cell] = 32 * (first + k) + last + 1;  // at most one cell ends here
      }
      found += all;
      __syncthreads();  // the scan's memory is used again
    }
    return min(found / kRiceCell, coded);
  }

  GQ_DEVICE void find_first_bad(uint32_t cells, uint32_t found) const {
    uint32_t bad = 0;
    GQ_UNROLL for (uint32_t k = kThreadCells; k > 0; --k) {
      const uint32_t cell = threadIdx.x * kThreadCells + k - 1;
      const CellOfGroup here{shared_.cell[cell]};
      if (cell < cells && here.has_codes() && is_bad(here, found)) bad = ~cell;
    }
    raise_together(&shared_.before_bad, bad);
  }

  /** Whether planes end behind the words, or 96 bits have fewer than 32 ones. */
  GQ_DEVICE bool is_bad(const CellOfGroup& cell, uint32_t found) const {
    if (from_.head_words + cell.planes() + cell.parameter() > from_.word_count) return true;
    if (cell.coded() >= found) return true;
    return shared_.begin[cell.coded() + 1] - shared_.begin[cell.coded()] > kRiceCellUnaryBits;
  }

  /** The lane's code of a cell that is not bad. */
  GQ_DEVICE uint32_t code_of(const CellOfGroup& cell) const {
    const uint32_t parameter = cell.parameter();
    uint32_t plane = 0;
    if (lane_here() < parameter) {
      plane = from_.words[from_.head_words + cell.planes() + lane_here()];
    }
    uint32_t code = unary_code(shared_.begin[cell.coded()]) << parameter;
    for (uint32_t b = 0; b < parameter; ++b) {
      code |= (__shfl_sync(kAllLanes, plane, b) >> lane_here() & 1) << b;
    }
    return code;
  }

  /** The lane's number of zeros before its one. */
  GQ_DEVICE uint32_t unary_code(uint32_t begin) const {
    const uint32_t word = begin / 32, used = begin % 32;
    const uint32_t own = lane_here() < 4 ? unary(word + lane_here()) : 0;
    uint32_t part[3], low = __shfl_sync(kAllLanes, own, 0);
    GQ_UNROLL for (uint32_t k = 0; k < 3; ++k) {
      const uint32_t high = __shfl_sync(kAllLanes, own, k + 1);
      part[k] = static_cast<uint32_t>((uint64_t{high} << 32 | low) >> used);
      low = high;
    }
    const uint32_t in_first = __popc(part[0]), in_two = in_first + __popc(part[1]);
    uint32_t end = 0;
    if (lane_here() < in_first) {
      end = place_of_one(part[0], lane_here());
    } else if (lane_here() < in_two) {
      end = 32 + place_of_one(part[1], lane_here() - in_first);
    } else {
      end = 64 + place_of_one(part[2], lane_here() - in_two);
    }
    const uint32_t last = __shfl_up_sync(kAllLanes, end, 1);
    return lane_here() == 0 ? end : end - last - 1;
  }

  Shared& shared_;
  const RiceWords from_;
  const float step_;
  uint32_t first_bad_;
};

}  // namespace gq::cuda

#endif
