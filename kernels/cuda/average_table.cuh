// What every pair of 4-bit exponential codes averages to, in shared memory: the divisions are done
// once for a block of threads.
#ifndef GQ_KERNELS_CUDA_AVERAGE_TABLE_CUH
#define GQ_KERNELS_CUDA_AVERAGE_TABLE_CUH

#include "kernels/codec/exponential_words.h"

namespace gq::cuda {

/** A row for each pair, and in it the same number for each bank of the memory: threads of a warp
 *  look up different pairs at once, each in a bank of its own. */
struct AverageTable {
  static constexpr uint32_t kBanks = 32;
  static constexpr uint32_t kPairs = 256;
  uint32_t row[kPairs][kBanks];

  /** The thread's row. Bits 1 to 7 of its number are a's lane and b's code, bit 0 is b's sign:
   * parts of bytes, as places() has them. */
  template <bool kShort>
  GQ_HD void fill_row(uint32_t number, uint32_t weight_a, uint32_t weight_b) {
    const uint32_t lane_a = (number >> 1) & 15, lane_b = number >> 5 | (number & 1) << 3;
    const AverageOutcome outcome = exponential_average_outcome(lane_a, lane_b, weight_a, weight_b);
    const uint32_t entry = kShort ? short_average(outcome) : average_addend(outcome);
    GQ_UNROLL for (uint32_t k = 0; k < kBanks; ++k) { row[number][(number + k) % kBanks] = entry; }
  }

  GQ_HD uint32_t at(uint32_t offset_bytes) const {
    return *reinterpret_cast<const uint32_t*>(reinterpret_cast<const char*>(row) + offset_bytes);
  }
};

/** The places in the table of a word's eight pairs, of even values and of odd ones: an byte of
 *  `upper` above one of `lower` is the offset, in bytes, of a pair's number in the thread's bank.
 */
struct AveragePlaces {
  uint32_t upper[2];
  uint32_t lower[2];

  GQ_HD AveragePlaces(uint32_t a, uint32_t b, uint32_t thread) {
    const uint32_t bank = thread % AverageTable::kBanks * 4 * kByteOnes;
    const uint32_t codes = b & 0x77777777u;
    upper[0] = merged_bits(0x0f0f0f0fu, a, codes << 4);
    upper[1] = merged_bits(0x0f0f0f0fu, a >> 4, codes);
    lower[0] = merged_bits(kByteSigns, b << 4, bank);
    lower[1] = merged_bits(kByteSigns, b, bank);
  }

  /** No byte of `upper` has its leading bit set: that sign fills the rest. */
  GQ_HD uint32_t offset_bytes(uint32_t value) const {
    const uint32_t byte = value / 2;
    return byte_permute(upper[value % 2], lower[value % 2],
                        (8 + byte) * 0x1100 | byte << 4 | (4 + byte));
  }
};

}  // namespace gq::cuda

#endif
