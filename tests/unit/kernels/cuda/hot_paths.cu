// The kernels that speed is about, each as it runs on most of a large call: float32, one norm whose
// factors are folded, fresh random words, aligned buffers, no tail. What a real kernel decides at
// run time is constant here, so that tools/count_sass counts the instructions of that path alone;
// no program calls these.
#include "kernels/cuda/dequantize.cuh"
#include "kernels/cuda/launch/launch.cuh"
#include "kernels/cuda/norm.cuh"
#include "kernels/cuda/quantize.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/reduce_many.cuh"
#include "kernels/cuda/sparse/select.cuh"

namespace gq::cuda {

/** More values than a call can have: no thread is near the end. */
__device__ constexpr uint64_t kNoEnd = uint64_t{1} << 62;

/** A body whose iterations are all full. */
template <typename Body>
struct Full : Body {
  template <typename Here>
  GQ_HD void run(Interval<0>, uint32_t iteration, uint32_t, Here local) const {
    Body::run_full(iteration, local);
  }
};

/** Quantize as most threads run it. */
template <typename Levels>
struct Full<Quantize<Levels>> : Plain<Quantize<Levels>> {
  GQ_HD void settle() {
    this->value_count = this->code_count = kNoEnd;
    this->part_count = 1;
    this->encoder.nearest = false;
    this->encoder.target.vectors = true;
    this->encoder.thresholds.strata.count = 1;
    this->source.dtype = GQSGD_FLOAT32;
    this->source.vectors = true;
    __builtin_assume(this->norms.one != nullptr);
  }
  template <typename Here>
  GQ_HD void begin(Here local) const {
    Plain<Quantize<Levels>>::begin(local);
    local.own.scale.power = 1;
  }
};

/** Tiles of codes none of which is the last. */
template <typename Tiles>
struct FullTiles : Tiles {
  GQ_HD void settle() {
    this->value_count = kNoEnd;
    this->words.vectors = true;
  }
};
template <uint32_t kBits>
struct Full<CountTile<kBits>> : FullTiles<CountTile<kBits>> {};
template <uint32_t kBits>
struct Full<SelectTile<kBits>> : FullTiles<SelectTile<kBits>> {};

template <typename Body>
__global__ void __launch_bounds__(Body::kThreads, Body::kBlocksAtOnce) hot(Full<Body> body) {
  if constexpr (requires { body.settle(); }) body.settle();
  body.part_count = 1;
  __shared__ typename Body::Shared shared;
  typename Body::Own own;
  DeviceBlock<Full<Body>> block{shared, own};
  run_block(body, block);
}

template __global__ void hot(Full<Largest<float>>);
template __global__ void hot(Full<Quantize<LinearLevels<8>>>);
template __global__ void hot(Full<Quantize<LinearLevels<4>>>);
template __global__ void hot(Full<Quantize<ExponentialLevels<8, 0>>>);
template __global__ void hot(Full<Quantize<ExponentialLevels<4, 0>>>);
template __global__ void hot(Full<Reduce<AddWords>>);
template __global__ void hot(Full<Reduce<AverageEqual<8>>>);
template __global__ void hot(Full<Reduce<AverageEqual<4>>>);
template __global__ void hot(Full<Reduce<SumExponentials>>);
template __global__ void hot(Full<Reduce<AverageExponentials<true>>>);
template __global__ void hot(Full<Reduce<AverageExponentials<false>>>);
template __global__ void hot(Full<DequantizeFloats<LinearDecoder<8>>>);
template __global__ void hot(Full<DequantizeFloats<LinearDecoder<4>>>);
template __global__ void hot(Full<DequantizeFloats<ExponentialDecoder<8, 0>>>);
template __global__ void hot(Full<DequantizeFloats<ExponentialDecoder<4, 0>>>);
template __global__ void hot(Full<CountTile<8>>);
template __global__ void hot(Full<CountTile<4>>);
template __global__ void hot(Full<SelectTile<8>>);
template __global__ void hot(Full<SelectTile<4>>);

}  // namespace gq::cuda
