// What kernels of whole allreduces have in common: which values a thread has, and the stages, with
// barriers of all ranks' blocks in between.
#ifndef GQ_KERNELS_CUDA_FUSED_FUSED_STAGES_CUH
#define GQ_KERNELS_CUDA_FUSED_FUSED_STAGES_CUH

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
  GQ_DEVICE bool begin(FusedShared& shared) const {
    if (threadIdx.x == 0) {
      shared.peak = 0;
      barrier.begin(&shared.barrier);
    }
    if (blockIdx.x == 0) {
      if (threadIdx.x == 0) tensor_norms.begin(barrier, shared.barrier.call);
      request.show(threadIdx.x, barrier.control().header);
    }
    __syncthreads();
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
  GQ_DEVICE void finish(FusedShared& shared, StepAt step_at) const {
    if (!barrier.wait_for_same(shared.barrier, BarrierOf::codes, request.digest())) return;
    const bool agreed = shared.barrier.differs == 0 && !request.is_refused();
    if (agreed) {
      const uint32_t first = tiles.first_in_shard(blockIdx.x, barrier.rank);
      sum.run([&](uint64_t k) { return sum_place(k); }, {first, sum_iterations}, operands,
              shared.stage);
    }
    if (!agreed && blockIdx.x == 0 && threadIdx.x == 0) {
      request.report_difference(barrier.buffers, barrier.ranks);
    }
    if (!barrier.wait_as_one(shared.barrier, BarrierOf::sums)) return;
    barrier.count(shared.barrier.call);
    tensor_norms.clear_last(barrier, shared.barrier.call);
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

}  // namespace gq::cuda

#endif
