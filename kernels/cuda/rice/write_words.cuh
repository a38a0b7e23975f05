// A group's words on a device: 128 cells at a time, sixteen of each warp. Unary codes are put
// together in shared memory, so that each word of the message is written once.
#ifndef GQ_KERNELS_CUDA_RICE_WRITE_WORDS_CUH
#define GQ_KERNELS_CUDA_RICE_WRITE_WORDS_CUH

#include <cub/block/block_scan.cuh>
#include <cub/warp/warp_scan.cuh>

#include "kernels/cuda/encode.cuh"
#include "kernels/cuda/rice/find_step.cuh"

namespace gq::cuda {

/** Thresholds for the cells of a warp. */
struct RiceThresholds : Thresholds {
  struct Shared {
    RunWords own, b;
    uint32_t offset[kWarpThreads];  ///< of each group of random words
  };

  /** All lanes come here; first_value: of a run of cells. */
  GQ_DEVICE void draw(const Start& start, uint64_t first_value, Shared& shared) const {
    shared.own.draw(own, start.own, first_value);
    if (strata.count == 1) return;
    shared.b.draw(b, start.b, first_value);
    const uint64_t group = first_value / kGroupValues + lane_here();
    shared.offset[lane_here()] = stratum_offset(strata, factor_bits(start.factors, group));
  }
  GQ_DEVICE uint32_t bits(const Shared& shared, uint32_t cell_of_run) const {
    const uint32_t own_bits = shared.own.bits(cell_of_run);
    if (strata.count == 1) return own_bits;
    const uint32_t group = (cell_of_run * kRiceCell + lane_here()) / kGroupValues;
    return correlated_uniform(strata, own_bits, shared.offset[group], shared.b.bits(cell_of_run));
  }
};

/** Planes and unary bits of cells, as one number that is added. */
struct RiceSize {
  static constexpr uint32_t kPlaneBits = 14;
  static_assert(kRiceGroupCells * kRiceParameterMax < 1u << kPlaneBits);
  static_assert(uint64_t{kRiceGroupCells} * kRiceCellUnaryBits < 1u << (32 - kPlaneBits));
  uint32_t packed;

  static GQ_DEVICE RiceSize of(uint32_t planes, uint32_t unary_bits) {
    return {planes | unary_bits << kPlaneBits};
  }
  GQ_DEVICE uint32_t planes() const { return packed & ((1u << kPlaneBits) - 1); }
  GQ_DEVICE uint32_t unary_bits() const { return packed >> kPlaneBits; }
  GQ_DEVICE uint32_t bits() const { return kRiceCell * planes() + unary_bits(); }
};

/** Load gives the lane's value of a cell. */
template <typename Load>
struct GroupWriter {
  /** Words of unary codes that are not in the message yet: a ring. */
  static constexpr uint32_t kRingWords = 512;
  static_assert(kTileCells * kRiceCellUnaryBits / 32 + 2 <= kRingWords);

  using WarpScan = cub::WarpScan<uint32_t>;
  using Scan = cub::BlockScan<uint32_t, kBlockThreads, cub::BLOCK_SCAN_WARP_SCANS>;

  struct Shared {
    typename Scan::TempStorage scan;
    uint16_t code[kBlockWarps][kRunCells][kRiceCell];
    RiceThresholds::Shared random[kBlockWarps];
    uint32_t ring[kRingWords];
  };

  Shared& shared;
  const RiceGroup group;
  const RiceWords to;
  const RiceThresholds& thresholds;
  const Thresholds::Start start;
  const bool nearest;
  const Load& load;

