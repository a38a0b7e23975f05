// Values from the sparse entries of all ranks. Every sixteenth entry of a rank is given its place;
// a block that makes a tile of values finds the entries of each rank from there, in rank order.
// Entries are whatever peers wrote: no place is outside the tile.
#ifndef GQ_KERNELS_CUDA_SPARSE_ADD_SPARSE_CUH
#define GQ_KERNELS_CUDA_SPARSE_ADD_SPARSE_CUH

#include <cub/block/block_reduce.cuh>

#include "kernels/codec/sparse.h"
#include "kernels/cuda/launch/values_kernel.cuh"
#include "kernels/cuda/sparse/scan.cuh"
#include "kernels/sparse_workspace.h"

namespace gq::cuda {

/** The entries of all ranks, cut into groups, and the state of each group. */
struct GroupedEntries {
  RankEntries* rank_entries;
  AddSparseWorkspace buffers;
  uint64_t* numbers;
  uint64_t first_value;
  uint64_t value_count;

  explicit GroupedEntries(const AddSparseArgs& args)
      : rank_entries(args.rank_entries),
        buffers(args.coding.ranks, args.entries_max, args.range.value_count),
        numbers(static_cast<uint64_t*>(args.workspace)),
        first_value(args.range.first_value),
        value_count(args.range.value_count) {}

  GQ_DEVICE uint64_t* block_spans(uint32_t rank) const { return numbers + rank * buffers.blocks; }
  /** For each group the value behind the last entry before it. */
  GQ_DEVICE uint64_t* group_values(uint32_t rank) const {
    return numbers + buffers.first_group() + rank * buffers.groups;
  }
  /** For each tile of values the last group that begins before it. */
  GQ_DEVICE uint64_t* starts(uint32_t rank) const {
    return numbers + buffers.first_start() + rank * buffers.tiles;
  }

  GQ_DEVICE uint64_t entries_left(const RankEntries& sparse) const {
    return min(sparse.entry_count - sparse.next_entry, buffers.groups * kEntryGroup);
  }
  GQ_DEVICE uint64_t group_count(const RankEntries& sparse) const {
    return (entries_left(sparse) + kEntryGroup - 1) / kEntryGroup;
  }

  /** Loads a group; how many entries it has, none beyond them. */
  GQ_DEVICE uint32_t load(const RankEntries& sparse, uint64_t group,
                          uint32_t (&entry)[kEntryGroup]) const {
    static_assert(kEntryGroup == kThreadValues);
    const uint32_t count = count_here(group * kEntryGroup, entries_left(sparse));
    load_words<32>(word_buffer<32>(sparse.entries + sparse.next_entry), group * kEntryGroup, count,
                   entry);
    return count;
  }

  /** Values that a group takes up. */
  GQ_DEVICE uint64_t span(const RankEntries& sparse, uint64_t group) const {
    uint32_t entry[kEntryGroup];
    uint64_t values = load(sparse, group, entry);
    GQ_UNROLL for (uint32_t k = 0; k < kEntryGroup; ++k) values += gap_of_entry(entry[k]);
    return values;
  }

  /** The last group that begins at `value` or before, else the first one. */
  GQ_DEVICE uint64_t group_at(uint32_t number, const RankEntries& sparse, uint64_t value) const {
    const uint64_t* const begins = group_values(number);
    return last_begun(group_count(sparse), value, [&](uint64_t k) { return begins[k]; });
  }
};

/** A block of threads has a block of groups of one rank's entries, a thread a group. */
struct GroupOfThread {
  uint32_t rank;
  uint64_t block;
  uint64_t group;

  GQ_DEVICE explicit GroupOfThread(const GroupedEntries& all)
      : rank(static_cast<uint32_t>(blockIdx.x / all.buffers.blocks)),
        block(blockIdx.x % all.buffers.blocks),
        group(block * kEntryBlockGroups + threadIdx.x) {
    static_assert(kBlockThreads == kEntryBlockGroups);
  }
};

__global__ void __launch_bounds__(kBlockThreads, 3)
    span_of_blocks_kernel(const __grid_constant__ GroupedEntries all) {
  using Sum = cub::BlockReduce<uint64_t, kBlockThreads>;
  __shared__ typename Sum::TempStorage storage;
  const GroupOfThread here(all);
  const uint64_t span = Sum(storage).Sum(all.span(all.rank_entries[here.rank], here.group));
  if (threadIdx.x == 0) all.block_spans(here.rank)[here.block] = span;
}

/** Spans of blocks become the values that they begin at. */
struct BlocksInOrder {
  using Item = uint64_t;
  GroupedEntries all;

