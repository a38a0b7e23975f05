// A whole allreduce in one kernel of each rank, by formats.
#ifndef GQ_KERNELS_CUDA_FUSED_FUSED_CUH
#define GQ_KERNELS_CUDA_FUSED_FUSED_CUH

#include "kernels/cuda/fused/fused_blocks.cuh"
#include "kernels/cuda/fused/fused_one_norm.cuh"
#include "kernels/cuda/fused/fused_stages.cuh"

namespace gq::cuda {

/** Float32, whose sums take the place of a rank's own values. Peers may read sums of the last call
 *  there until their kernels of this one have begun. */
struct FusedFloats : FusedStages<QuantizeNone<>, ReduceManyNone, DequantizeNone<>> {
  explicit FusedFloats(const FusedArgs& args)
      : FusedStages(args, QuantizeNone<>(quantize_args(args)), ReduceManyNone(FusedSums(args).args),
                    DequantizeNone<>(dequantize_args(args))) {}

  GQ_DEVICE void run(FusedShared& shared) const {
    if (!begin(shared) || !barrier.wait_for_same(shared.barrier, BarrierOf::norms, 0)) return;
    each_value([&](const FusedPlace& place, const float (&value)[kThreadValues]) {
      quantize.take(place, {}, value);
    });
    finish(shared, [](const FusedPlace&) { return Nothing(); });
  }
};

template <typename Stages>
__global__ void __launch_bounds__(kBlockThreads, 2)  // 128 registers each
    fused_kernel(const __grid_constant__ Stages stages) {
  __shared__ FusedShared shared;
  stages.run(shared);
}

/** Calls `run` with the stages of a kernel. */
template <uint32_t kBits, typename Run>
StageError with_linear_stages(const FusedArgs& args, Run run) {
  using Levels = LinearLevels<kBits>;
  using Add = AddLinear<kBits>;
  using Decoder = LinearDecoder<kBits>;
  const FusedSums sums(args);
  const Levels up{args.coding.steps}, down{args.coding.steps_down};
  const Add add{Operands(sums.args), args.coding.steps};
  const Decoder decoder = linear_decoder<kBits>(dequantize_args(args));
  if (args.coding.block > 0) {
    using Sum = ReduceMany<Add, Levels, true>;
    return run(FusedBlocks<Levels, Sum, Decoder>(args, up, Sum(sums.args, add, down), decoder));
  }
  using Sum = ReduceMany<Add, Levels, false>;
  return run(FusedOneNorm<Levels, Sum, Decoder>(args, up, Sum(sums.args, add, down), decoder));
}

template <uint32_t kBits, uint32_t kMantissaBits, typename Run>
StageError with_exponential_stages(const FusedArgs& args, Run run) {
  using Levels = ExponentialLevels<kBits, kMantissaBits>;
  using Add = AddExponential<kBits, kMantissaBits>;
  using Sum = ReduceMany<Add, Levels, false>;
  const FusedSums sums(args);
  const auto decoder = exponential_decoder<kBits, kMantissaBits>(dequantize_args(args));
  return run(FusedOneNorm<Levels, Sum, ExponentialDecoder<kBits, kMantissaBits>>(
      args, Levels{args.coding.headroom}, Sum(sums.args, Add{Operands(sums.args)}, Levels{0}),
      decoder));
}

template <typename Run>
StageError with_fused_stages(const FusedArgs& args, Run run) {
  const Coding& coding = args.coding;
  if (coding.levels == Levels::none) return run(FusedFloats(args));
  if (coding.levels == Levels::linear) {
    return coding.bits == 8 ? with_linear_stages<8>(args, run) : with_linear_stages<4>(args, run);
  }
  if (coding.mantissa_bits > 0) return with_exponential_stages<8, 2>(args, run);
  return coding.bits == 8 ? with_exponential_stages<8, 0>(args, run)
                          : with_exponential_stages<4, 0>(args, run);
}

}  // namespace gq::cuda

#endif
