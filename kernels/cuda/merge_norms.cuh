// The largest of several ranks' norms of blocks.
#ifndef GQ_KERNELS_CUDA_MERGE_NORMS_CUH
#define GQ_KERNELS_CUDA_MERGE_NORMS_CUH

#include "kernels/cuda/launch/access.cuh"
#include "kernels/cuda/launch/launch.cuh"

namespace gq::cuda {

/** The largest of many codes; codes of norms are ordered as they stand. */
struct MergeNorms : StageDefaults {
  static constexpr uint32_t kCodes = 8;   ///< of a thread
  static constexpr uint32_t kAtOnce = 4;  ///< vectors that a thread has under way
  static constexpr uint32_t kOthersMax = 64;
  const uint16_t* other[kOthersMax];
  uint32_t other_count;
  uint16_t* b;
  uint64_t norm_count;
  bool vectors;

  MergeNorms(const MergeNormsArgs* args, uint32_t count)
      : other_count(count),
        b(args->b),
        norm_count(args->norm_count),
        vectors(is_aligned(args->b, 16)) {
    for (uint32_t k = 0; k < kOthersMax; ++k) {
      other[k] = k < count ? args[k].a : nullptr;
      vectors = vectors && is_aligned(other[k], 16);
    }
  }
  uint32_t iterations() const {
    return static_cast<uint32_t>((norm_count + kCodes * kThreads - 1) / (kCodes * kThreads));
  }

  GQ_DEVICE void merge(uint64_t first) const {
    if (vectors && first + kCodes <= norm_count) return merge_vector(first);
    for (uint64_t k = first; k < first + kCodes && k < norm_count; ++k) {
      uint32_t largest = b[k];
      for (uint32_t number = 0; number < other_count; ++number) {
        largest = max(largest, uint32_t{other[number][k]});
      }
      b[k] = static_cast<uint16_t>(largest);
    }
  }

 private:
  GQ_DEVICE void merge_vector(uint64_t first) const {
    Vector<4> to = load_vector<4>(b + first);
    for (uint32_t number = 0; number < other_count; number += kAtOnce) {
      Vector<4> from[kAtOnce];
      GQ_UNROLL for (uint32_t k = 0; k < kAtOnce; ++k) {
        from[k] = {{0, 0, 0, 0}};
        if (number + k < other_count) from[k] = load_vector<4>(other[number + k] + first);
      }
      GQ_UNROLL for (uint32_t k = 0; k < kAtOnce; ++k) {
        GQ_UNROLL for (uint32_t w = 0; w < 4; ++w) {
          to.word[w] = __vmaxu2(to.word[w], from[k].word[w]);
        }
      }
    }
    store_vector(b + first, to);
  }
};

__global__ void __launch_bounds__(kBlockThreads, 3)
    merge_norms_kernel(const __grid_constant__ MergeNorms stage) {
  const uint64_t step = uint64_t{gridDim.x} * kBlockThreads * MergeNorms::kCodes;
  const uint64_t first = uint64_t{blockIdx.x} * kBlockThreads + threadIdx.x;
  for (uint64_t k = first * MergeNorms::kCodes; k < stage.norm_count; k += step) stage.merge(k);
}

}  // namespace gq::cuda

#endif
