// The kernels that speed is about, each as it runs on most of a large call: float32, one norm whose
// factors are folded, fresh random words, aligned buffers, no tail. What a real kernel decides at
// run time is constant here, so that tools/count_sass counts the instructions of that path alone;
// no program calls these.
#include "kernels/cuda/dequantize.cuh"
#include "kernels/cuda/norm.cuh"
#include "kernels/cuda/quantize.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/sparse/select.cuh"

namespace gq::cuda {

/** More values than a call can have: no thread is near the end. */
__device__ constexpr uint64_t kNoEnd = uint64_t{1} << 62;

template <typename Element>
__global__ void __launch_bounds__(kBlockThreads, 3)
    hot_largest(Largest<Element> stage, uint32_t end) {
  stage.value_count = kNoEnd;
  stage.vectors = true;
  uint32_t largest = 0;
  for (uint32_t k = blockIdx.x; k < end; k += gridDim.x) stage.take(k, largest);
  atomicMax(stage.result.out, largest);
}

/** Iterations of a stage on values none of which is the last. */
template <typename Stage, typename Own>
GQ_DEVICE void run_full_warps(const Stage& stage, Own& own, uint32_t end) {
  for (uint32_t k = blockIdx.x; k < end; k += gridDim.x) {
    Place place = stage.place(k);
    place.warp_is_full = true;
    float value[kThreadValues];
    stage.give(place, own, value);
    stage.take(place, own, value);
  }
}

template <typename Levels>
__global__ void __launch_bounds__(kBlockThreads, 3)
    hot_quantize(Quantize<Levels> stage, uint32_t end) {
  stage.value_count = stage.code_count = kNoEnd;
  stage.encoder.rounder.nearest = false;
  stage.encoder.target.vectors = true;
  stage.encoder.rounder.thresholds.strata.count = 1;
  stage.source.dtype = GQSGD_FLOAT32;
  stage.source.vectors = true;
  __builtin_assume(stage.norms.one != nullptr);
  auto own = stage.begin();
  own.scale.power = 1;
  run_full_warps(stage, own, end);
}

template <typename Merge>
__global__ void __launch_bounds__(kBlockThreads, 4)
    hot_reduce(Reduce<Merge> stage, uint32_t end) {
  __shared__ typename Merge::Shared shared;
  const auto own = stage.begin(shared);
  for (uint32_t k = blockIdx.x; k < end; k += gridDim.x) stage.run_full(k, own, shared);
}

template <typename Decoder>
__global__ void __launch_bounds__(kBlockThreads, 3)
    hot_dequantize(Dequantize<Decoder> stage, uint32_t end) {
  stage.value_count = stage.code_count = kNoEnd;
  stage.words.vectors = true;
  stage.target.dtype = GQSGD_FLOAT32;
  stage.target.vectors = true;
  __builtin_assume(stage.scales.one != nullptr);
  auto own = stage.begin();
  own.constant = false;
  run_full_warps(stage, own, end);
}

/** Tiles of codes none of which is the last. */
template <typename Tiles>
__global__ void __launch_bounds__(kBlockThreads, 3) hot_count(Tiles stage, uint32_t end) {
  stage.value_count = kNoEnd;
  stage.words.vectors = true;
  __shared__ TileCount found;
  run_count(stage, {blockIdx.x, end}, found);
}
template <typename Tiles>
__global__ void __launch_bounds__(kBlockThreads, 3) hot_select(Tiles stage, uint32_t end) {
  stage.value_count = kNoEnd;
  stage.words.vectors = true;
  __shared__ typename StretchScan::TempStorage storage;
  run_select(stage, {blockIdx.x, end}, storage);
}

template __global__ void hot_largest(Largest<float>, uint32_t);
template __global__ void hot_quantize(Quantize<LinearLevels<8>>, uint32_t);
template __global__ void hot_quantize(Quantize<LinearLevels<4>>, uint32_t);
template __global__ void hot_quantize(Quantize<ExponentialLevels<8, 0>>, uint32_t);
template __global__ void hot_quantize(Quantize<ExponentialLevels<4, 0>>, uint32_t);
template __global__ void hot_reduce(Reduce<AddWords>, uint32_t);
template __global__ void hot_reduce(Reduce<AverageEqual<8>>, uint32_t);
template __global__ void hot_reduce(Reduce<AverageEqual<4>>, uint32_t);
template __global__ void hot_reduce(Reduce<SumExponentials>, uint32_t);
template __global__ void hot_reduce(Reduce<AverageExponentials<true>>, uint32_t);
template __global__ void hot_reduce(Reduce<AverageExponentials<false>>, uint32_t);
template __global__ void hot_dequantize(Dequantize<LinearDecoder<8>>, uint32_t);
template __global__ void hot_dequantize(Dequantize<LinearDecoder<4>>, uint32_t);
template __global__ void hot_dequantize(Dequantize<ExponentialDecoder<8, 0>>, uint32_t);
template __global__ void hot_dequantize(Dequantize<ExponentialDecoder<4, 0>>, uint32_t);
template __global__ void hot_count(CodeTiles<8>, uint32_t);
template __global__ void hot_count(CodeTiles<4>, uint32_t);
template __global__ void hot_select(SelectTiles<8>, uint32_t);
template __global__ void hot_select(SelectTiles<4>, uint32_t);

}  // namespace gq::cuda
