// Selects codes that are not zero as sparse entries (docs/FORMAT.md, section 14). Tiles of codes
// are counted in parallel, one block scans the counts in order, and then every tile knows where its
// entries go and how many zero codes came before it.
#ifndef GQ_KERNELS_CUDA_SPARSE_SELECT_CUH
#define GQ_KERNELS_CUDA_SPARSE_SELECT_CUH

#include <cub/block/block_scan.cuh>

#include "kernels/codec/sparse.h"
#include "kernels/codec/words.h"
#include "kernels/cuda/launch/access.cuh"
#include "kernels/cuda/sparse/scan.cuh"
#include "kernels/sparse_workspace.h"

namespace gq::cuda {

/** Of a mask that is not 0. */
GQ_DEVICE uint32_t lowest_one(uint64_t mask) {
  return static_cast<uint32_t>(__ffsll(static_cast<long long>(mask)) - 1);
}
GQ_DEVICE uint32_t highest_one(uint64_t mask) {
  const uint32_t high = static_cast<uint32_t>(mask >> 32);
  return high != 0 ? 32 + highest_bit(high) : highest_bit(static_cast<uint32_t>(mask));
}

/** A bit for each lane of a word that is not `zeros`' lane, from the lowest lane on. The leading
 * bits of bytes, or of every second lane of 4 bits, come together in a product: no two of its terms
 * overlap. */
template <uint32_t kBits>
GQ_DEVICE uint32_t other_lanes(uint32_t word, uint32_t zeros) {
  const uint32_t differs = word ^ zeros;
  if constexpr (kBits == 8) {
    const uint32_t found = ((differs & 0x7f7f7f7fu) + 0x7f7f7f7fu) | differs;
    return ((found & 0x80808080u) * 0x00204081u) >> 28;
  } else {
    const uint32_t found = ((differs & 0x77777777u) + 0x77777777u) | differs;
    return ((found & 0x08080808u) * 0x00208208u + (found & 0x80808080u) * 0x00041041u) >> 24;
  }
}

/** A stretch of codes: its entries, but for fillers before the first of them, and the zero codes
 *  before the first and after the last entry. Without entries both are its length. */
template <typename Number>
struct StretchOf {
  Number entry_count;
  Number zeros_before;
  Number zeros_after;
};
using Stretch = StretchOf<uint64_t>;
using ShortStretch = StretchOf<uint32_t>;  ///< in a tile, which has no fillers inside
static_assert(sizeof(Stretch) == kStretchBytes);

/** A range's codes, a tile of them in an iteration, 64 of these for each thread. */
template <uint32_t kCodeBits>
struct CodeTiles : StageDefaults {
  static constexpr uint32_t kBits = kCodeBits;
  static constexpr uint32_t kThreadCodes = kSelectTileCodes / kThreads;
  static_assert(kThreadCodes == 64, "a mask has a bit for each");
  WordBuffer<const uint32_t> words;
  uint64_t value_count;
  uint32_t zero;
  Stretch* tiles;

  CodeTiles(const uint32_t* packed, const Range& range, const Coding& coding, void* workspace)
      : words(word_buffer<kBits>(packed)),
        value_count(range.value_count),
        zero(zero_lane(coding)),
        tiles(static_cast<Stretch*>(workspace)) {}

  GQ_HD uint32_t iterations() const {
    return static_cast<uint32_t>((value_count + kSelectTileCodes - 1) / kSelectTileCodes);
  }
  GQ_DEVICE static uint64_t first_of(uint32_t tile, uint32_t thread) {
    return uint64_t{tile} * kSelectTileCodes + thread * kThreadCodes;
  }

