// Values from the sparse entries of all ranks. Every sixteenth entry of a rank is given its place;
// a block that makes a tile of values finds the entries of each rank from there, in rank order.
// Entries are whatever peers wrote: no place is outside the tile.
#ifndef GQ_KERNELS_CUDA_SPARSE_ADD_SPARSE_CUH
#define GQ_KERNELS_CUDA_SPARSE_ADD_SPARSE_CUH

#include "kernels/codec/sparse.h"
#include "kernels/cuda/launch/work.cuh"
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

  GQ_HD uint64_t* block_spans(uint32_t rank) const { return numbers + rank * buffers.blocks; }
  /** For each group the value behind the last entry before it. */
  GQ_HD uint64_t* group_values(uint32_t rank) const {
    return numbers + buffers.first_group() + rank * buffers.groups;
  }
  /** For each tile of values the last group that begins before it. */
  GQ_HD uint64_t* starts(uint32_t rank) const {
    return numbers + buffers.first_start() + rank * buffers.tiles;
  }

  GQ_HD uint64_t entries_left(const RankEntries& sparse) const {
    const uint64_t left = sparse.entry_count - sparse.next_entry;
    return left < buffers.groups * kEntryGroup ? left : buffers.groups * kEntryGroup;
  }
  GQ_HD uint64_t group_count(const RankEntries& sparse) const {
    return (entries_left(sparse) + kEntryGroup - 1) / kEntryGroup;
  }

  /** Loads a group; how many entries it has, none beyond them. */
  GQ_HD uint32_t load(const RankEntries& sparse, uint64_t group,
                      uint32_t (&entry)[kEntryGroup]) const {
    static_assert(kEntryGroup == kThreadValues);
    const uint32_t count = count_here(group * kEntryGroup, entries_left(sparse));
    load_words<32>(word_buffer<32>(sparse.entries + sparse.next_entry), group * kEntryGroup, count,
                   entry);
    return count;
  }

  /** Values that a group takes up. */
  GQ_HD uint64_t span(const RankEntries& sparse, uint64_t group) const {
    uint32_t entry[kEntryGroup];
    uint64_t values = load(sparse, group, entry);
    GQ_UNROLL for (uint32_t k = 0; k < kEntryGroup; ++k) values += gap_of_entry(entry[k]);
    return values;
  }

  /** The last group that begins at `value` or before, else the first one. */
  GQ_HD uint64_t group_at(uint32_t number, const RankEntries& sparse, uint64_t value) const {
    const uint64_t* const begins = group_values(number);
    uint64_t low = 0, high = group_count(sparse);
    while (high - low > 1) {
      const uint64_t middle = low + (high - low) / 2;
      (begins[middle] <= value ? low : high) = middle;
    }
    return low;
  }
};

/** An iteration is a block of groups of one rank's entries, a thread has a group. */
template <typename Last>
struct OverGroups : BodyDefaults {
  static constexpr uint32_t kIntervals = 4;
  static constexpr bool kIterationBarriers = true;
  static_assert(kThreads == kEntryBlockGroups);
  using Shared = BlockSums<uint64_t>;
  using Here = Local<Shared, Nothing>;
  GroupedEntries all;

  explicit OverGroups(const GroupedEntries& all) : all(all) {
    iteration_count = static_cast<uint32_t>(all.buffers.ranks * all.buffers.blocks);
  }

  GQ_HD uint32_t rank_of(uint32_t iteration) const {
    return static_cast<uint32_t>(iteration / all.buffers.blocks);
  }
  GQ_HD uint64_t block_of(uint32_t iteration) const { return iteration % all.buffers.blocks; }

  GQ_HD void run(Interval<0>, uint32_t iteration, uint32_t, Here local) const {
    const uint64_t group = block_of(iteration) * kEntryBlockGroups + local.thread;
    local.shared.set(local.thread, all.span(all.rank_entries[rank_of(iteration)], group));
  }
  GQ_HD void run(Interval<1>, uint32_t, uint32_t, Here local) const {
    local.shared.add_rows(local.thread);
  }
  GQ_HD void run(Interval<2>, uint32_t, uint32_t, Here local) const {
    local.shared.add_all(local.thread);
  }
  GQ_HD void run(Interval<3>, uint32_t iteration, uint32_t, Here local) const {
    static_cast<const Last*>(this)->publish(iteration, local);
  }
};

struct SpanOfBlocks : OverGroups<SpanOfBlocks> {
  using OverGroups::OverGroups;
  GQ_HD void publish(uint32_t iteration, Here local) const {
    if (local.thread == 0)
      all.block_spans(rank_of(iteration))[block_of(iteration)] = local.shared.all;
  }
};