  GQ_DEVICE uint64_t count() const { return all.buffers.blocks; }
  GQ_DEVICE uint64_t* items(uint32_t rank) const { return all.block_spans(rank); }
  GQ_DEVICE uint64_t first(uint32_t rank) const { return all.rank_entries[rank].next_value; }
  GQ_DEVICE void end(uint32_t, uint64_t) const {}
};

__global__ void __launch_bounds__(kBlockThreads, 3)
    place_groups_kernel(const __grid_constant__ GroupedEntries all) {
  using Scan = cub::BlockScan<uint64_t, kBlockThreads>;
  __shared__ typename Scan::TempStorage storage;
  const GroupOfThread here(all);
  uint64_t before;
  Scan(storage).ExclusiveSum(all.span(all.rank_entries[here.rank], here.group), before);
  if (here.group >= all.buffers.groups) return;
  all.group_values(here.rank)[here.group] = all.block_spans(here.rank)[here.block] + before;
}

/** Where each tile of values begins in the entries of each rank; a thread looks for one. */
__global__ void __launch_bounds__(kBlockThreads, 3)
    find_starts_kernel(const __grid_constant__ GroupedEntries all) {
  const uint64_t number = uint64_t{blockIdx.x} * kBlockThreads + threadIdx.x;
  if (number >= all.buffers.ranks * all.buffers.tiles) return;
  const uint32_t rank = static_cast<uint32_t>(number / all.buffers.tiles);
  const uint64_t tile = number % all.buffers.tiles;
  all.starts(rank)[tile] =
      all.group_at(rank, all.rank_entries[rank], all.first_value + tile * kAddTileValues);
}

/** Sums of codes, in steps. */
template <uint32_t kCodeBits>
struct LinearSums {
  static constexpr uint32_t kBits = kCodeBits;
  using Sum = int32_t;
  int32_t steps;

  explicit LinearSums(const Coding& coding) : steps(static_cast<int32_t>(coding.steps)) {}
  GQ_DEVICE void add(uint32_t lane, Sum& sum) const { sum += static_cast<int32_t>(lane) - steps; }
};

/** Sums of levels, in norms. */
template <uint32_t kCodeBits>
struct ExponentialSums {
  static constexpr uint32_t kBits = kCodeBits;
  using Sum = float;

  explicit ExponentialSums(const Coding&) {}
  GQ_DEVICE void add(uint32_t lane, Sum& sum) const {
    sum += float_from_upper(exponential_level_upper<kBits>(static_cast<Byte>(lane),
                                                           static_cast<Byte>(code_max(kBits))));
  }
};

/** Where a value's sum lies in shared memory: a gap after every 16, so that neither steps of 1 nor
 *  of 16 values meet in one bank. */
GQ_DEVICE uint32_t padded(uint32_t value) { return value + value / kThreadValues; }

/** An iteration is a tile of values. Ranks are added in order, and no two entries of a rank have
 *  one place. */
template <typename Sums>
struct AddTile : ValueStage {
  using Sum = typename Sums::Sum;
  using Shared = Sum[kAddTileValues + kAddTileValues / kThreadValues];
  GroupedEntries all;
  Sums sums;
  ValueTarget<> target;
  uint32_t ranks;
  float step;
  bool constant;  ///< all values are `step`, whatever the entries are

  AddTile(const GroupedEntries& all, const AddSparseArgs& args)
      : ValueStage(args.range, false),
        all(all),
        sums(args.coding),
        target(args),
        constant(args.scale == 0 || !is_finite(args.scale)) {
    step = constant ? (args.scale == 0 ? 0 : float_from_bits(kFloatNanBits))
                    : sparse_step(args.coding, args.scale, args.op == GQSGD_MEAN);
    ranks = constant ? 0 : args.coding.ranks;
  }

  GQ_DEVICE static void clear(Shared& sum) {
    constexpr uint32_t kCount = sizeof(Shared) / sizeof(Sum);
    for (uint32_t k = threadIdx.x; k < kCount; k += kThreads) sum[k] = 0;
  }

  GQ_DEVICE void add_rank(uint32_t tile, uint32_t rank, Shared& sum) const {
    const RankEntries& sparse = all.rank_entries[rank];
    const uint64_t* const begins = all.group_values(rank);
    const uint64_t tile_begin = first_value + uint64_t{tile} * kAddTileValues;
    const uint64_t group_count = all.group_count(sparse);
    uint64_t group = all.starts(rank)[tile] + threadIdx.x;
    for (; group < group_count; group += kThreads) {
      const uint64_t value = begins[group];
      if (value >= tile_begin + kAddTileValues) break;
      add_group(sparse, group, value - tile_begin, sum);
    }
  }

