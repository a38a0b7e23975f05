// The step of a group on a device: looks by all threads of a block, the search of kernels/codec by
// each of them alike.
#ifndef GQ_KERNELS_CUDA_RICE_FIND_STEP_CUH
#define GQ_KERNELS_CUDA_RICE_FIND_STEP_CUH

#include "kernels/codec/norm.h"
#include "kernels/cuda/rice/rice_stage.cuh"

namespace gq::cuda {

/** The lane's value of a cell, 0 if the cell is poisoned. */
struct CellValue {
  float value;
  bool is_poisoned;

  explicit GQ_DEVICE CellValue(float loaded)
      : value(loaded), is_poisoned(__ballot_sync(kAllLanes, !is_finite(loaded)) != 0) {
    if (is_poisoned) value = 0;
  }
};

GQ_DEVICE RiceNeighbours neighbours_of(bool nearest, float value, float inverse) {
  return nearest ? rice_neighbours<true>(value, inverse) : rice_neighbours<false>(value, inverse);
}

/** Looks at the steps of one group after the other. `Load` gives the lane's value of a cell. */
template <typename Load>
struct StepFinder {
  struct Shared {
    uint32_t sums[2][kBlockWarps][4];  ///< in turn, so that a look has one barrier
    uint32_t largest[kBlockWarps];
  };

  Shared& shared;
  const RiceBounds bounds;
  const bool nearest;
  const Load& load;

  /** The largest magnitude of values that are not poisoned. */
  GQ_DEVICE float largest() const {
    uint32_t own = 0;
    for (uint32_t cell = warp_here(); cell < bounds.cells; cell += kBlockWarps) {
      own = max(own, magnitude_bits(CellValue(load(cell)).value));
    }
    own = __reduce_max_sync(kAllLanes, own);
    __syncthreads();  // threads may still read what was shared last
    if (lane_here() == 0) shared.largest[warp_here()] = own;
    __syncthreads();
    for (uint32_t w = 0; w < kBlockWarps; ++w) own = max(own, shared.largest[w]);
    return float_from_bits(own);
  }

  /** The code of the step; beyond kRiceStepMax if none fits. largest: not 0. */
  GQ_DEVICE uint32_t find(float largest) const {
    uint32_t turn = 0;
    return rice_find_step(largest, bounds, [&](float inverse, uint32_t stride) {
      turn ^= 1;
      return sum_of_block(look_of_lane(inverse, stride), turn);
    });
  }

  GQ_DEVICE RiceLook look_of_lane(float inverse, uint32_t stride) const {
    RiceLook look;
    for (uint32_t k = warp_here() * stride; k < bounds.cells; k += kBlockWarps * stride) {
      const RiceNeighbours codes = neighbours_of(nearest, CellValue(load(k)).value, inverse);
      const uint32_t parts = __reduce_add_sync(kAllLanes, codes.parts);
      if (parts == 0) continue;
      const uint32_t parameter = rice_look_parameter(parts);
      rice_look_at(codes, parameter, look);
      look.near_bits += 1 + parameter;
      look.values += 1;
    }
    return look;
  }

  GQ_DEVICE RiceLook sum_of_block(const RiceLook& own, uint32_t turn) const {
    uint32_t sum[4] = {own.near_bits, own.expected_256, own.squares, own.values};
    GQ_UNROLL for (uint32_t k = 0; k < 4; ++k) sum[k] = __reduce_add_sync(kAllLanes, sum[k]);
    if (lane_here() == 0) {
      GQ_UNROLL for (uint32_t k = 0; k < 4; ++k) shared.sums[turn][warp_here()][k] = sum[k];
    }
    __syncthreads();
    RiceLook all;
    for (uint32_t w = 0; w < kBlockWarps; ++w) {
      const uint32_t* const of_warp = shared.sums[turn][w];
      all.near_bits += of_warp[0];
      all.expected_256 += of_warp[1];
      all.squares += of_warp[2];
      all.values += of_warp[3];
    }
    return all;
  }
};

}  // namespace gq::cuda

#endif
