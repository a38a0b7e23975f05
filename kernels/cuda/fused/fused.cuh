// A whole allreduce in one kernel of each rank: the stages one after the other, with barriers of
// all ranks' blocks in between.
#ifndef GQ_KERNELS_CUDA_FUSED_FUSED_CUH
#define GQ_KERNELS_CUDA_FUSED_FUSED_CUH

#include "kernels/cuda/block_norms.cuh"
#include "kernels/cuda/dequantize.cuh"
#include "kernels/cuda/fused/fused_request.cuh"
#include "kernels/cuda/fused/grid_barrier.cuh"
#include "kernels/cuda/fused/segments.cuh"
#include "kernels/cuda/fused/stage_args.h"
#include "kernels/cuda/fused/tensor_norms.cuh"
#include "kernels/cuda/fused/tiles.cuh"
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

/** What a thread has of a tile: values of one segment, for segments begin where threads' values
 *  may. */
struct FusedPlace : Place {
  uint32_t owner;   ///< the rank that adds the tile's values
  uint32_t tensor;  ///< number of the segment
  SegmentPlace segment;
};

/** Whether all values of a warp, whose own thread begins at `offset`, are the segment's and before
 *  `end`. */
GQ_DEVICE bool has_warp(const SegmentPlace& segment, uint64_t offset, uint64_t end) {
  const bool begins_here = first_of_warp(offset) >= segment.first_value;
  return begins_here && is_full_warp(offset, end);
}

/** Of a part of a tile: kBlockValues from `first` on. */
GQ_DEVICE FusedPlace place_in(const FusedSegments& segments, const FusedTile& tile,
                              uint64_t first) {
  const uint32_t within = threadIdx.x * kThreadValues;
  const uint64_t base = tile.first_value + first, offset = base + within;
  const uint32_t tensor = segments.find(offset);
  const SegmentPlace segment = segments.at(tensor);
  const uint64_t tile_end = tile.first_value + tile.value_count;
  const uint64_t segment_end = segment.first_value + segment.value_count;
  const uint64_t end = segment_end < tile_end ? segment_end : tile_end;
  const uint32_t count = count_here(offset, end);
  const bool warp_is_full = has_warp(segment, offset, end);
  return {{offset, count, count, base, within, warp_is_full}, tile.owner, tensor, segment};
}

/** What kernels of all kinds have. */
template <typename QuantizeStage, typename SumStage, typename DequantizeStage>
struct FusedStages {
  GridBarrier barrier;
  Request request;
  FusedTiles tiles;
  FusedSegments segments;
  TensorNorms tensor_norms;
  QuantizeStage quantize;
  SumStage sum;
  OperandList operands;
  uint32_t sum_iterations;
  DequantizeStage dequantize;

  FusedStages(const FusedArgs& args, const QuantizeStage& quantize, const SumStage& sum,
              const DequantizeStage& dequantize)
      : barrier(args),
        request(args),
        tiles(args),
        segments(args),
        tensor_norms(args),
        quantize(quantize),
        sum(sum),
        operands(FusedSums(args).args),
        sum_iterations(sum.iterations()),
        dequantize(dequantize) {}

  /** False if the rank has exited. Writes what peers need from the first barrier on. */
  GQ_DEVICE bool begin(DeviceTeam& team) const {
    FusedShared& shared = team.shared();
    team.all([&](uint32_t thread) {
      if (thread == 0) shared.peak = 0;
      if (thread == 0) barrier.begin(&shared.barrier);
      if (team.number() != 0) return;
      if (thread == 0) tensor_norms.begin(barrier, shared.barrier.call);
      request.show(thread, barrier.buffers[barrier.rank]->control.header);
    });
    return shared.barrier.left == 0;
  }

  /** Calls each(place) with what a thread has of its block's tiles, those of rank `owner` first;
   *  with places that have no values, too, so that all threads of a block are there. */
  template <typename Each>
  GQ_DEVICE void each_place_of_all(uint32_t owner, Each each) const {
    tiles.each(blockIdx.x, owner, [&](const FusedTile& tile) {
      for (uint64_t first = 0; first < tile.value_count; first += kBlockValues) {
        each(place_in(segments, tile, first));
      }
    });
  }
  template <typename Each>
  GQ_DEVICE void each_place(uint32_t owner, Each each) const {
    each_place_of_all(owner, [&](const FusedPlace& place) {
      if (place.code_count > 0) each(place);
    });
  }

  GQ_DEVICE void load(const FusedPlace& place, float (&value)[kThreadValues]) const {
    assume_global(place.segment.send);
    quantize.source.at(place.segment.send).load(place, value);
  }