  GQ_DEVICE uint64_t others(uint32_t tile) const {
    constexpr uint32_t kPerWord = codes_per_word(kBits);
    const uint64_t first = first_of(tile, threadIdx.x);
    const uint32_t zeros = zero * (kBits == 8 ? 0x01010101u : 0x11111111u);
    uint64_t mask = 0;
    GQ_UNROLL for (uint32_t part = 0; part < kThreadCodes; part += kThreadValues) {
      const uint32_t count = count_here(first + part, value_count);
      uint32_t word[kThreadWords<kBits>];
      load_words<kBits>(words, first + part, count, word);
      uint32_t found = 0;
      GQ_UNROLL for (uint32_t w = 0; w < kThreadWords<kBits>; ++w) {
        found |= other_lanes<kBits>(word[w], zeros) << (w * kPerWord);
      }
      mask |= uint64_t{found & ((1u << count) - 1)} << part;
    }
    return mask;
  }

  GQ_DEVICE uint32_t lane_at(uint64_t value) const {
    return lane<kBits>(words.words[value / codes_per_word(kBits)], static_cast<uint32_t>(value));
  }
};

/** What the threads of a block find in a tile. */
struct TileCount {
  uint32_t entry_count;
  uint32_t from_first;  ///< the most codes from an entry to the tile's end; 0 is none
  uint32_t end;         ///< behind the last entry
};

/** Adds what this thread has found; one instruction of a warp each, where cub::BlockReduce would
 *  take three reductions of five shuffles. */
GQ_DEVICE void add_found(uint64_t mask, TileCount& found) {
  const uint32_t first = threadIdx.x * 64;
  const uint32_t from_first = mask != 0 ? kSelectTileCodes - (first + lowest_one(mask)) : 0;
  const uint32_t count = __reduce_add_sync(~0u, static_cast<uint32_t>(__popcll(mask)));
  if (threadIdx.x % kWarpThreads == 0) atomicAdd(&found.entry_count, count);
  raise_together(&found.from_first, from_first);
  raise_together(&found.end, mask != 0 ? first + highest_one(mask) + 1 : 0);
}

/** What a tile has of entries and of zero codes around them. */
GQ_DEVICE Stretch stretch_of(const TileCount& found, uint64_t codes_left) {
  const uint32_t length =
      codes_left < kSelectTileCodes ? static_cast<uint32_t>(codes_left) : kSelectTileCodes;
  if (found.entry_count == 0) return {0, length, length};
  return {found.entry_count, kSelectTileCodes - found.from_first, length - found.end};
}

template <typename Tiles>
GQ_DEVICE void run_count(const Tiles& stage, const Iterations& iterations, TileCount& found) {
  for (uint32_t tile = iterations.first; tile < iterations.end; tile += gridDim.x) {
    if (threadIdx.x == 0) found = {0, 0, 0};
    __syncthreads();
    add_found(stage.others(tile), found);
    __syncthreads();
    if (threadIdx.x == 0) {
      stage.tiles[tile] = stretch_of(found, stage.value_count - stage.first_of(tile, 0));
    }
  }
}

template <typename Tiles>
__global__ void __launch_bounds__(kBlockThreads, 3)
    count_tiles_kernel(const __grid_constant__ Tiles stage) {
  __shared__ TileCount found;
  run_count(stage, {blockIdx.x, stage.iterations()}, found);
}

/** Two stretches as one. Fillers between two entries belong to the second. */
template <typename Number>
GQ_DEVICE StretchOf<Number> plus(const StretchOf<Number>& a, const StretchOf<Number>& b) {
  if (b.entry_count == 0) {
    return {a.entry_count, a.zeros_before + (a.entry_count == 0 ? b.zeros_before : 0),
            a.zeros_after + b.zeros_after};
  }
  if (a.entry_count == 0) {
    return {b.entry_count, a.zeros_before + b.zeros_before, b.zeros_after};
  }
  const uint64_t fillers = fillers_of(uint64_t{a.zeros_after} + b.zeros_before);
  return {a.entry_count + static_cast<Number>(fillers) + b.entry_count, a.zeros_before,
          b.zeros_after};
}

/** Tiles in order, behind what ranges before this one had. There is always an entry before them:
 *  one more than there are, so that zero codes before the first become fillers as well. */
struct TilesInOrder {
  using Item = Stretch;
  Stretch* tiles;
  uint64_t tile_count;
  uint64_t* skipped;
  uint64_t* entry_count;

