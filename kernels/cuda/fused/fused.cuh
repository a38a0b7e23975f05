// A whole allreduce in one kernel of each rank: the bodies of the stages one after the other, with
// barriers in between.
#ifndef GQ_KERNELS_CUDA_FUSED_FUSED_CUH
#define GQ_KERNELS_CUDA_FUSED_FUSED_CUH

#include "kernels/cuda/dequantize.cuh"
#include "kernels/cuda/fused/fused_request.cuh"
#include "kernels/cuda/fused/grid_barrier.cuh"
#include "kernels/cuda/fused/stage_args.h"
#include "kernels/cuda/norm.cuh"
#include "kernels/cuda/quantize.cuh"
#include "kernels/cuda/reduce_many.cuh"

namespace gq::cuda {

/** What the threads of a block share: of a barrier, and of the stage that they are at. */
struct FusedShared {
  BarrierShared barrier;
  uint32_t peak;  ///< the largest magnitude of this block's values
  alignas(16) unsigned char stage[sizeof(PeakShared)];

  template <typename Body>
  GQ_HD typename Body::Shared& of_stage() {
    static_assert(sizeof(typename Body::Shared) <= sizeof stage);
    return *reinterpret_cast<typename Body::Shared*>(stage);
  }
};

/** Quantize under a norm that the kernel itself has found. */
template <typename Levels>
struct QuantizeUnder : BodyDefaults {
  using Own = typename Quantize<Levels>::Own;
  using Here = Local<Nothing, Own>;
  const Plain<Quantize<Levels>>& quantize;
  float norm;

  GQ_HD QuantizeUnder(const Plain<Quantize<Levels>>& quantize, float norm)
      : quantize(quantize), norm(norm) {
    iteration_count = quantize.iteration_count;
  }
  GQ_HD void begin(Here local) const {
    quantize.begin_thread(local);
    local.own.scale = quantize.encoder.levels.scale_for_norm(norm);
  }
  GQ_HD void run(Interval<0> interval, uint32_t iteration, uint32_t part, Here local) const {
    quantize.run(interval, iteration, part, local);
  }
};

/** Quantize under the largest norm that any rank has of a block, which is noted for the sums. */
template <typename Levels>
struct QuantizeMerged : BodyDefaults {
  using Own = typename Quantize<Levels>::Own;
  using Here = Local<Nothing, Own>;
  const Plain<Quantize<Levels>>& quantize;
  const GridBarrier& barrier;

  GQ_HD QuantizeMerged(const Plain<Quantize<Levels>>& quantize, const GridBarrier& barrier)
      : quantize(quantize), barrier(barrier) {
    iteration_count = quantize.iteration_count;
  }
  GQ_HD void begin(Here local) const { quantize.begin_thread(local); }
  GQ_HD void run(Interval<0>, uint32_t iteration, uint32_t part, Here local) const {
    const Place place = quantize.place(iteration, part, local.thread);
    if (place.code_count == 0) return;
    float value[kThreadValues];
    quantize.give(place, local, value);
    const Scale scale = quantize.encoder.levels.scale_for_norm(merged_norm(place.offset));
    quantize.encoder.encode(local.own.encoder, place, scale, value);
  }

 private:
  GQ_HD float merged_norm(uint64_t offset) const {
    const uint32_t shift = quantize.norms.shift;
    const uint64_t block = offset >> shift;
    uint16_t largest = 0;
    for (uint32_t peer = 0; peer < barrier.ranks; ++peer) {
      const uint16_t norm = barrier.buffers[peer]->norms[block];
      largest = norm > largest ? norm : largest;
    }
    if (offset == block << shift) barrier.buffers[barrier.rank]->merged[block] = largest;
    return norm_from_code(largest);
  }
};

static_assert(kFusedIterationValues == uint64_t{BodyDefaults::kThreads} * kThreadValues);

/** What each rank adds, in iterations of blocks: as many for every shard as the longest one has. */
struct Shards {
  FusedShard of[kFusedRanksMax];
  uint32_t iteration_count = 0;

  explicit Shards(const FusedArgs& args) {
    for (uint32_t owner = 0; owner < kFusedRanksMax; ++owner) {
      of[owner] = owner < args.ranks ? args.shards[owner] : FusedShard{0, 0};
      const uint64_t iterations =
          (of[owner].value_count + kFusedIterationValues - 1) / kFusedIterationValues;
      if (iterations > iteration_count) iteration_count = static_cast<uint32_t>(iterations);
    }
  }
};

/** Dequantize of all shards, whose sums their owners have. Each rank begins with its own, so that
 *  they do not all read from the same one. */
template <typename Decoder>
struct DequantizeShards : BodyDefaults {
  using Own = StepOwn;
  using Here = Local<Nothing, Own>;
  const Dequantize<Decoder>& dequantize;
  const GridBarrier& barrier;
  const Shards& shards;
  float norm;  ///< where there is one