  GQ_DEVICE void store(uint32_t tile, const Shared& sum) const {
    static_assert(kAddTileValues == kBlockValues);
    const Place place = this->place(tile);
    if (place.code_count == 0) return;
    float value[kThreadValues];
    GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
      value[e] = constant ? step : static_cast<float>(sum[padded(place.within + e)]) * step;
    }
    target.store(first_value, place, value);
  }

 private:
  /** `place`: of the value behind the last entry before, from the tile's first one on; what lies
   *  before the tile is beyond its end as well. */
  GQ_DEVICE void add_group(const RankEntries& sparse, uint64_t group, uint64_t place,
                           Shared& sum) const {
    uint32_t entry[kEntryGroup];
    const uint32_t count = all.load(sparse, group, entry);
    GQ_UNROLL for (uint32_t k = 0; k < kEntryGroup; ++k) {
      place += gap_of_entry(entry[k]);
      if (k < count && place < kAddTileValues) {
        sums.add(lane_of_entry(entry[k], Sums::kBits), sum[padded(static_cast<uint32_t>(place))]);
      }
      place += 1;
    }
  }
};

template <typename Sums>
__global__ void __launch_bounds__(kBlockThreads, 2)  // 80 registers are a few too few on 12.0
    add_tiles_kernel(const __grid_constant__ AddTile<Sums> stage, const Gate gate) {
  __shared__ typename AddTile<Sums>::Shared sum;
  if (!is_open(gate)) return;
  for (uint32_t tile = blockIdx.x; tile < stage.all.buffers.tiles; tile += gridDim.x) {
    stage.clear(sum);
    __syncthreads();
    for (uint32_t rank = 0; rank < stage.ranks; ++rank) {
      stage.add_rank(tile, rank, sum);
      __syncthreads();
    }
    stage.store(tile, sum);
    __syncthreads();
  }
}

/** Entries continue beyond the end of the range: a thread for each rank. */
__global__ void __launch_bounds__(kBlockThreads, 3)
    pass_range_kernel(const __grid_constant__ GroupedEntries all, const Gate gate) {
  if (!is_open(gate)) return;
  const uint32_t number = blockIdx.x * kBlockThreads + threadIdx.x;
  if (number >= all.buffers.ranks || all.entries_left(all.rank_entries[number]) == 0) return;
  RankEntries& sparse = all.rank_entries[number];
  const uint64_t end = all.first_value + all.value_count;
  const uint64_t group = all.group_at(number, sparse, end);
  uint32_t entry[kEntryGroup];
  const uint32_t count = all.load(sparse, group, entry);
  uint64_t value = all.group_values(number)[group];
  uint32_t passed = 0;
  GQ_UNROLL for (uint32_t k = 0; k < kEntryGroup; ++k) {
    const uint64_t next = value + gap_of_entry(entry[k]);
    if (passed == k && k < count && next < end) {
      passed += 1;
      value = next + 1;
    }
  }
  sparse.next_entry += group * kEntryGroup + passed;
  sparse.next_value = value;
}

inline void place_entries(const Launcher& launcher, const GroupedEntries& all) {
  const AddSparseWorkspace& buffers = all.buffers;
  const auto ranks = static_cast<uint32_t>(buffers.ranks);
  const auto blocks = static_cast<uint32_t>(ranks * buffers.blocks);
  const auto tiles = static_cast<uint32_t>(pieces_of(ranks * buffers.tiles, kBlockThreads));
  launcher.launch<span_of_blocks_kernel>(blocks, kBlockThreads, all);
  launcher.launch<scan_rows_kernel<BlocksInOrder>>(ranks, kBlockThreads, BlocksInOrder{all});
  launcher.launch<place_groups_kernel>(blocks, kBlockThreads, all);
  launcher.launch<find_starts_kernel>(tiles, kBlockThreads, all);
}

template <typename Sums>
StageError add_entries(const Launcher& launcher, const AddSparseArgs& args) {
  const GroupedEntries all(args);
  const AddTile<Sums> stage(all, args);
  const auto tiles = static_cast<uint32_t>(all.buffers.tiles);
  const auto blocks = static_cast<uint32_t>(pieces_of(all.buffers.ranks, kBlockThreads));
  const Gate& gate = launcher.gate();
  if (!stage.constant) place_entries(launcher, all);
  launcher.run<add_tiles_kernel<Sums>>(tiles, stage, gate);
  if (stage.constant) return launcher.error();
  return launcher.launch<pass_range_kernel>(blocks, kBlockThreads, all, gate);
}

}  // namespace gq::cuda

#endif
