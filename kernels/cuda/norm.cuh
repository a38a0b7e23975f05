// Norm stage: the largest magnitude of a range, or a sum in the one order that docs/FORMAT.md
// allows. Norms of blocks are in block_norms.cuh.
#ifndef GQ_KERNELS_CUDA_NORM_CUH
#define GQ_KERNELS_CUDA_NORM_CUH

#include <cub/block/block_reduce.cuh>

#include "kernels/codec/norm.h"
#include "kernels/cuda/block_norms.cuh"

namespace gq::cuda {

using BlockMax = cub::BlockReduce<uint32_t, kBlockThreads>;

/** That of libcu++ is not there in CUDA 12.1. */
struct Max {
  GQ_DEVICE uint32_t operator()(uint32_t a, uint32_t b) const { return max(a, b); }
};

/** Where the largest magnitude of a call goes. Without running words blocks raise the result, which
 *  was cleared. With them the last block writes it, the one with which all iterations are counted,
 *  and leaves them 0. */
struct LargestResult {
  uint32_t* out = nullptr;
  uint32_t* running = nullptr;
  uint32_t iterations_in_all = 1;

  /** What the threads of a block have found in so many iterations. All of them come here. */
  GQ_DEVICE void add(uint32_t largest, uint32_t iterations) const {
    __shared__ typename BlockMax::TempStorage storage;
    const uint32_t of_block = BlockMax(storage).Reduce(largest, Max());
    if (threadIdx.x == 0) add_block(of_block, iterations);
    __syncthreads();  // the storage is used again
  }

 private:
  GQ_DEVICE void add_block(uint32_t largest, uint32_t iterations) const {
    if (running == nullptr) {
      atomicMax(out, largest);
      return;
    }
    atomicMax(running, largest);
    __threadfence();  // what other blocks have raised is there for the one that counts the last
    if (atomicAdd(running + 1, iterations) + iterations != iterations_in_all) return;
    __threadfence();
    *out = atomicExch(running, 0);
    atomicExch(running + 1, 0);
  }
};

template <typename Element>
struct Largest : VectorStage<Element> {
  using Base = VectorStage<Element>;
  LargestResult result;

  explicit Largest(const NormArgs& args) {
    result.running = args.running;
    set(piece_of(args));
    result.iterations_in_all = this->iterations();
  }

  GQ_HD void set(const Piece& piece) {
    Base::set(piece);
    result.out = static_cast<uint32_t*>(piece.words);
  }

  GQ_DEVICE void take(uint32_t iteration, uint32_t& largest) const {
    uint32_t here[Base::kVectors];
    this->load(this->first_of(iteration), here);
    GQ_UNROLL for (uint32_t k = 0; k < Base::kVectors; ++k) largest = max(largest, here[k]);
  }
};

template <typename Element>
__global__ void __launch_bounds__(kBlockThreads, 3)
    largest_kernel(const __grid_constant__ Pieces<Largest<Element>> pieces) {
  for_each_piece(pieces, [](const Largest<Element>& stage, const Iterations& iterations) {
    uint32_t largest = 0, count = 0;
    for (uint32_t k = iterations.first; k < iterations.end; k += gridDim.x) {
      stage.take(k, largest);
      count += 1;
    }
    stage.result.add(largest, count);
  });
}

struct LargestRotated : ValueStage {
  static constexpr uint32_t kBlocksAtOnce = 2;
  struct Own {
    uint32_t largest, iterations;
  };
  ValueSource<> source;
  LargestResult result;

  explicit LargestRotated(const NormArgs& args)
      : ValueStage(args.range, true), source(args) {
    result = {static_cast<uint32_t*>(args.out), args.running, iterations()};
  }

  GQ_HD void set(const Piece& piece) {
    set_range(piece.first_value, piece.value_count);
    source.set(piece.values);
    result.out = static_cast<uint32_t*>(piece.words);
  }