  /** Codes, of which `room` bits fit. False if these need more: then words are not whole.
   *  toward_zero: no random rounding. */
  GQ_DEVICE bool write_codes(uint32_t step, uint32_t room, bool toward_zero) const {
    const float inverse = 1 / norm_from_code(static_cast<uint16_t>(step));
    __syncthreads();  // threads may still read what was shared last
    for (uint32_t w = threadIdx.x; w < kRingWords; w += kBlockThreads) shared.ring[w] = 0;
    RiceSize before = RiceSize::of(0, 0);
    for (uint32_t tile = 0; tile < group.cells; tile += kTileCells) {
      const uint32_t first = tile + warp_here() * kRunCells;
      const RunOfLane cell = make_codes(first, inverse, toward_zero);
      uint32_t in_tile, all;
      Scan(shared.scan).ExclusiveSum(cell.size.packed, in_tile, all);
      all += before.packed;
      if (RiceSize{all}.bits() > room) return false;  // for all threads
      put_codes(cell, {before.packed + in_tile});
      __syncthreads();  // the scan's memory is used again, too
      flush(before.unary_bits() / 32, RiceSize{all}.unary_bits() / 32);
      before = {all};
    }
    if (threadIdx.x == 0) to.words[0] = step;
    finish(before);
    return true;
  }

  /** A group of one parameter, but for poisoned cells. */
  GQ_DEVICE void write_without_codes(uint32_t parameter) const {
    if (threadIdx.x == 0) to.words[0] = 0;
    for (uint32_t word = 1 + warp_here(); word < to.head_words; word += kBlockWarps) {
      uint32_t parameters = 0;
      for (uint32_t k = 0; k < kRiceWordParameters; ++k) {
        const uint32_t cell = (word - 1) * kRiceWordParameters + k;
        if (cell >= group.cells) break;
        const bool is_poisoned = CellValue(load(cell)).is_poisoned;
        parameters |= (is_poisoned ? kRicePoisoned : parameter) << (kRiceParameterBits * k);
      }
      if (lane_here() == 0) to.words[word] = parameters;
    }
    clear(to.head_words, to.word_count);
  }

  /** Each of the first sixteen lanes has a cell of the run. */
  struct RunOfLane {
    uint32_t parameter = 0;
    RiceSize size = {0};
  };

  GQ_DEVICE RunOfLane make_codes(uint32_t first, float inverse, bool toward_zero) const {
    RunOfLane own;
    if (first >= group.cells) return own;  // for all lanes
    const bool draws = !toward_zero && !nearest;
    auto& random = shared.random[warp_here()];
    __syncwarp();  // lanes may still read the words of the last run
    if (draws) thresholds.draw(start, group.value_of(first), random);
    __syncwarp();
    const uint32_t count = min(kRunCells, group.cells - first);
    for (uint32_t k = 0; k < count; ++k) {
      const CellValue cell(load(first + k));
      const RiceNeighbours both = neighbours_of(nearest, cell.value, inverse);
      uint32_t code = both.near;
      if (draws) code = rice_rounded(cell.value, both, thresholds.bits(random, k));
      shared.code[warp_here()][k][lane_here()] = static_cast<uint16_t>(code);
      const RunOfLane made = sized(cell.is_poisoned, code);
      if (lane_here() == k) own = made;
    }
    put_parameters(first, own.parameter);
    return own;
  }

  /** Of a cell: the same for all lanes. */
  GQ_DEVICE static RunOfLane sized(bool is_poisoned, uint32_t code) {
    if (is_poisoned) return {kRicePoisoned, {0}};
    if (__ballot_sync(kAllLanes, code != 0) == 0) return {kRiceZeros, {0}};
    const uint32_t parameter = rice_parameter_of([&](uint32_t tried) {
      return __reduce_add_sync(kAllLanes, rice_halves(code, tried));
    });
    const uint32_t zeros = __reduce_add_sync(kAllLanes, code >> parameter);
    return {parameter, RiceSize::of(parameter, kRiceCell + zeros)};
  }

