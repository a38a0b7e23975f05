// The randomised Hadamard rotation (docs/FORMAT.md, section 12) by the threads of a block, sixteen
// values each: distances 1..8 are among a thread's own values, 16..256 among the lanes of a warp,
// and 512 between two warps.
#ifndef GQ_KERNELS_CUDA_ROTATE_CUH
#define GQ_KERNELS_CUDA_ROTATE_CUH

#include "kernels/codec/rotate.h"
#include "kernels/cuda/launch/access.cuh"
#include "kernels/cuda/keyed_stream.cuh"

namespace gq::cuda {

/** The length of the rotation that has value `position`, where `codes` (a multiple of 128) are left
 *  from position 0 on. */
__device__ __forceinline__ uint32_t rotation_length_at(uint32_t position, uint64_t codes) {
  if (codes >= kRotationValues) return kRotationValues;
  uint32_t first = 0, length = rotation_length(codes);
  while (position >= first + length && first + length < codes) {
    first += length;
    length = rotation_length(codes - first);
  }
  return length;
}

/** The rotation of a block's threads, or back. What is shared lies so that neighbouring threads are
 *  in neighbouring banks. */
template <bool kBack, uint32_t kThreads>
class Rotation {
 public:
  static constexpr uint32_t kRotationThreads = kRotationValues / kThreadValues;
  struct Shared {
    float value[kThreadValues][kThreads];
  };

  __device__ __forceinline__ Rotation(Shared& shared, const KeyedStream& signs)
      : shared_(shared), signs_(signs) {}

  /** All threads of the block come here. first_value: of the range in the call; offset: of the
   *  thread's first value in the range, which has code_count codes. */
  __device__ __forceinline__ void run(uint64_t first_value, uint64_t offset, uint64_t code_count,
                                      float (&value)[kThreadValues]) const {
    const uint32_t position = threadIdx.x % kRotationThreads * kThreadValues;
    const uint64_t first = offset - position;
    const uint64_t codes = first < code_count ? code_count - first : 0;
    const uint64_t number = first_value + offset;
    const uint32_t signs = sign_word(number) >> (number % kSignsPerWord);
    uint32_t length = kRotationValues;
    if (__ballot_sync(~0u, codes >= kRotationValues) == ~0u) {
      rotate_in_warp<true>(signs, length, value);
    } else {
      length = rotation_length_at(position, codes);
      rotate_in_warp<false>(signs, length, value);
    }
    exchange_warps(length, value);
    if constexpr (kBack) {
      GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
        value[e] = rotation_out(value[e], rotation_sign(signs, e), length);
      }
    }
  }

 private:
  /** kWhole: the length is kRotationValues, for all lanes of the warp. */
  template <bool kWhole>
  __device__ __forceinline__ static void rotate_in_warp(uint32_t signs, uint32_t length,
                                                        float (&value)[kThreadValues]) {
    if constexpr (!kBack) {
      GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
        value[e] = rotation_in(value[e], rotation_sign(signs, e), length);
      }
    }
    hadamard(value, kThreadValues);
    exchange_lanes<kWhole>(length, value);
  }

  /** Of a pair the first becomes the sum, the second, whose sign is -1, the difference: one
   *  instruction with the bits of two, as the product is exact. */
  __device__ __forceinline__ static float sum(float sign, float own, float other) {
    return __fmaf_rn(own, sign, other);
  }
  /** Of this thread, where pairs are so many threads apart. */
  __device__ __forceinline__ static float sign_at(uint32_t distance) {
    return (threadIdx.x & distance) != 0 ? -1.0f : 1.0f;
  }

  template <bool kWhole>
  __device__ __forceinline__ static void exchange_lanes(uint32_t length,
                                                        float (&value)[kThreadValues]) {
    GQ_UNROLL for (uint32_t distance = 1; distance < kWarpThreads; distance *= 2) {
      const float sign = sign_at(distance);
      const bool takes_part = kWhole || distance * kThreadValues < length;
      GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
        const float other = __shfl_xor_sync(~0u, value[e], distance);
        if (takes_part) value[e] = sum(sign, value[e], other);
      }
    }
  }

  __device__ __forceinline__ void exchange_warps(uint32_t length,
                                                 float (&value)[kThreadValues]) const {
    __syncthreads();  // threads may still read what was exchanged last
    GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) shared_.value[e][threadIdx.x] = value[e];
    __syncthreads();
    if (length < kRotationValues) return;
    const float sign = sign_at(kWarpThreads);
    GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
      value[e] = sum(sign, value[e], shared_.value[e][threadIdx.x ^ kWarpThreads]);
    }
  }

  /** The word with the signs of a thread's values. */
  __device__ __forceinline__ uint32_t sign_word(uint64_t value) const {
    const PhiloxBlock block = random_group(signs_, value / kSignGroupValues);
    const uint32_t number = static_cast<uint32_t>(value / kSignsPerWord) % 4;
    const uint32_t low = number & 1 ? block.word[1] : block.word[0];
    const uint32_t high = number & 1 ? block.word[3] : block.word[2];
    return number & 2 ? high : low;
  }

  Shared& shared_;
  const KeyedStream& signs_;
};

}  // namespace gq::cuda

#endif