  GQ_HD DequantizeShards(const Dequantize<Decoder>& dequantize, const GridBarrier& barrier,
                         const Shards& shards, float norm)
      : dequantize(dequantize), barrier(barrier), shards(shards), norm(norm) {
    iteration_count = barrier.ranks * shards.iteration_count;
  }
  GQ_HD void begin(Here local) const {
    if (dequantize.scales.is_one()) local.own.step = step_of(dequantize.decoder, norm);
  }
  GQ_HD void run(Interval<0>, uint32_t iteration, uint32_t part, Here local) const {
    const uint32_t owner = (barrier.rank + iteration / shards.iteration_count) % barrier.ranks;
    const FusedShard& shard = shards.of[owner];
    const uint32_t iteration_of_shard = iteration % shards.iteration_count;
    const uint64_t in_shard =
        (uint64_t{iteration_of_shard} * kThreads + local.thread) * kThreadValues;
    const uint32_t count = count_here(in_shard, shard.value_count);
    if (count == 0) return;
    const uint64_t offset = shard.first_value + in_shard;
    const Place place{iteration, part, offset, count, count, offset, 0};
    const FusedBuffers& buffers = *barrier.buffers[owner];
    const WordBuffer<const uint32_t> words = word_buffer<Decoder::kBits>(&buffers.words[0]);
    NormSource scales = dequantize.scales;
    if (!scales.is_one()) scales.blocks = buffers.scales;
    float value[kThreadValues];
    dequantize.give_from(words, scales, place, local, value);
    dequantize.take(place, local, value);
  }
};

/** What kernels of all kinds have. */
template <typename LevelKind, typename SumKind, typename DecoderKind>
struct FusedStageBodies {
  using Levels = LevelKind;
  using Sum = SumKind;
  using Decoder = DecoderKind;
  static constexpr uint32_t kThreads = BodyDefaults::kThreads;
  static constexpr uint32_t kBlocksAtOnce = 2;  ///< on a processor: 128 registers each
  GridBarrier barrier;
  Request request;
  Shards shards;
  Plain<Quantize<Levels>> quantize;
  Plain<Sum> sum;
  Dequantize<Decoder> dequantize;

  FusedStageBodies(const FusedArgs& args, const Levels& up, const Sum& sum, const Decoder& decoder)
      : barrier(args),
        request(args),
        shards(args),
        quantize(Quantize<Levels>(quantize_args(args), up)),
        sum(sum),
        dequantize(dequantize_args(args), decoder) {}

  /** False if the rank has exited. Writes what all blocks, or peers, need from the first barrier
   *  on: the places of the operands of the own shard, and the number of this call. */
  template <typename Team>
  GQ_HD bool begin(Team& team) const {
    FusedShared& shared = team.shared();
    team.all([&](uint32_t thread) {
      if (thread == 0) shared.peak = 0;
      if (thread == 0) barrier.begin(&shared.barrier);
      if (team.number() != 0) return;
      list_operands(thread);
      request.show(thread, barrier.buffers[barrier.rank]->control.header);
    });
    return shared.barrier.left == 0;
  }

  GQ_HD void list_operands(uint32_t thread) const {
    if (thread >= barrier.ranks) return;
    FusedBuffers& own = *barrier.buffers[barrier.rank];
    const uint64_t first_value = shards.of[barrier.rank].first_value;
    own.control.operands[thread] =
        barrier.buffers[thread]->words + first_value / codes_per_word(Levels::kBits);
  }

  /** From the barrier for codes on, which finds out whether ranks make the same call. If they do
   *  not, all of them reach the last barrier as well, and none writes values. */
  template <typename Team>
  GQ_HD void finish(Team& team, float norm) const {
    const uint32_t digest = request.digest();
    if (!barrier.wait(team, BarrierOf::codes, digest)) return;
    const bool agreed = team.shared().barrier.differs == 0 && !request.is_refused();
    if (agreed) team.run(sum);
    if (!agreed && team.number() == 0) {
      team.all([&](uint32_t thread) {
        if (thread == 0) request.report_difference(barrier.buffers, barrier.ranks);
      });
    }
    if (!barrier.wait_as_one(team, BarrierOf::sums) || !agreed) return;
    team.run(DequantizeShards<Decoder>(dequantize, barrier, shards, norm));
  }
};

/** With one norm, which the words of the first barrier are the parts of. */
template <typename Levels, typename Sum, typename Decoder>
struct FusedOneNorm : FusedStageBodies<Levels, Sum, Decoder> {
  using FusedStageBodies<Levels, Sum, Decoder>::FusedStageBodies;

