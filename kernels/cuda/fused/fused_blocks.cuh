// Allreduces with a norm for each block of values.
#ifndef GQ_KERNELS_CUDA_FUSED_FUSED_BLOCKS_CUH
#define GQ_KERNELS_CUDA_FUSED_FUSED_BLOCKS_CUH

#include "kernels/cuda/block_norms.cuh"
#include "kernels/cuda/fused/fused_stages.cuh"

namespace gq::cuda {

/** With a norm for each block of values: ranks read each other's. */
template <typename Levels, typename Sum, typename Decoder>
struct FusedBlocks : FusedCodes<Levels, Sum, Decoder> {
  BlockNorms<> norms;

  FusedBlocks(const FusedArgs& args, const Levels& up, const Sum& sum, const Decoder& decoder)
      : FusedCodes<Levels, Sum, Decoder>(args, up, sum, decoder),
        norms(norm_args(args)) {}

  GQ_DEVICE void run(FusedShared& shared) const {
    if (!this->begin(shared)) return;
    this->tiles.each(blockIdx.x, 0, [&](const FusedTile& tile) {
      const auto place_of = [&](uint32_t part) {
        return place_in(this->segments, tile, uint64_t{part} * kBlockValues);
      };
      const auto load = [&](uint32_t part, float (&value)[kThreadValues]) {
        this->load(place_of(part), value);
      };
      norms.run(load, [&] { return place_of(0); }, shared.stage);
    });
    if (!this->barrier.wait_for_same(shared.barrier, BarrierOf::norms, 0)) return;
    this->run_quantize([&](const Place& place) {
      return this->quantize.encoder.levels.scale_for_norm(merged_norm(place.offset));
    });
    this->finish(shared, [&](const FusedPlace& place) {
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

}  // namespace gq::cuda

#endif
