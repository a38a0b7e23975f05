// A whole allreduce in one kernel of each rank: the stages one after the other, with barriers of
// all ranks' blocks in between.
#ifndef GQ_KERNELS_CUDA_FUSED_FUSED_CUH
#define GQ_KERNELS_CUDA_FUSED_FUSED_CUH

#include "kernels/cuda/block_norms.cuh"
#include "kernels/cuda/dequantize.cuh"
#include "kernels/cuda/fused/fused_request.cuh"
#include "kernels/cuda/fused/grid_barrier.cuh"
#include "kernels/cuda/fused/stage_args.h"
#include "kernels/cuda/quantize.cuh"
#include "kernels/cuda/reduce_many.cuh"

namespace gq::cuda {

static_assert(kFusedIterationValues == kBlockValues);

/** What the threads of a block share: of a barrier, and of the stage that they are at. */
struct FusedShared {
  BarrierShared barrier;
  uint32_t peak;  ///< the largest magnitude of this block's values
  BlockIterations::Shared stage;
};

/** The threads of this block, as barriers know them. */
class DeviceTeam {
 public:
  GQ_DEVICE explicit DeviceTeam(FusedShared& shared) : shared_(shared) {}

  GQ_DEVICE static uint32_t number() { return blockIdx.x; }
  GQ_DEVICE FusedShared& shared() { return shared_; }

  /** Without a barrier behind. */
  template <typename Step>
  GQ_DEVICE void each(Step step) {
    step(threadIdx.x);
  }
  template <typename Step>
  GQ_DEVICE void all(Step step) {
    step(threadIdx.x);
    __syncthreads();
  }

 private:
  FusedShared& shared_;
};

/** What each rank adds, in iterations of blocks: as many for every shard as the longest one has. */
struct Shards {
  FusedShard of[kFusedRanksMax];
  uint32_t iteration_count = 0;

  explicit Shards(const FusedArgs& args) {
    for (uint32_t owner = 0; owner < kFusedRanksMax; ++owner) {
      of[owner] = owner < args.ranks ? args.shards[owner] : FusedShard{0, 0};
      const uint64_t iterations = (of[owner].value_count + kBlockValues - 1) / kBlockValues;
      if (iterations > iteration_count) iteration_count = static_cast<uint32_t>(iterations);
    }
  }
};

/** What kernels of all kinds have. */
template <typename LevelKind, typename SumKind, typename DecoderKind>
struct FusedStages {
  using Levels = LevelKind;
  using Sum = SumKind;
  using Decoder = DecoderKind;
  GridBarrier barrier;
  Request request;
  Shards shards;
  Quantize<Levels> quantize;
  uint32_t quantize_iterations;
  Sum sum;
  OperandList operands;
  uint32_t sum_iterations;
  Dequantize<Decoder> dequantize;

  FusedStages(const FusedArgs& args, const Levels& up, const Sum& sum, const Decoder& decoder)
      : barrier(args),
        request(args),
        shards(args),
        quantize(quantize_args(args), up),
        quantize_iterations(quantize.iterations()),
        sum(sum),
        operands(FusedSums(args).args),
        sum_iterations(sum.iterations()),
        dequantize(dequantize_args(args), decoder) {}

  /** False if the rank has exited. Writes what peers need from the first barrier on. */
  GQ_DEVICE bool begin(DeviceTeam& team) const {
    FusedShared& shared = team.shared();
    team.all([&](uint32_t thread) {
      if (thread == 0) shared.peak = 0;
      if (thread == 0) barrier.begin(&shared.barrier);
      if (team.number() != 0) return;
      request.show(thread, barrier.buffers[barrier.rank]->control.header);
    });
    return shared.barrier.left == 0;
  }

  /** Under scales that the kernel itself has found: `scale_at(place)`. */
  template <typename ScaleAt>
  GQ_DEVICE void run_quantize(ScaleAt scale_at) const {
    const auto own = quantize.begin_with(Scale());
    for (uint32_t k = blockIdx.x; k < quantize_iterations; k += gridDim.x) {
      const Place place = quantize.place(k);
      if (place.code_count == 0) continue;
      float value[kThreadValues];
      quantize.give(place, own, value);
      quantize.encoder.encode(own.encoder, place, scale_at(place), value);
    }
  }

  /** From the barrier for codes on, which finds out whether ranks make the same call. If they do
   *  not, all of them reach the last barrier as well, and none writes values. */
  GQ_DEVICE void finish(DeviceTeam& team, float norm) const {
    if (!barrier.wait(team, BarrierOf::codes, request.digest())) return;
    const bool agreed = team.shared().barrier.differs == 0 && !request.is_refused();
    if (agreed) sum.run({blockIdx.x, sum_iterations}, operands, team.shared().stage);
    if (!agreed && team.number() == 0) {
      team.all([&](uint32_t thread) {
        if (thread == 0) request.report_difference(barrier.buffers, barrier.ranks);
      });
    }
    if (!barrier.wait_as_one(team, BarrierOf::sums) || !agreed) return;
    run_dequantize(norm);
  }