  GQ_DEVICE void put_parameters(uint32_t first, uint32_t parameter) const {
    const uint32_t at = kRiceParameterBits * (lane_here() % kRiceWordParameters);
    GQ_UNROLL for (uint32_t k = 0; k < kRunCells; k += kRiceWordParameters) {
      const bool here = lane_here() / kRiceWordParameters == k / kRiceWordParameters;
      const uint32_t word = __reduce_add_sync(kAllLanes, here ? parameter << at : 0);
      if (lane_here() == 0 && first + k < group.cells) {
        to.words[1 + (first + k) / kRiceWordParameters] = word;
      }
    }
  }

  /** before: all cells before the lane's own. */
  GQ_DEVICE void put_codes(const RunOfLane& own, const RiceSize& before) const {
    for (uint32_t k = 0; k < kRunCells; ++k) {
      const RiceSize size{__shfl_sync(kAllLanes, own.size.packed, k)};
      const RiceSize begin{__shfl_sync(kAllLanes, before.packed, k)};
      if (size.packed == 0) continue;  // for all lanes
      const uint32_t code = shared.code[warp_here()][k][lane_here()], parameter = size.planes();
      uint32_t plane = 0;
      for (uint32_t b = 0; b < parameter; ++b) {
        const uint32_t word = __ballot_sync(kAllLanes, (code >> b & 1) != 0);
        if (lane_here() == b) plane = word;
      }
      if (lane_here() < parameter) {
        to.words[to.head_words + begin.planes() + lane_here()] = plane;
      }
      uint32_t end;
      typename WarpScan::TempStorage none;  // lanes exchange registers
      WarpScan(none).InclusiveSum((code >> parameter) + 1, end);
      const uint32_t one = begin.unary_bits() + end - 1;
      atomicAdd(&shared.ring[one / 32 % kRingWords], 1u << one % 32);  // no other has the bit
    }
  }

  /** Words of the string of unary codes: a thread clears the same ones of the ring. */
  GQ_DEVICE void flush(uint32_t first, uint32_t end) const {
    for (uint32_t w = first + threadIdx.x; w < end; w += kBlockThreads) {
      to.words[to.unary_word(w)] = shared.ring[w % kRingWords];
      shared.ring[w % kRingWords] = 0;
    }
  }

  /** The last word of 64 unary bits, and zeros between planes and unary codes. */
  GQ_DEVICE void finish(const RiceSize& all) const {
    const uint32_t unary_words =
        2 * ((all.unary_bits() + kRiceUnaryBits - 1) / kRiceUnaryBits);
    __syncthreads();
    flush(all.unary_bits() / 32, unary_words);
    clear(to.head_words + all.planes(), to.word_count - unary_words);
  }

  GQ_DEVICE void clear(uint32_t first, uint32_t end) const {
    for (uint32_t w = first + threadIdx.x; w < end; w += kBlockThreads) to.words[w] = 0;
  }
};

/** What encodes values of a group, of ranks or of their sum. */
struct GroupEncoderOfRice {
  RiceThresholds thresholds;
  Packing packing;
  uint32_t margin;
  bool nearest;

  template <typename Load>
  struct Shared {
    typename StepFinder<Load>::Shared finder;
    typename GroupWriter<Load>::Shared writer;
  };

  template <typename Load>
  GQ_DEVICE void encode(const RiceGroup& group, const RiceWords& to, const Load& load,
                        Shared<Load>& shared) const {
    const uint32_t room = rice_room(to.word_count / kPlaneWords, group.cells);
    const StepFinder<Load> finder{shared.finder, {group.cells, room, margin}, nearest, load};
    const GroupWriter<Load> writer{shared.writer, group,   to,  thresholds,
                                   thresholds.start(), nearest, load};
    const float largest = finder.largest();
    if (largest == 0) return writer.write_without_codes(kRiceZeros);
    const uint32_t step = finder.find(largest);
    if (step > kRiceStepMax) return writer.write_without_codes(kRicePoisoned);
    if (!writer.write_codes(step, room, false)) (void)writer.write_codes(step, room, true);
  }
};

}  // namespace gq::cuda

#endif
