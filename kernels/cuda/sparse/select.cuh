// Selects codes that are not zero as sparse entries (docs/FORMAT.md, section 14). Tiles of codes
// are counted in parallel, one block scans the counts in order, and then every tile knows where its
// entries go and how many zero codes came before it.
#ifndef GQ_KERNELS_CUDA_SPARSE_SELECT_CUH
#define GQ_KERNELS_CUDA_SPARSE_SELECT_CUH

#include "kernels/codec/sparse.h"
#include "kernels/codec/words.h"
#include "kernels/cuda/launch/access.cuh"
#include "kernels/cuda/sparse/scan.cuh"
#include "kernels/sparse_workspace.h"
#include "kernels/stages.h"

namespace gq::cuda {

GQ_HD uint32_t ones_in(uint64_t mask) {
#if defined(__CUDA_ARCH__)
  return static_cast<uint32_t>(__popcll(mask));
#else
  return static_cast<uint32_t>(__builtin_popcountll(mask));
#endif
}

/** Of a mask that is not 0. */
GQ_HD uint32_t lowest_one(uint64_t mask) {
#if defined(__CUDA_ARCH__)
  return static_cast<uint32_t>(__ffsll(static_cast<long long>(mask)) - 1);
#else
  return static_cast<uint32_t>(__builtin_ctzll(mask));
#endif
}
GQ_HD uint32_t highest_one(uint64_t mask) {
  const uint32_t high = static_cast<uint32_t>(mask >> 32);
  return high != 0 ? 32 + highest_bit(high) : highest_bit(static_cast<uint32_t>(mask));
}

/** *place += value, a number of which others add to at the same time: whole warps are here, and all
 *  mean one place. */
GQ_HD void add_together(uint32_t* place, uint32_t value) {
#if defined(__CUDA_ARCH__)
  const uint32_t sum = __reduce_add_sync(0xffffffffu, value);
  if (threadIdx.x % kWarpThreads == 0) atomicAdd(place, sum);
#else
  *place += value;
#endif
}

/** A bit for each lane of a word that is not `zeros`' lane, from the lowest lane on. The leading
 * bits of bytes, or of every second lane of 4 bits, come together in a product: no two of its terms
 * overlap. */
template <uint32_t kBits>
GQ_HD uint32_t other_lanes(uint32_t word, uint32_t zeros) {
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
struct Stretch {
  uint64_t entry_count;
  uint64_t zeros_before;
  uint64_t zeros_after;
};
static_assert(sizeof(Stretch) == kStretchBytes);

/** A range's codes, a tile of them in an iteration, 64 of these for each thread. */
template <uint32_t kBits>
struct CodeTiles : BodyDefaults {
  static constexpr uint32_t kThreadCodes = kSelectTileCodes / kThreads;
  static_assert(kThreadCodes == 64, "a mask has a bit for each");
  static constexpr bool kIterationBarriers = true;
  WordBuffer<const uint32_t> words;
  uint64_t value_count;
  uint32_t zero;
  Stretch* tiles;

  CodeTiles(const uint32_t* packed, const Range& range, const Coding& coding, void* workspace)
      : words(word_buffer<kBits>(packed)),
        value_count(range.value_count),
        zero(zero_lane(coding)),
        tiles(static_cast<Stretch*>(workspace)) {
    iteration_count = static_cast<uint32_t>(pieces_of(value_count, kSelectTileCodes));
  }

  GQ_HD static uint64_t first_of(uint32_t iteration, uint32_t thread) {
    return uint64_t{iteration} * kSelectTileCodes + thread * kThreadCodes;
  }

  /** Which of a thread's codes are not zero. */
  GQ_HD uint64_t others(uint64_t first) const {
    constexpr uint32_t kPerWord = codes_per_word(kBits);
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

  GQ_HD uint32_t lane_at(uint64_t value) const {
    return lane<kBits>(words.words[value / codes_per_word(kBits)], static_cast<uint32_t>(value));
  }
};

/** What a tile has of entries and of zero codes around them. */
template <uint32_t kBits>
struct CountTile : CodeTiles<kBits> {
  static constexpr uint32_t kCloseIntervals = 1;
  struct Shared {
    uint32_t entry_count;
    uint32_t from_first;  ///< the most codes from an entry to the tile's end; 0 is none
    uint32_t end;         ///< behind the last entry
  };
  using Here = Local<Shared, Nothing>;

  using CodeTiles<kBits>::CodeTiles;

  GQ_HD void open(uint32_t, Here local) const {
    if (local.thread == 0) local.shared = Shared{0, 0, 0};
  }
  GQ_HD void run(Interval<0>, uint32_t iteration, uint32_t, Here local) const {
    const uint64_t mask = this->others(this->first_of(iteration, local.thread));
    const uint32_t first = local.thread * this->kThreadCodes;
    const bool any = mask != 0;
    add_together(&local.shared.entry_count, ones_in(mask));
    raise_together(&local.shared.from_first,
                   any ? kSelectTileCodes - (first + lowest_one(mask)) : 0);
    raise_together(&local.shared.end, any ? first + highest_one(mask) + 1 : 0);
  }
  GQ_HD void close(Interval<0>, uint32_t iteration, Here local) const {
    if (local.thread != 0) return;
    const Shared& found = local.shared;
    const uint64_t left = this->value_count - this->first_of(iteration, 0);
    const uint32_t length =
        left < kSelectTileCodes ? static_cast<uint32_t>(left) : kSelectTileCodes;
    const uint32_t first = kSelectTileCodes - found.from_first;
    this->tiles[iteration] = found.entry_count == 0
                                 ? Stretch{0, length, length}
                                 : Stretch{found.entry_count, first, length - found.end};
  }
};

/** Two stretches as one. Fillers between two entries belong to the second. */
GQ_HD Stretch plus(const Stretch& a, const Stretch& b) {
  if (b.entry_count == 0) {
    return {a.entry_count, a.zeros_before + (a.entry_count == 0 ? b.zeros_before : 0),
            a.zeros_after + b.zeros_after};
  }
  if (a.entry_count == 0) {
    return {b.entry_count, a.zeros_before + b.zeros_before, b.zeros_after};
  }
  return {a.entry_count + fillers_of(a.zeros_after + b.zeros_before) + b.entry_count,
          a.zeros_before, b.zeros_after};
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
  GQ_HD Stretch first(uint32_t) const { return {*entry_count + 1, 0, *skipped}; }
  GQ_HD Stretch at(uint32_t, uint64_t k) const { return tiles[k]; }
  GQ_HD void put(uint32_t, uint64_t k, const Stretch& before) const {
    tiles[k] = {before.entry_count - 1, 0, before.zeros_after};
  }
  GQ_HD void end(uint32_t, const Stretch& all) const {
    *entry_count = all.entry_count - 1;
    *skipped = all.zeros_after;
  }
};

/** Entries of the threads before one in a tile: how many, the first of them, and what is behind the
 *  last. */
struct Passed {
  uint32_t entry_count;
  uint32_t first;
  uint32_t end;
};
GQ_HD Passed plus(const Passed& a, const Passed& b) {
  if (b.entry_count == 0) return a;
  return {a.entry_count + b.entry_count, a.entry_count == 0 ? b.first : a.first, b.end};
}

/** Writes the entries of a tile from where the tiles before it end. */
template <uint32_t kBits>
struct SelectTile : CodeTiles<kBits> {
  static constexpr uint32_t kIntervals = 4;
  using Shared = BlockSums<Passed>;
  struct Own {
    uint64_t mask;
  };
  using Here = Local<Shared, Own>;
  uint32_t* entries;

  explicit SelectTile(const SelectArgs& args)
      : CodeTiles<kBits>(args.words, args.range, args.coding, args.workspace),
        entries(args.entries) {}

  GQ_HD void run(Interval<0>, uint32_t iteration, uint32_t, Here local) const {
    const uint64_t mask = this->others(this->first_of(iteration, local.thread));
    const uint32_t first = local.thread * this->kThreadCodes;
    local.own.mask = mask;
    local.shared.set(local.thread, mask == 0 ? Passed{0, 0, 0}
                                             : Passed{ones_in(mask), first + lowest_one(mask),
                                                      first + highest_one(mask) + 1});
  }
  GQ_HD void run(Interval<1>, uint32_t, uint32_t, Here local) const {
    local.shared.add_rows(local.thread);
  }
  GQ_HD void run(Interval<2>, uint32_t, uint32_t, Here local) const {
    local.shared.add_all(local.thread);
  }
  GQ_HD void run(Interval<3>, uint32_t iteration, uint32_t, Here local) const {
    if (local.own.mask == 0) return;
    const uint64_t skipped = this->tiles[iteration].zeros_after;
    const Passed passed = local.shared.before(local.thread);
    uint32_t* entry = entries + this->tiles[iteration].entry_count + passed.entry_count;
    uint64_t before = skipped;  // zero codes before the tile, or less what is before the next one
    if (passed.entry_count > 0) {
      entry += fillers_of(skipped + passed.first);
      before = uint64_t{0} - passed.end;
    }
    for (uint64_t mask = local.own.mask; mask != 0; mask &= mask - 1) {
      const uint32_t place = local.thread * this->kThreadCodes + lowest_one(mask);
      uint64_t gap = before + place;
      for (; fillers_of(gap) != 0; gap -= uint64_t{1} << kEntryGapBits) {
        *entry++ = filler_entry(this->zero);
      }
      *entry++ = entry_of(gap, this->lane_at(this->first_of(iteration, 0) + place));
      before = uint64_t{0} - (place + 1);
    }
  }
};

template <uint32_t kBits, typename Launcher, typename Args>
StageError count_tiles(Launcher& launch, const Args& args) {
  const CountTile<kBits> tiles(args.words, args.range, args.coding, args.workspace);
  const StageError error = launch.run(tiles);
  if (failed(error)) return error;
  const TilesInOrder rows{tiles.tiles, tiles.iteration_count, args.skipped, args.entry_count};
  return launch.run(ScanRows<TilesInOrder>(rows, 1));
}

template <typename Launcher>
StageError count_entries_on(Launcher launch, const CountEntriesArgs& args) {
  if (args.range.value_count == 0) return {};  // Then pointers may be null.
  return args.coding.bits == 8 ? count_tiles<8>(launch, args) : count_tiles<4>(launch, args);
}

template <uint32_t kBits, typename Launcher>
StageError select_with(Launcher& launch, const SelectArgs& args) {
  if (!args.counted) {
    const StageError error = count_tiles<kBits>(launch, args);
    if (failed(error)) return error;
  }
  return launch.run(SelectTile<kBits>(args));
}

template <typename Launcher>
StageError select_on(Launcher launch, const SelectArgs& args) {
  if (args.range.value_count == 0) return {};
  return args.coding.bits == 8 ? select_with<8>(launch, args) : select_with<4>(launch, args);
}

}  // namespace gq::cuda

#endif