  GQ_DEVICE Own begin() const { return {0, 0}; }
  GQ_DEVICE void give(const Place& place, const Own&, float (&value)[kThreadValues]) const {
    source.load(place, value);
  }
  GQ_DEVICE void take(const Place&, Own& own, const float (&value)[kThreadValues]) const {
    keep_largest_of(value, own.largest);
    own.iterations += 1;
  }
  GQ_DEVICE void end(const Own& own) const { result.add(own.largest, own.iterations); }
};

/** The sum of each group of values, in the order of the format: a thread has 16 of its lanes, and
 *  an iteration is a group of the call, which begins where the range may not. */
struct GroupSums : ValueStage {
  static constexpr uint32_t kThreads = kNormLanes / kThreadValues;
  ValueSource<> source;
  double* group_sums;

  explicit GroupSums(const NormArgs& args)
      : ValueStage(args.range, args.rotated),
        source(args),
        group_sums(static_cast<double*>(args.workspace)) {}

  GQ_HD uint32_t group_count() const {
    return static_cast<uint32_t>(norm_group_count(first_value, code_count));
  }
  /** Values before the range are none: their offset is beyond every end. */
  GQ_DEVICE Place place(uint32_t group, uint32_t part) const {
    const uint64_t number = first_value / kNormGroupValues + group;
    const uint64_t value = number * kNormGroupValues + part * uint64_t{kNormLanes};
    return place_at(value - first_value, threadIdx.x * kThreadValues);
  }
};

/** The lanes of a group: a thread's k-th is in row k, and one place of a row is left out, so that
 *  neither rows nor columns are in the same banks. */
using NormLanes = double[kThreadValues][GroupSums::kThreads + 1];

/** The lanes, halved until one is left. Not by cub::BlockReduce: the format fixes the order of
 *  additions. */
GQ_DEVICE double sum_of_lanes(const double (&own)[kThreadValues], NormLanes& lane) {
  __syncthreads();  // the last sum may still be read
  GQ_UNROLL for (uint32_t k = 0; k < kThreadValues; ++k) lane[k][threadIdx.x] = own[k];
  for (uint32_t half = GroupSums::kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    for (uint32_t n = threadIdx.x; n < kThreadValues * half; n += GroupSums::kThreads) {
      lane[n / half][n % half] += lane[n / half][n % half + half];
    }
  }
  for (uint32_t half = kThreadValues / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) lane[threadIdx.x][0] += lane[threadIdx.x + half][0];
  }
  return lane[0][0];
}

template <NormOrder kOrder>
__global__ void __launch_bounds__(GroupSums::kThreads, 8)
    group_sums_kernel(const __grid_constant__ GroupSums stage,
                      const __grid_constant__ KeyedStream signs) {
  using Rotate = Rotation<false, GroupSums::kThreads>;
  __shared__ typename Rotate::Shared rotated;
  __shared__ NormLanes lane;
  Rotate rotation(rotated, signs);
  for (uint32_t group = blockIdx.x; group < stage.group_count(); group += gridDim.x) {
    double sum[kThreadValues] = {};
    for (uint32_t part = 0; part < kNormGroupValues / kNormLanes; ++part) {
      const Place place = stage.place(group, part);
      float value[kThreadValues];
      stage.source.load<GroupSums::kThreads>(place, value);
      if (stage.is_rotated) {
        rotation.run(stage.first_value, place.offset, stage.code_count, value);
      }
      // Zeros beyond the last value change no sum.
      if (place.code_count == 0) continue;
      GQ_UNROLL for (uint32_t k = 0; k < kThreadValues; ++k) sum[k] += norm_term(kOrder, value[k]);
    }
    const double total = sum_of_lanes(sum, lane);
    if (threadIdx.x == 0) stage.group_sums[group] = total;
  }
}

/** One thread adds the groups in order, which all threads of its block load; a float is the norm of
 *  a group of one rank, for which p adds nothing. */
