// The randomised Hadamard rotation (docs/FORMAT.md, section 12) by the threads of a block, sixteen
// values each.
#ifndef GQ_KERNELS_CUDA_ROTATE_CUH
#define GQ_KERNELS_CUDA_ROTATE_CUH

#include "kernels/codec/rotate.h"
#include "kernels/cuda/keyed_stream.cuh"
#include "kernels/cuda/launch/access.cuh"

namespace gq::cuda {

/** The length of the rotation that has value `position`, where `codes` (a multiple of 128) are left
 *  from position 0 on. */
GQ_DEVICE uint32_t rotation_length_at(uint32_t position, uint64_t codes) {
  if (codes >= kRotationValues) return kRotationValues;
  uint32_t first = 0, length = rotation_length(codes);
  while (position >= first + length && first + length < codes) {
    first += length;
    length = rotation_length(codes - first);
  }
  return length;
}

/** Where a value of a rotation is in shared memory, in words. Some are left out, so that the lanes
 *  of a warp are in different banks in each layout of a Rotation. */
GQ_HD constexpr uint32_t shared_place(uint32_t value) {
  return value + value / 32 * 4 + value / 256 * 16;
}

/** In the place of a Rotation where values are not rotated. */
struct NoRotation {
  static constexpr bool kTogether = false;
  struct Shared {};

  GQ_DEVICE NoRotation(Shared&, const KeyedStream&) {}
  GQ_DEVICE void run(uint64_t, uint64_t, uint64_t, const float (&)[kThreadValues]) {}
};

/** The rotation of a block's threads, or back. A thread adds values in three layouts, so that pairs
 *  of each distance are its own: sixteen that follow each other (1 to 8), every sixteenth of 256
 *  (16 to 128), and four of each 256 (256 and 512). From one layout to the next they go through
 *  shared memory, where a thread writes to the places that it has read. */
template <bool kBack, uint32_t kThreads>
class Rotation {
 public:
  static constexpr bool kTogether = true;  ///< all threads of a block come to run()
  static constexpr uint32_t kRotationThreads = kRotationValues / kThreadValues;
  static constexpr uint32_t kCount = kThreads / kRotationThreads;  ///< rotations at once

  struct Shared {
    alignas(16) float value[kCount][shared_place(kRotationValues)];
    /** Words of signs, in this run and in the last one. */
    alignas(16) uint32_t signs[2][kThreads * kThreadValues / kSignsPerWord];
  };

  GQ_DEVICE Rotation(Shared& shared, const KeyedStream& signs) : shared_(shared), signs_(signs) {}

  /** first_value: of the range in the call; offset: of the thread's first value in the range, which
   *  has code_count codes. */
  GQ_DEVICE void run(uint64_t first_value, uint64_t offset, uint64_t code_count,
                     float (&value)[kThreadValues]) {
    const uint32_t position = threadIdx.x % kRotationThreads * kThreadValues;
    const uint64_t first = offset - position;
    const uint64_t codes = first < code_count ? code_count - first : 0;
    const uint32_t length = rotation_length_at(position, codes);
    draw_signs(first_value + offset - threadIdx.x * kThreadValues);
    if constexpr (!kBack) {
      __syncthreads();  // signs are there
      const uint32_t signs = own_signs();
      GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
        value[e] = rotation_in(value[e], rotation_sign(signs, e), length);
      }
    }
    add_all(codes, value);
    if constexpr (kBack) {
      const uint32_t signs = own_signs();
      GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
        value[e] = rotation_out(value[e], rotation_sign(signs, e), length);
      }
    }
    run_ += 1;
  }

 private:
  using Values = float[kThreadValues];

  /** A layout in shared memory: runs of kRun values, kApart values apart. */
  template <uint32_t kRun, uint32_t kApart>
  struct Layout {
    float* first;

    GQ_DEVICE float* run(uint32_t number) const { return first + shared_place(number * kApart); }
    GQ_DEVICE void store(const Values& value) const {
      GQ_UNROLL for (uint32_t n = 0; n < kThreadValues / kRun; ++n) {
        if constexpr (kRun == 4) {
          Vector<4> vector;
          GQ_UNROLL for (uint32_t k = 0; k < 4; ++k) vector.word[k] = float_bits(value[4 * n + k]);
          store_shared_vector(run(n), vector);
        } else {
          *run(n) = value[n];
        }
      }
    }
    GQ_DEVICE void load(Values& value) const {
      GQ_UNROLL for (uint32_t n = 0; n < kThreadValues / kRun; ++n) {
        const Vector<kRun> vector = load_vector<kRun>(run(n));
        GQ_UNROLL for (uint32_t k = 0; k < kRun; ++k) {
          value[kRun * n + k] = float_from_bits(vector.word[k]);
        }
      }
    }
  };

  /** codes: from the first value of the rotation on. Shorter rotations are the largest powers of 2
   *  that fit: pairs `distance` apart are added where 2 * distance values are left whole. */
  GQ_DEVICE void add_all(uint64_t codes, Values& value) const {
    const uint32_t thread = threadIdx.x % kRotationThreads;
    float* const shared = shared_.value[threadIdx.x / kRotationThreads];
    const uint32_t chunk = thread / kThreadValues;
    const Layout<4, 4> neighbours{shared + shared_place(thread * kThreadValues)};
    const Layout<1, 16> sixteenths{shared + shared_place(chunk * 256 + thread % kThreadValues)};
    const Layout<4, 256> quarters{shared + shared_place(thread * 4)};

    hadamard(value, kThreadValues);
    neighbours.store(value);
    __syncthreads();
    sixteenths.load(value);
    hadamard(value, 8);
    hadamard(value + 8, 8);
    if ((chunk + 1) * 256 <= codes) add_pairs(value, kThreadValues, 8);
    sixteenths.store(value);
    __syncthreads();
    quarters.load(value);
    if (codes >= 512) add_pairs(value, 8, 4);
    if (codes >= kRotationValues) {
      add_pairs(value + 8, 8, 4);
      add_pairs(value, kThreadValues, 8);
    }
    quarters.store(value);
    __syncthreads();
    neighbours.load(value);
  }

  /** The signs of all values of the block, of which `first` is the first, by one warp: another one
   *  in each run. */
  GQ_DEVICE void draw_signs(uint64_t first) {
    constexpr uint32_t kGroups = kThreads * kThreadValues / kSignGroupValues;
    static_assert(kGroups <= 32, "of one warp");
    const uint32_t lane = threadIdx.x % kWarpThreads;
    if (threadIdx.x / kWarpThreads != run_ % (kThreads / kWarpThreads) || lane >= kGroups) return;
    const PhiloxBlock drawn = random_group(signs_, first / kSignGroupValues + lane);
    const uint32_t* const word = drawn.word;
    store_vector(&shared_.signs[run_ % 2][4 * lane],
                 Vector<4>{{word[0], word[1], word[2], word[3]}});
  }
  /** Of the thread's values, from bit 0 on. */
  GQ_DEVICE uint32_t own_signs() const {
    const uint32_t position = threadIdx.x * kThreadValues;
    return shared_.signs[run_ % 2][position / kSignsPerWord] >> (position % kSignsPerWord);
  }

  Shared& shared_;
  const KeyedStream& signs_;
  uint32_t run_ = 0;
};

}  // namespace gq::cuda

#endif