/** Spans of blocks become the values that they begin at. */
struct BlocksInOrder {
  using Item = uint64_t;
  GroupedEntries all;

  GQ_HD uint64_t count() const { return all.buffers.blocks; }
  GQ_HD uint64_t first(uint32_t rank) const { return all.rank_entries[rank].next_value; }
  GQ_HD uint64_t at(uint32_t rank, uint64_t k) const { return all.block_spans(rank)[k]; }
  GQ_HD void put(uint32_t rank, uint64_t k, uint64_t before) const {
    all.block_spans(rank)[k] = before;
  }
  GQ_HD void end(uint32_t, uint64_t) const {}
};

struct PlaceGroups : OverGroups<PlaceGroups> {
  using OverGroups::OverGroups;
  GQ_HD void publish(uint32_t iteration, Here local) const {
    const uint32_t rank = rank_of(iteration);
    const uint64_t group = block_of(iteration) * kEntryBlockGroups + local.thread;
    if (group >= all.buffers.groups) return;
    all.group_values(rank)[group] =
        all.block_spans(rank)[block_of(iteration)] + local.shared.before(local.thread);
  }
};

/** Where each tile of values begins in the entries of each rank; a thread looks for one. */
struct FindStarts : BodyDefaults {
  GroupedEntries all;

  explicit FindStarts(const GroupedEntries& all) : all(all) {
    iteration_count =
        static_cast<uint32_t>(pieces_of(all.buffers.ranks * all.buffers.tiles, kThreads));
  }

  template <typename Here>
  GQ_HD void run(Interval<0>, uint32_t iteration, uint32_t, Here local) const {
    const uint64_t number = uint64_t{iteration} * kThreads + local.thread;
    if (number >= all.buffers.ranks * all.buffers.tiles) return;
    const uint32_t rank = static_cast<uint32_t>(number / all.buffers.tiles);
    const uint64_t tile = number % all.buffers.tiles;
    all.starts(rank)[tile] =
        all.group_at(rank, all.rank_entries[rank], all.first_value + tile * kAddTileValues);
  }
};

/** Sums of codes, in steps. */
template <uint32_t kCodeBits>
struct LinearSums {
  static constexpr uint32_t kBits = kCodeBits;
  static constexpr uint32_t kBlocksAtOnce = BodyDefaults::kBlocksAtOnce;
  using Sum = int32_t;
  int32_t steps;

  explicit LinearSums(const Coding& coding) : steps(static_cast<int32_t>(coding.steps)) {}
  GQ_HD void add(uint32_t lane, Sum& sum) const { sum += static_cast<int32_t>(lane) - steps; }
};

/** Sums of levels, in norms. */
template <uint32_t kCodeBits>
struct ExponentialSums {
  static constexpr uint32_t kBits = kCodeBits;
  /** Of 4 bits three would need local memory on compute capability 12.0. */
  static constexpr uint32_t kBlocksAtOnce = kBits == 4 ? 2 : BodyDefaults::kBlocksAtOnce;
  using Sum = float;

  explicit ExponentialSums(const Coding&) {}
  GQ_HD void add(uint32_t lane, Sum& sum) const {
    sum += float_from_upper(exponential_level_upper<kBits>(static_cast<Byte>(lane),
                                                           static_cast<Byte>(code_max(kBits))));
  }
};

/** An iteration is a tile of values, a part of it one rank's entries: ranks are added in order, and
 *  no two entries of a rank have one place. */
template <typename Sums>
struct AddTile : BodyDefaults {
  static constexpr uint32_t kBlocksAtOnce = Sums::kBlocksAtOnce;
  static constexpr uint32_t kCloseIntervals = 1;
  static constexpr bool kIterationBarriers = true;
  using Sum = typename Sums::Sum;
  struct Shared {
    Sum sum[kAddTileValues + kAddTileValues / kThreadValues];
  };
  using Here = Local<Shared, Nothing>;
  GroupedEntries all;
  Sums sums;
  ValueTarget target;
  float step;
  bool constant;  ///< all values are `step`, whatever the entries are

  AddTile(const GroupedEntries& all, const AddSparseArgs& args)
      : all(all),
        sums(args.coding),
        target(args.values, args.dtype, args.coding.rounding == Rounding::nearest,
               shared_stream(args.random, Draw::output)),
        constant(args.scale == 0 || !is_finite(args.scale)) {
    step = constant ? (args.scale == 0 ? 0 : float_from_bits(kFloatNanBits))
                    : sparse_step(args.coding, args.scale, args.op == GQSGD_MEAN);
    iteration_count = static_cast<uint32_t>(all.buffers.tiles);
    part_count = constant ? 0 : args.coding.ranks;
  }