  /** What one block does. `Team`: its threads, and what they share. */
  template <typename Team>
  GQ_HD void run(Team& team) const {
    FusedShared& shared = team.shared();
    if (!this->begin(team)) return;
    team.all([&](uint32_t thread) {
      raise_together(&shared.peak, largest(team.number(), team.count(), thread));
    });
    if (!this->barrier.wait(team, BarrierOf::norms, shared.peak)) return;
    const float norm = float_from_bits(shared.barrier.largest);
    this->barrier.count(team);
    team.run(QuantizeUnder<Levels>(this->quantize, norm));
    this->finish(team, norm);
  }

 private:
  /** The largest magnitude among the values that this thread will quantize. */
  GQ_HD uint32_t largest(uint32_t block, uint32_t block_count, uint32_t thread) const {
    uint32_t largest = 0;
    for (uint32_t iteration = block; iteration < this->quantize.iteration_count;
         iteration += block_count) {
      const Place place = this->quantize.place(iteration, 0, thread);
      float value[kThreadValues];
      this->quantize.source.load(place.offset, place.value_count, value);
      GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) keep_largest(value[e], largest);
    }
    return largest;
  }
};

/** With a norm for each block of values: ranks read each other's. */
template <typename Levels, typename Sum, typename Decoder>
struct FusedBlocks : FusedStageBodies<Levels, Sum, Decoder> {
  Plain<BlockPeaks> peaks;

  FusedBlocks(const FusedArgs& args, const Levels& up, const Sum& sum, const Decoder& decoder)
      : FusedStageBodies<Levels, Sum, Decoder>(args, up, sum, decoder),
        peaks(BlockPeaks(norm_args(args))) {}

  template <typename Team>
  GQ_HD void run(Team& team) const {
    if (!this->begin(team)) return;
    team.run(peaks);
    if (!this->barrier.wait(team, BarrierOf::norms, 0)) return;
    this->barrier.count(team);
    team.run(QuantizeMerged<Levels>(this->quantize, this->barrier));
    this->finish(team, 0);
  }
};

template <uint32_t kBits, typename Launcher>
StageError fused_linear_on(Launcher& launch, const FusedArgs& args) {
  using Levels = LinearLevels<kBits>;
  using Add = AddLinear<kBits>;
  const ReduceManyArgs sums = reduce_many_args(args);
  const Levels up{args.coding.steps}, down{args.coding.steps_down};
  const Add add{Operands(sums), args.coding.steps};
  const double full = full_sum(args.coding);
  const auto decoder = linear_decoder<kBits>(dequantize_args(args));
  if (args.coding.block > 0) {
    using Sum = ReduceManyRescaled<Add, Levels>;
    using Body = FusedBlocks<Levels, Sum, LinearDecoder<kBits>>;
    return launch.run(Body(args, up, Sum(sums, add, down, full), decoder));
  }
  using Sum = ReduceMany<Add, Levels>;
  using Body = FusedOneNorm<Levels, Sum, LinearDecoder<kBits>>;
  return launch.run(Body(args, up, Sum(sums, add, down, full), decoder));
}

template <uint32_t kBits, uint32_t kMantissaBits, typename Launcher>
StageError fused_exponential_on(Launcher& launch, const FusedArgs& args) {
  using Levels = ExponentialLevels<kBits, kMantissaBits>;
  using Add = AddExponential<kBits, kMantissaBits, false>;
  using Sum = ReduceMany<Add, Levels>;
  using Body = FusedOneNorm<Levels, Sum, ExponentialDecoder<kBits, kMantissaBits>>;
  const ReduceManyArgs sums = reduce_many_args(args);
  return launch.run(Body(args, Levels{args.coding.headroom},
                         Sum(sums, Add{Operands(sums)}, Levels{0}, full_sum(args.coding)),
                         exponential_decoder<kBits, kMantissaBits>(dequantize_args(args))));
}

template <typename Launcher>
StageError fused_on(Launcher launch, const FusedArgs& args) {
  const Coding& coding = args.coding;
  if (coding.levels == Levels::linear) {
    return coding.bits == 8 ? fused_linear_on<8>(launch, args) : fused_linear_on<4>(launch, args);
  }
  if (coding.mantissa_bits > 0) return fused_exponential_on<8, 2>(launch, args);
  return coding.bits == 8 ? fused_exponential_on<8, 0>(launch, args)
                          : fused_exponential_on<4, 0>(launch, args);
}

}  // namespace gq::cuda

#endif