  GQ_HD uint64_t count() const { return tile_count; }
  GQ_DEVICE Stretch* items(uint32_t) const { return tiles; }
  GQ_DEVICE Stretch first(uint32_t) const { return {*entry_count + 1, 0, *skipped}; }
  GQ_DEVICE void end(uint32_t, const Stretch& all) const {
    *entry_count = all.entry_count - 1;
    *skipped = all.zeros_after;
  }
};

/** Writes the entries of a tile from where the tiles before it end. */
template <uint32_t kBits>
struct SelectTiles : CodeTiles<kBits> {
  uint32_t* entries;

  explicit SelectTiles(const SelectArgs& args)
      : CodeTiles<kBits>(args.words, args.range, args.coding, args.workspace),
        entries(args.entries) {}

  /** A thread's codes, of which `mask` are not zero. */
  GQ_DEVICE static ShortStretch stretch_of_thread(uint64_t mask) {
    if (mask == 0) return {0, SelectTiles::kThreadCodes, SelectTiles::kThreadCodes};
    return {static_cast<uint32_t>(__popcll(mask)), lowest_one(mask),
            SelectTiles::kThreadCodes - 1 - highest_one(mask)};
  }

  /** in_tile: of the threads before this one. */
  GQ_DEVICE void write(uint32_t tile, uint64_t mask, const ShortStretch& in_tile) const {
    if (mask == 0) return;
    const Stretch before = plus(
        this->tiles[tile], {in_tile.entry_count, in_tile.zeros_before, in_tile.zeros_after});
    const uint64_t first = this->first_of(tile, threadIdx.x);
    uint32_t* entry = entries + before.entry_count - 1;  // one more is counted than there are
    uint64_t gap = before.zeros_after;
    for (uint32_t next = 0; mask != 0; mask &= mask - 1) {
      const uint32_t place = lowest_one(mask);
      gap += place - next;
      for (; fillers_of(gap) != 0; gap -= uint64_t{1} << kEntryGapBits) {
        *entry++ = filler_entry(this->zero);
      }
      *entry++ = entry_of(gap, this->lane_at(first + place));
      gap = 0;
      next = place + 1;
    }
  }
};

using StretchScan = cub::BlockScan<ShortStretch, kBlockThreads>;

template <typename Tiles>
GQ_DEVICE void run_select(const Tiles& stage, const Iterations& iterations,
                          typename StretchScan::TempStorage& storage) {
  for (uint32_t tile = iterations.first; tile < iterations.end; tile += gridDim.x) {
    const uint64_t mask = stage.others(tile);
    ShortStretch before;
    StretchScan(storage).ExclusiveScan(stage.stretch_of_thread(mask), before, {}, Plus());
    stage.write(tile, mask, before);
    __syncthreads();  // the storage is used again
  }
}

template <typename Tiles>
__global__ void __launch_bounds__(kBlockThreads, 3)
    select_tiles_kernel(const __grid_constant__ Tiles stage) {
  __shared__ typename StretchScan::TempStorage storage;
  run_select(stage, {blockIdx.x, stage.iterations()}, storage);
}

template <uint32_t kBits, typename Args>
StageError count_tiles(const Launcher& launcher, const Args& args) {
  const CodeTiles<kBits> stage(args.words, args.range, args.coding, args.workspace);
  launcher.run<count_tiles_kernel<CodeTiles<kBits>>>(stage.iterations(), stage);
  const TilesInOrder rows{stage.tiles, stage.iterations(), args.skipped, args.entry_count};
  return launcher.launch<scan_rows_kernel<TilesInOrder>>(1, kBlockThreads, rows);
}

template <uint32_t kBits>
StageError select_entries(const Launcher& launcher, const SelectArgs& args) {
  if (!args.counted) count_tiles<kBits>(launcher, args);
  const SelectTiles<kBits> stage(args);
  return launcher.run<select_tiles_kernel<SelectTiles<kBits>>>(stage.iterations(), stage);
}

}  // namespace gq::cuda

#endif