template <NormOrder kOrder, typename Out>
__global__ void __launch_bounds__(kBlockThreads)
    total_kernel(const double* group_sums, uint64_t group_count, Out* out) {
  __shared__ double loaded[kBlockThreads];
  double total = 0;
  for (uint64_t first = 0; first < group_count; first += kBlockThreads) {
    const uint64_t group = first + threadIdx.x;
    __syncthreads();  // the last ones may still be read
    loaded[threadIdx.x] = group < group_count ? group_sums[group] : 0;
    __syncthreads();
    if (threadIdx.x != 0) continue;
    for (uint32_t k = 0; k < kBlockThreads; ++k) total += loaded[k];  // zeros change no sum
  }
  if (threadIdx.x != 0) return;
  if constexpr (sizeof(Out) == sizeof(float)) {
    GlobalNorm norm(kOrder, NormOrder::inf);
    norm.merge(norm_words(double_bits(total)));
    *out = norm.result();
  } else {
    *out = total;
  }
}

/** Sums of calls follow each other, because they share their workspace. */
template <NormOrder kOrder>
StageError norm_sums(const Launcher& launcher, const NormCalls& calls) {
  for (size_t k = 0; k < calls.count; ++k) {
    const NormArgs& args = calls.args[k];
    const GroupSums stage(args);
    const uint32_t groups = stage.group_count();
    const auto total = [&]<typename Out>(Out* out) {
      launcher.launch<total_kernel<kOrder, Out>>(1, kBlockThreads, stage.group_sums, groups, out);
    };
    launcher.run<group_sums_kernel<kOrder>>(groups, stage,
                                            shared_stream(args.random, Draw::signs));
    args.as_numbers ? total(static_cast<float*>(args.out)) : total(static_cast<double*>(args.out));
  }
  return launcher.error();
}

/** Results that follow each other are cleared at once. */
inline void clear_results(const Launcher& launcher, const NormCalls& calls) {
  for (size_t first = 0, next = 0; first < calls.count; first = next) {
    auto* const begin = static_cast<unsigned char*>(calls.args[first].out);
    auto* end = begin + sizeof(uint32_t);
    for (next = first + 1; next < calls.count; ++next) {
      auto* const out = static_cast<unsigned char*>(calls.args[next].out);
      if (out < end || out > end + sizeof(NormWords)) break;
      end = out + sizeof(uint32_t);
    }
    launcher.clear(begin, static_cast<size_t>(end - begin));
  }
}

inline StageError block_norms(const Launcher& launcher, const NormCalls& calls) {
  const NormArgs& args = calls.first();
  const KeyedStream signs = shared_stream(args.random, Draw::signs);
  if (args.rotated || args.block > WarpNorms<double>::kBlockMax) {
    return with_dtypes(args.dtype, [&]<Dtypes kDtypes>() {
      using Stage = BlockNorms<kDtypes>;
      using Rotate = Rotation<false, kBlockThreads>;
      const Stage stage(args);
      return args.rotated
                 ? calls.run<block_norms_kernel<Stage, Rotate>>(launcher, stage, signs)
                 : calls.run<block_norms_kernel<Stage, NoRotation>>(launcher, stage, signs);
    });
  }
  return with_element(args.dtype, [&]<typename Element>(Element) {
    return calls.run<warp_norms_kernel<Element>>(launcher, WarpNorms<Element>(args));
  });
}

inline StageError largest_of(const Launcher& launcher, const NormCalls& calls) {
  const NormArgs& args = calls.first();
  const bool is_empty = calls.count == 1 && args.range.value_count == 0;
  if ((args.running == nullptr && !args.is_cleared) || is_empty) clear_results(launcher, calls);
  if (is_empty) return launcher.error();
  if (args.rotated) {
    using Rotate = Rotation<false, kBlockThreads>;
    return calls.run<values_kernel<LargestRotated, Rotate>>(
        launcher, LargestRotated(args), shared_stream(args.random, Draw::signs), launcher.gate());
  }
  return with_element(args.dtype, [&]<typename Element>(Element) {
    return calls.run<largest_kernel<Element>>(launcher, Largest<Element>(args));
  });
}

}  // namespace gq::cuda

#endif
