// Kernels on several ranges at once, each with buffers of its own: the shards of a call, or its
// tensors. Iterations of all ranges are numbered through, and a block finds the range of each.
#ifndef GQ_KERNELS_CUDA_LAUNCH_PIECES_CUH
#define GQ_KERNELS_CUDA_LAUNCH_PIECES_CUH

#include <string.h>

#include "kernels/cuda/launch/launch.cuh"
#include "kernels/numbers.h"

namespace gq::cuda {

/** A range and its buffers; what a stage does not have is null. */
struct Piece {
  uint64_t first_value = 0;
  uint64_t value_count = 0;
  const void* values = nullptr;  ///< of the caller; reduce_many: the first operand or their array
  const void* norms = nullptr;
  void* words = nullptr;         ///< codes; norm: its result
  void* scales = nullptr;        ///< of reduce_many, or its sums
  size_t scales_bytes = 0;       ///< ReduceManyArgs::operand_scales_bytes
  uint64_t begin = 0;            ///< iterations of all pieces before this one; leaves no padding
};
static_assert(sizeof(Piece) == kBatchPieceBytes);

/** The buffer of a view that is there. */
inline const void* place_of(const NormView& view) {
  if (view.one != nullptr) return view.one;
  return view.blocks != nullptr ? static_cast<const void*>(view.blocks) : view.numbers;
}

inline uint32_t operand_count(const ReduceManyArgs& args) {
  return args.weights != nullptr ? args.weight_count : args.coding.ranks;
}
/** Whether operands are arguments of the kernel; else they are in an array of device memory. */
inline bool are_arguments(const ReduceManyArgs& args) {
  return args.operands != nullptr && operand_count(args) <= kOperandArgumentsMax &&
         args.range.grouped == nullptr;
}

inline Piece piece_of(const NormArgs& args) {
  return {args.range.first_value, args.range.value_count, args.values, nullptr, args.out};
}
inline Piece piece_of(const QuantizeArgs& args) {
  return {args.range.first_value, args.range.value_count, args.values, place_of(args.norms),
          args.words};
}
inline Piece piece_of(const ReduceManyArgs& args) {
  return {.first_value = args.range.first_value,
          .value_count = args.range.value_count,
          .values = are_arguments(args) ? static_cast<const void*>(args.operands[0]) : args.words,
          .norms = place_of(args.norms),
          .words = args.out_words,
          .scales = args.sums != nullptr ? static_cast<void*>(args.sums) : args.out_scales,
          .scales_bytes = args.operand_scales_bytes};
}
inline Piece piece_of(const DequantizeArgs& args) {
  return {args.range.first_value, args.range.value_count, args.values, place_of(args.norms),
          const_cast<uint32_t*>(args.words), const_cast<void*>(place_of(args.scales))};
}
inline Piece piece_of(const WriteWidthsArgs& args) {
  return {args.range.first_value, args.range.value_count, nullptr, args.norms, args.widths};
}

/** A piece of a table, which no kernel writes meanwhile. */
GQ_DEVICE Piece table_piece(const Piece* piece) {
  Piece loaded;
  auto* const to = reinterpret_cast<unsigned long long*>(&loaded);
  const auto* const from = reinterpret_cast<const unsigned long long*>(piece);
  GQ_UNROLL for (uint32_t k = 0; k < sizeof(Piece) / sizeof(uint64_t); ++k) to[k] = __ldg(from + k);
  return loaded;
}

/** So that what is read and written there is no generic access. */
GQ_DEVICE void assume_global(const void* place) { __builtin_assume(__isGlobal(place)); }

/** A stage on several pieces. Stage::set() turns it to one of them, iterations() counts the
 *  iterations that this takes. */
template <typename Stage>
struct Pieces {
  static constexpr uint32_t kThreads = Stage::kThreads;

  Stage stage;
  uint32_t iteration_count = 0;  ///< of all pieces
  uint32_t piece_count = 0;
  const Piece* table = nullptr;  ///< the pieces, if they are more than fit here
  Piece argument[kBatchArgumentsMax];

  explicit Pieces(const Stage& stage) : stage(stage) {}

