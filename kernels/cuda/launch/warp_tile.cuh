// A warp's vectors on their way between memory and threads. Neighbouring lanes access neighbouring
// vectors, so that a request has no more sectors than bytes need; in registers a thread has vectors
// that follow each other. In between they are in shared memory. Not by cub::WarpExchange: vectors
// of 16 bytes, which a device moves eight lanes at a time, have bank conflicts of four ways there.
#ifndef GQ_KERNELS_CUDA_LAUNCH_WARP_TILE_CUH
#define GQ_KERNELS_CUDA_LAUNCH_WARP_TILE_CUH

#include "kernels/cuda/launch/access.cuh"

namespace gq::cuda {

/** Up to four vectors of each lane at once. */
struct WarpTile {
  static constexpr uint32_t kVectorsMax = 4;
  Vector<4> place[kWarpThreads * kVectorsMax / 8 * 9];

  /** One place of nine is left out: lanes are in different banks in both orders. */
  GQ_DEVICE Vector<4>& at(uint32_t vector) { return place[vector + vector / 8]; }
};

/** That of this warp. A kernel has one set, however many of its stages use it. */
template <uint32_t kThreads>
GQ_DEVICE WarpTile& own_tile() {
  __shared__ WarpTile tiles[kThreads / kWarpThreads];
  return tiles[threadIdx.x / kWarpThreads];
}

/** kVectors consecutive vectors of each lane. Vectors that a warp accesses at once are whole
 *  sectors, and all of its memory where a lane has no more than WarpTile::kVectorsMax. */
template <uint32_t kVectors>
struct WarpVectors {
  static constexpr uint32_t kAtOnce =
      kVectors < WarpTile::kVectorsMax ? kVectors : WarpTile::kVectorsMax;

  /** The vector, counted from the warp's first one, that this lane accesses as the k-th of those
   *  that are exchanged in a round. */
  GQ_DEVICE static uint32_t accessed(uint32_t round, uint32_t k) {
    const uint32_t number = k * kWarpThreads + threadIdx.x % kWarpThreads;
    if constexpr (kVectors == kAtOnce) return number;
    return number / kAtOnce * kVectors + round * kAtOnce + number % kAtOnce;
  }

  using Own = Vector<4>[kVectors];

  /** All lanes of a warp come here. `first`: the warp's own, aligned. */
  template <uint32_t kThreads>
  GQ_DEVICE static void load(const void* first, Own& own) {
    const auto* const from = static_cast<const Vector<4>*>(first);
    WarpTile& tile = own_tile<kThreads>();
    const uint32_t lane = threadIdx.x % kWarpThreads;
    GQ_UNROLL for (uint32_t done = 0; done < kVectors; done += kAtOnce) {
      Vector<4> loaded[kAtOnce];
      GQ_UNROLL for (uint32_t k = 0; k < kAtOnce; ++k) {
        loaded[k] = from[accessed(done / kAtOnce, k)];
      }
      __syncwarp();  // lanes may still read what was exchanged last
      GQ_UNROLL for (uint32_t k = 0; k < kAtOnce; ++k) tile.at(k * kWarpThreads + lane) = loaded[k];
      __syncwarp();
      GQ_UNROLL for (uint32_t k = 0; k < kAtOnce; ++k) own[done + k] = tile.at(lane * kAtOnce + k);
    }
  }

  template <uint32_t kThreads>
  GQ_DEVICE static void store(void* first, const Own& own) {
    auto* const to = static_cast<Vector<4>*>(first);
    WarpTile& tile = own_tile<kThreads>();
    const uint32_t lane = threadIdx.x % kWarpThreads;
    GQ_UNROLL for (uint32_t done = 0; done < kVectors; done += kAtOnce) {
      __syncwarp();  // lanes may still read what was exchanged last
      GQ_UNROLL for (uint32_t k = 0; k < kAtOnce; ++k) tile.at(lane * kAtOnce + k) = own[done + k];
      __syncwarp();
      GQ_UNROLL for (uint32_t k = 0; k < kAtOnce; ++k) {
        to[accessed(done / kAtOnce, k)] = tile.at(k * kWarpThreads + lane);
      }
    }
  }
};

}  // namespace gq::cuda

#endif