  /** Calls take(place, values) with the values of the block's tiles. */
  template <typename Take>
  GQ_DEVICE void each_value(Take take) const {
    each_place(0, [&](const FusedPlace& place) {
      float value[kThreadValues];
      load(place, value);
      take(place, value);
    });
  }

  /** From the barrier for codes on, which finds out whether ranks make the same call: each block
   *  has a word of every rank. If they do not, all of them reach the last barrier as well, and none
   *  writes values. That one is for all blocks, so that a rank has all of its sums or none.
   *  step_at(place): what decodes the sums. */
  template <typename StepAt>
  GQ_DEVICE void finish(DeviceTeam& team, StepAt step_at) const {
    if (!barrier.wait_for_same(team, BarrierOf::codes, request.digest())) return;
    const bool agreed = team.shared().barrier.differs == 0 && !request.is_refused();
    if (agreed) {
      const uint32_t first = tiles.first_in_shard(blockIdx.x, barrier.rank);
      sum.run([&](uint64_t k) { return sum_place(k); }, {first, sum_iterations}, operands,
              team.shared().stage);
    }
    if (!agreed && team.number() == 0) {
      team.all([&](uint32_t thread) {
        if (thread == 0) request.report_difference(barrier.buffers, barrier.ranks);
      });
    }
    if (!barrier.wait_as_one(team, BarrierOf::sums)) return;
    barrier.count(team);
    tensor_norms.clear_last(barrier, team);
    if (agreed) run_dequantize(step_at);
  }

  /** What a thread has of an iteration of the own shard's sums. */
  GQ_DEVICE Place sum_place(uint64_t iteration) const {
    Place place = sum.place(iteration);
    const uint64_t value = sum.first_value + place.offset;
    const SegmentPlace segment = segments.at(segments.find(value));
    const uint64_t end = segment.first_value + segment.value_count;
    place.code_count = min(place.code_count, count_here(value, end));
    place.value_count = place.code_count;
    place.warp_is_full = place.warp_is_full && has_warp(segment, value, end);
    return place;
  }

  /** All shards, whose sums their owners have. Each rank begins with its own, so that they do not
   *  all read from the same one. */
  template <typename StepAt>
  GQ_DEVICE void run_dequantize(StepAt step_at) const {
    each_place(barrier.rank, [&](const FusedPlace& place) {
      const uint32_t* const words = barrier.buffers[place.owner]->words;
      float value[kThreadValues];
      dequantize.give_from(dequantize.buffer_of(words), step_at(place), place, value);
      assume_global(place.segment.recv);
      dequantize.target.at(place.segment.recv).store(0, place, value);
    });
  }
};

/** Codes under scales that the kernel itself finds. */
template <typename Levels, typename Sum, typename Decoder>
struct FusedCodes : FusedStages<Quantize<Levels>, Sum, Dequantize<Decoder>> {
  FusedCodes(const FusedArgs& args, const Levels& up, const Sum& sum, const Decoder& decoder)
      : FusedStages<Quantize<Levels>, Sum, Dequantize<Decoder>>(
            args, {quantize_args(args), up}, sum, {dequantize_args(args), decoder}) {}

  template <typename ScaleAt>
  GQ_DEVICE void run_quantize(ScaleAt scale_at) const {
    const auto& encoder = this->quantize.encoder;
    const auto own = encoder.thread_of(0, threadIdx.x * kThreadValues);
    this->each_value([&](const FusedPlace& place, const float (&value)[kThreadValues]) {
      encoder.encode(own, place, scale_at(place), value);
    });
  }
};

/** With one norm, which the words of the first barrier are the parts of, or one for each tensor of
 *  a list. */
template <typename Levels, typename Sum, typename Decoder>
struct FusedOneNorm : FusedCodes<Levels, Sum, Decoder> {
  using FusedCodes<Levels, Sum, Decoder>::FusedCodes;

  GQ_DEVICE void run(DeviceTeam& team) const {
    FusedShared& shared = team.shared();
    if (!this->begin(team)) return;
    const bool is_list = this->tensor_norms.count > 0;
    const uint32_t call = shared.barrier.call;
    if (is_list) raise_tensor_norms(call);
    if (!is_list) {
      uint32_t largest = 0;  // of the values that this thread will quantize
      this->each_value([&](const FusedPlace&, const float (&value)[kThreadValues]) {
        keep_largest_of(value, largest);
      });
      team.all([&](uint32_t) { raise_together(&shared.peak, largest); });
    }
    if (!this->barrier.wait(team, BarrierOf::norms, shared.peak)) return;
    const float norm = float_from_bits(shared.barrier.largest);
    const auto scale_of = [&](float of) {
      return this->quantize.encoder.levels.scale_for_norm(of);
    };
    const auto step_by = [&](float of) { return step_of(this->dequantize.decoder, of); };
    this->run_quantize(of_tensor(call, norm, scale_of));
    this->finish(team, of_tensor(call, norm, step_by));
  }