  GQ_DEVICE uint32_t begin_of(uint32_t number) const {
    return static_cast<uint32_t>(table != nullptr ? __ldg(&table[number].begin)
                                                  : argument[number].begin);
  }
  GQ_DEVICE uint32_t end_of(uint32_t number) const {
    return number + 1 < piece_count ? begin_of(number + 1) : iteration_count;
  }
  GQ_DEVICE Stage on(uint32_t number) const {
    const Piece piece = table != nullptr ? table_piece(table + number) : argument[number];
    assume_global(piece.values);
    assume_global(piece.norms);
    assume_global(piece.words);
    assume_global(piece.scales);
    Stage other = stage;
    other.set(piece);
    return other;
  }
};

/** Calls each(stage, iterations) with each piece that this block has iterations of, counted from
 *  the piece's first one. */
template <typename Stage, typename Each>
GQ_DEVICE void for_each_piece(const Pieces<Stage>& pieces, Each each) {
  for (uint32_t next = blockIdx.x; next < pieces.iteration_count;) {
    const uint32_t number = last_begun(pieces.piece_count, next,
                                       [&](uint32_t k) { return pieces.begin_of(k); });
    const uint32_t first = pieces.begin_of(number), end = pieces.end_of(number);
    each(pieces.on(number), Iterations{next - first, end - first});
    next += (end - next + gridDim.x - 1) / gridDim.x * gridDim.x;
  }
}

/** Items on their way to memory of the device: as arguments of a kernel, of which graphs keep a
 *  copy. */
template <typename Item, uint32_t kItems>
struct ItemList {
  Item item[kItems];
  uint32_t count;
  Item* out;
};
template <typename List>
__global__ void write_items_kernel(const __grid_constant__ List list) {
  for (uint32_t k = threadIdx.x; k < list.count; k += blockDim.x) list.out[k] = list.item[k];
}

inline constexpr uint32_t kArgumentBytes = 32764;  ///< of a kernel: CUDA 12.1, driver 530

/** Writes item_of(0) and so on to memory of the device. */
template <typename Item, uint32_t kItems = (kArgumentBytes - 16) / sizeof(Item), typename ItemOf>
StageError write_items(const Launcher& launcher, size_t count, Item* out, ItemOf item_of) {
  ItemList<Item, kItems> list;
  for (size_t first = 0; first < count; first += list.count) {
    const size_t left = count - first;
    list.count = left < kItems ? static_cast<uint32_t>(left) : kItems;
    list.out = out + first;
    for (uint32_t k = 0; k < list.count; ++k) list.item[k] = item_of(first + k);
    launcher.launch<write_items_kernel<ItemList<Item, kItems>>>(1, kBlockThreads, list);
  }
  return launcher.error();
}

/** Calls of one stage that become one launch. */
template <typename Args>
struct StageCalls {
  const Args* args;
  size_t count;
  BatchTable table;

  const Args& first() const { return args[0]; }

  /** A kernel whose first argument are the pieces. Without a table, as many at a time as are
   *  arguments. */
  template <auto kKernel, typename Stage, typename... Others>
  StageError run(const Launcher& launcher, const Stage& stage, const Others&... others) const {
    const size_t most = table.on_device == nullptr ? kBatchArgumentsMax : count;
    for (size_t done = 0; done < count; done += most) {
      Pieces<Stage> pieces(stage);
      list(launcher, done, count - done < most ? count - done : most, &pieces);
      launcher.run<kKernel>(pieces.iteration_count, pieces, others...);
    }
    return launcher.error();
  }

 private:
  /** Pieces that are more than arguments are brought to the table, if that has other ones. */
  template <typename Stage>
  void list(const Launcher& launcher, size_t begin, size_t listed, Pieces<Stage>* pieces) const {
    Stage stage = pieces->stage;
    const auto next = [&](size_t k) {
      Piece piece = piece_of(args[begin + k]);
      stage.set(piece);
      piece.begin = pieces->iteration_count;
      pieces->iteration_count += stage.iterations();
      return piece;
    };
    pieces->piece_count = static_cast<uint32_t>(listed);
    if (listed <= kBatchArgumentsMax) {
      for (size_t k = 0; k < listed; ++k) pieces->argument[k] = next(k);
      return;
    }
    auto* const on_device = static_cast<Piece*>(table.on_device);
    pieces->table = on_device;
    if (table.written == nullptr) {
      write_items(launcher, listed, on_device, next);
      return;
    }
    auto* const written = static_cast<Piece*>(table.written);
    bool differs = false;
    for (size_t k = 0; k < listed; ++k) {
      const Piece piece = next(k);
      differs |= memcmp(&written[k], &piece, sizeof piece) != 0;
      written[k] = piece;
    }
    if (differs) write_items(launcher, listed, on_device, [&](size_t k) { return written[k]; });
  }
};

}  // namespace gq::cuda

#endif
