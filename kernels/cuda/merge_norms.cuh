// The largest of several ranks' norms of blocks.
#ifndef GQ_KERNELS_CUDA_MERGE_NORMS_CUH
#define GQ_KERNELS_CUDA_MERGE_NORMS_CUH

#include "kernels/cuda/launch/access.cuh"
#include "kernels/cuda/launch/body.cuh"
#include "kernels/stages.h"

namespace gq::cuda {

/** The largest of many codes; codes of norms are ordered as they stand. */
struct MergeNorms : BodyDefaults {
  static constexpr uint32_t kCodes = 8;     ///< of a thread
  static constexpr uint32_t kAtOnce = 4;    ///< vectors that a thread has under way
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
    iteration_count =
        static_cast<uint32_t>((norm_count + kCodes * kThreads - 1) / (kCodes * kThreads));
  }

  GQ_HD static uint32_t larger(uint32_t a, uint32_t b) { return a > b ? a : b; }

  template <typename Here>
  GQ_HD void run(Interval<0>, uint32_t iteration, uint32_t, Here local) const {
    const uint64_t first = (uint64_t{iteration} * kThreads + local.thread) * kCodes;
    if (vectors && first + kCodes <= norm_count) return merge_vector(first);
    for (uint64_t k = first; k < first + kCodes && k < norm_count; ++k) {
      uint32_t largest = b[k];
      for (uint32_t number = 0; number < other_count; ++number) {
        largest = larger(other[number][k], largest);
      }
      b[k] = static_cast<uint16_t>(largest);
    }
  }

 private:
  GQ_HD void merge_vector(uint64_t first) const {
    Vector<4> to = load_vector<4>(b + first);
    for (uint32_t number = 0; number < other_count; number += kAtOnce) {
      Vector<4> from[kAtOnce];
      GQ_UNROLL for (uint32_t k = 0; k < kAtOnce; ++k) {
        from[k] = {{0, 0, 0, 0}};
        if (number + k < other_count) from[k] = load_vector<4>(other[number + k] + first);
      }
      GQ_UNROLL for (uint32_t k = 0; k < kAtOnce; ++k) {
        GQ_UNROLL for (uint32_t w = 0; w < 4; ++w) {
          const uint32_t a = from[k].word[w];
          to.word[w] = larger(a & 0xffffu, to.word[w] & 0xffffu) |
                       larger(a & 0xffff0000u, to.word[w] & 0xffff0000u);
        }
      }
    }
    store_vector(b + first, to);
  }
};

template <typename Launcher>
StageError merge_norms_on(Launcher launch, const MergeNormsArgs* args, size_t count) {
  for (size_t done = 0; done < count; done += MergeNorms::kOthersMax) {
    const size_t left = count - done;
    const size_t here = left < MergeNorms::kOthersMax ? left : MergeNorms::kOthersMax;
    const StageError error = launch.run(MergeNorms(args + done, static_cast<uint32_t>(here)));
    if (failed(error)) return error;
  }
  return {};
}

}  // namespace gq::cuda

#endif