  GQ_HD void open(uint32_t, Here local) const {
    constexpr uint32_t kCount = sizeof(Shared) / sizeof(Sum);
    for (uint32_t k = local.thread; k < kCount; k += kThreads) local.shared.sum[k] = 0;
  }

  GQ_HD void run(Interval<0>, uint32_t iteration, uint32_t number, Here local) const {
    const RankEntries& sparse = all.rank_entries[number];
    const uint64_t* const begins = all.group_values(number);
    const uint64_t tile_begin = all.first_value + uint64_t{iteration} * kAddTileValues;
    const uint64_t group_count = all.group_count(sparse);
    uint64_t group = all.starts(number)[iteration] + local.thread;
    for (; group < group_count; group += kThreads) {
      const uint64_t value = begins[group];
      if (value >= tile_begin + kAddTileValues) break;
      add_group(sparse, group, value - tile_begin, local);
    }
  }

  GQ_HD void close(Interval<0>, uint32_t iteration, Here local) const {
    constexpr uint32_t kRounds = kAddTileValues / (kThreads * kThreadValues);
    for (uint32_t round = 0; round < kRounds; ++round) {
      const uint32_t first = (round * kThreads + local.thread) * kThreadValues;
      const uint64_t offset = uint64_t{iteration} * kAddTileValues + first;
      const uint32_t count = count_here(offset, all.value_count);
      if (count == 0) return;
      float value[kThreadValues];
      GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
        const float sum = static_cast<float>(local.shared.sum[padded(first + e)]);
        value[e] = constant ? step : sum * step;
      }
      target.store(all.first_value, offset, count, value);
    }
  }

 private:
  /** `place`: of the value behind the last entry before, from the tile's first one on; what lies
   *  before the tile is beyond its end as well. */
  GQ_HD void add_group(const RankEntries& sparse, uint64_t group, uint64_t place,
                       Here local) const {
    uint32_t entry[kEntryGroup];
    const uint32_t count = all.load(sparse, group, entry);
    GQ_UNROLL for (uint32_t k = 0; k < kEntryGroup; ++k) {
      place += gap_of_entry(entry[k]);
      if (k < count && place < kAddTileValues) {
        sums.add(lane_of_entry(entry[k], Sums::kBits),
                 local.shared.sum[padded(static_cast<uint32_t>(place))]);
      }
      place += 1;
    }
  }
};

/** Entries continue beyond the end of the range. */
struct PassRange : BodyDefaults {
  GroupedEntries all;

  explicit PassRange(const GroupedEntries& all) : all(all) {
    iteration_count = static_cast<uint32_t>(pieces_of(all.buffers.ranks, kThreads));
  }

  template <typename Here>
  GQ_HD void run(Interval<0>, uint32_t iteration, uint32_t, Here local) const {
    const uint32_t number = iteration * kThreads + local.thread;
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
};

template <typename Launcher>
StageError place_entries(Launcher& launch, const GroupedEntries& all) {
  StageError error = launch.run(SpanOfBlocks(all));
  const uint32_t ranks = static_cast<uint32_t>(all.buffers.ranks);
  if (!failed(error)) error = launch.run(ScanRows<BlocksInOrder>({all}, ranks));
  if (!failed(error)) error = launch.run(PlaceGroups(all));
  return failed(error) ? error : launch.run(FindStarts(all));
}

template <typename Sums, typename Launcher>
StageError add_sparse_with(Launcher& launch, const AddSparseArgs& args) {
  const GroupedEntries all(args);
  const AddTile<Sums> tiles(all, args);
  StageError error = tiles.constant ? StageError() : place_entries(launch, all);
  if (!failed(error)) error = launch.run(tiles);
  return failed(error) || tiles.constant ? error : launch.run(PassRange(all));
}

template <typename Launcher>
StageError add_sparse_on(Launcher launch, const AddSparseArgs& args) {
  if (args.range.value_count == 0) return {};  // Then pointers may be null.
  const bool byte_codes = args.coding.bits == 8;
  if (args.coding.levels == Levels::linear) {
    return byte_codes ? add_sparse_with<LinearSums<8>>(launch, args)
                      : add_sparse_with<LinearSums<4>>(launch, args);
  }
  return byte_codes ? add_sparse_with<ExponentialSums<8>>(launch, args)
                    : add_sparse_with<ExponentialSums<4>>(launch, args);
}

}  // namespace gq::cuda

#endif