  /** All shards, whose sums their owners have. Each rank begins with its own, so that they do not
   *  all read from the same one. norm: where there is one. */
  GQ_DEVICE void run_dequantize(float norm) const {
    const bool is_one = dequantize.scales.is_one();
    const Step one = is_one ? step_of(dequantize.decoder, norm) : Step{0, true};
    for (uint32_t k = blockIdx.x; k < barrier.ranks * shards.iteration_count; k += gridDim.x) {
      const uint32_t owner = (barrier.rank + k / shards.iteration_count) % barrier.ranks;
      const FusedShard& shard = shards.of[owner];
      const uint64_t in_shard = uint64_t{k % shards.iteration_count} * kBlockValues +
                                threadIdx.x * kThreadValues;
      const uint32_t count = count_here(in_shard, shard.value_count);
      if (count == 0) continue;
      const uint64_t offset = shard.first_value + in_shard;
      const Place place{
          offset, count, count, offset, 0, is_full_warp(in_shard, shard.value_count)};
      const FusedBuffers& buffers = *barrier.buffers[owner];
      NormSource scales = dequantize.scales;
      if (!is_one) scales.blocks = buffers.scales;
      float value[kThreadValues];
      dequantize.give_from(word_buffer<Decoder::kBits>(&buffers.words[0]),
                           dequantize.step_at(scales, place, one), place, value);
      dequantize.take(place, one, value);
    }
  }
};

/** With one norm, which the words of the first barrier are the parts of. */
template <typename Levels, typename Sum, typename Decoder>
struct FusedOneNorm : FusedStages<Levels, Sum, Decoder> {
  using FusedStages<Levels, Sum, Decoder>::FusedStages;

  GQ_DEVICE void run(DeviceTeam& team) const {
    FusedShared& shared = team.shared();
    if (!this->begin(team)) return;
    team.all([&](uint32_t) { raise_together(&shared.peak, largest()); });
    if (!this->barrier.wait(team, BarrierOf::norms, shared.peak)) return;
    const float norm = float_from_bits(shared.barrier.largest);
    this->barrier.count(team);
    const Scale scale = this->quantize.encoder.levels.scale_for_norm(norm);
    this->run_quantize([&](const Place&) { return scale; });
    this->finish(team, norm);
  }

 private:
  /** The largest magnitude among the values that this thread will quantize. */
  GQ_DEVICE uint32_t largest() const {
    uint32_t largest = 0;
    for (uint32_t k = blockIdx.x; k < this->quantize_iterations; k += gridDim.x) {
      const Place place = this->quantize.place(k);
      float value[kThreadValues];
      this->quantize.source.load(place, value);
      keep_largest_of(value, largest);
    }
    return largest;
  }
};

/** With a norm for each block of values: ranks read each other's. */
template <typename Levels, typename Sum, typename Decoder>
struct FusedBlocks : FusedStages<Levels, Sum, Decoder> {
  BlockNorms norms;
  uint32_t norm_iterations;

  FusedBlocks(const FusedArgs& args, const Levels& up, const Sum& sum, const Decoder& decoder)
      : FusedStages<Levels, Sum, Decoder>(args, up, sum, decoder),
        norms(norm_args(args)),
        norm_iterations(norms.iterations()) {}

  GQ_DEVICE void run(DeviceTeam& team) const {
    if (!this->begin(team)) return;
    norms.run({blockIdx.x, norm_iterations}, team.shared().stage,
              [](const Place&, float (&)[kThreadValues]) {});
    if (!this->barrier.wait(team, BarrierOf::norms, 0)) return;
    this->barrier.count(team);
    this->run_quantize([&](const Place& place) {
      return this->quantize.encoder.levels.scale_for_norm(merged_norm(place.offset));
    });
    this->finish(team, 0);
  }

 private:
  /** The largest norm that any rank has of a block, which is noted for the sums. */
  GQ_DEVICE float merged_norm(uint64_t offset) const {
    const GridBarrier& barrier = this->barrier;
    const uint64_t block = offset >> norms.blocks.shift;
    uint16_t largest = 0;
    for (uint32_t peer = 0; peer < barrier.ranks; ++peer) {
      const uint16_t norm = barrier.buffers[peer]->norms[block];
      largest = norm > largest ? norm : largest;
    }
    if (norms.blocks.begins(offset)) barrier.buffers[barrier.rank]->merged[block] = largest;
    return norm_from_code(largest);
  }
};

template <typename Stages>
__global__ void __launch_bounds__(kBlockThreads, 2)  // 128 registers each
    fused_kernel(const __grid_constant__ Stages stages) {
  __shared__ FusedShared shared;
  DeviceTeam team(shared);
  stages.run(team);
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
    using Sum = ReduceManyRescaled<Add, Levels>;
    return run(FusedBlocks<Levels, Sum, Decoder>(args, up, Sum(sums.args, add, down), decoder));
  }
  using Sum = ReduceMany<Add, Levels>;
  return run(FusedOneNorm<Levels, Sum, Decoder>(args, up, Sum(sums.args, add, down), decoder));
}

template <uint32_t kBits, uint32_t kMantissaBits, typename Run>
StageError with_exponential_stages(const FusedArgs& args, Run run) {
  using Levels = ExponentialLevels<kBits, kMantissaBits>;
  using Add = AddExponential<kBits, kMantissaBits>;
  using Sum = ReduceMany<Add, Levels>;
  const FusedSums sums(args);
  const auto decoder = exponential_decoder<kBits, kMantissaBits>(dequantize_args(args));
  return run(FusedOneNorm<Levels, Sum, ExponentialDecoder<kBits, kMantissaBits>>(
      args, Levels{args.coding.headroom}, Sum(sums.args, Add{Operands(sums.args)}, Levels{0}),
      decoder));
}

template <typename Run>
StageError with_fused_stages(const FusedArgs& args, Run run) {
  const Coding& coding = args.coding;
  if (coding.levels == Levels::linear) {
    return coding.bits == 8 ? with_linear_stages<8>(args, run) : with_linear_stages<4>(args, run);
  }
  if (coding.mantissa_bits > 0) return with_exponential_stages<8, 2>(args, run);
  return coding.bits == 8 ? with_exponential_stages<8, 0>(args, run)
                          : with_exponential_stages<4, 0>(args, run);
}

}  // namespace gq::cuda

#endif