 private:
  static constexpr uint32_t kNoTensor = ~0u;

  GQ_DEVICE float norm_of(uint32_t call, uint32_t tensor) const {
    return this->tensor_norms.norm_of(this->barrier, call, tensor);
  }

  /** What make(norm) gives for a place: of its tensor, where the call is a list, else of `norm`. It
   *  is made once for places of one tensor that follow each other. */
  template <typename Make>
  GQ_DEVICE auto of_tensor(uint32_t call, float norm, Make make) const {
    return [=, this, made = make(norm), last = kNoTensor](const FusedPlace& place) mutable {
      const bool is_other = this->tensor_norms.count > 0 && place.tensor != last;
      if (is_other) made = make(norm_of(call, place.tensor));
      last = place.tensor;
      return made;
    };
  }

  /** A warp whose values are of one tensor raises its word when it comes to another one. */
  GQ_DEVICE void raise_tensor_norms(uint32_t call) const {
    uint32_t largest = 0, tensor = kNoTensor;  // of the whole warp
    const auto raise = [&] {
      const uint32_t peak = __reduce_max_sync(~0u, largest);
      if (tensor == kNoTensor || threadIdx.x % kWarpThreads != 0) return;
      this->tensor_norms.raise(this->barrier, call, tensor, peak);
    };
    this->each_place_of_all(0, [&](const FusedPlace& place) {
      float value[kThreadValues];
      this->load(place, value);
      uint32_t here = 0;
      keep_largest_of(value, here);
      const auto all_are = [&](uint32_t number) {
        return __ballot_sync(~0u, place.tensor == number || place.code_count == 0) == ~0u;
      };
      if (!all_are(tensor)) {
        raise();
        const uint32_t first = __shfl_sync(~0u, place.tensor, 0);
        const bool is_one = all_are(first);
        if (!is_one) this->tensor_norms.raise(this->barrier, call, place.tensor, here);
        tensor = is_one ? first : kNoTensor;
        largest = 0;
        if (!is_one) return;
      }
      largest = max(largest, here);
    });
    raise();
  }
};

/** With a norm for each block of values: ranks read each other's. */
template <typename Levels, typename Sum, typename Decoder>
struct FusedBlocks : FusedCodes<Levels, Sum, Decoder> {
  BlockNorms<> norms;

  FusedBlocks(const FusedArgs& args, const Levels& up, const Sum& sum, const Decoder& decoder)
      : FusedCodes<Levels, Sum, Decoder>(args, up, sum, decoder),
        norms(norm_args(args)) {}

  GQ_DEVICE void run(DeviceTeam& team) const {
    if (!this->begin(team)) return;
    this->tiles.each(blockIdx.x, 0, [&](const FusedTile& tile) {
      const auto place_of = [&](uint32_t part) {
        return place_in(this->segments, tile, uint64_t{part} * kBlockValues);
      };
      const auto load = [&](uint32_t part, float (&value)[kThreadValues]) {
        this->load(place_of(part), value);
      };
      norms.run(load, [&] { return place_of(0); }, team.shared().stage);
    });
    if (!this->barrier.wait_for_same(team, BarrierOf::norms, 0)) return;
    this->run_quantize([&](const Place& place) {
      return this->quantize.encoder.levels.scale_for_norm(merged_norm(place.offset));
    });
    this->finish(team, [&](const FusedPlace& place) {
      NormSource scales = this->dequantize.scales;
      scales.blocks = this->barrier.buffers[place.owner]->scales;
      return step_of(this->dequantize.decoder, scales.at(place.offset));
    });
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

/** Float32, whose sums take the place of a rank's own values. Peers may read sums of the last call
 *  there until their kernels of this one have begun. */
struct FusedFloats : FusedStages<QuantizeNone<>, ReduceManyNone, DequantizeNone<>> {
  explicit FusedFloats(const FusedArgs& args)
      : FusedStages(args, QuantizeNone<>(quantize_args(args)), ReduceManyNone(FusedSums(args).args),
                    DequantizeNone<>(dequantize_args(args))) {}

  GQ_DEVICE void run(DeviceTeam& team) const {
    if (!begin(team) || !barrier.wait_for_same(team, BarrierOf::norms, 0)) return;
    each_value([&](const FusedPlace& place, const float (&value)[kThreadValues]) {
      quantize.take(place, {}, value);
    });
    finish(team, [](const FusedPlace&) { return Nothing(); });
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
