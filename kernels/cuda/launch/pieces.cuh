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
  uint64_t end = 0;              ///< iterations of all pieces up to this one; leaves no padding
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

  GQ_DEVICE uint32_t end_of(uint32_t number) const {
    return static_cast<uint32_t>(table != nullptr ? __ldg(&table[number].end)
                                                  : argument[number].end);
  }
  /** The stage on one of the pieces. */
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
  /** The first piece that ends behind the iteration. */
  GQ_DEVICE uint32_t find(uint32_t iteration) const {
    uint32_t low = 0, high = piece_count - 1;
    while (low < high) {
      const uint32_t middle = (low + high) / 2;
      if (end_of(middle) > iteration) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }
};

/** Calls each(stage, iterations) with each piece that this block has iterations of, counted from
 *  the piece's first one. */
template <typename Stage, typename Each>
GQ_DEVICE void for_each_piece(const Pieces<Stage>& pieces, Each each) {
  for (uint32_t next = blockIdx.x; next < pieces.iteration_count;) {
    const uint32_t number = pieces.find(next), end = pieces.end_of(number);
    const uint32_t first = number == 0 ? 0 : pieces.end_of(number - 1);
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
    const StageError error = launcher.launch(write_items_kernel<ItemList<Item, kItems>>, 1,
                                             kBlockThreads, list);
    if (failed(error)) return error;
  }
  return {};
}

/** Fills `pieces`, whose k-th is piece_of(k). What does not fit there is brought to the table, if
 *  that has other pieces. */
template <typename Stage, typename PieceOf>
StageError list_pieces(const Launcher& launcher, size_t count, const BatchTable& table,
                       PieceOf piece_of, Pieces<Stage>* pieces) {
  Stage stage = pieces->stage;
  const auto next = [&](size_t k) {
    Piece piece = piece_of(k);
    stage.set(piece);
    pieces->iteration_count += stage.iterations();
    piece.end = pieces->iteration_count;
    return piece;
  };
  pieces->piece_count = static_cast<uint32_t>(count);
  if (count <= kBatchArgumentsMax) {
    for (size_t k = 0; k < count; ++k) pieces->argument[k] = next(k);
    return {};
  }
  auto* const on_device = static_cast<Piece*>(table.on_device);
  pieces->table = on_device;
  if (table.written == nullptr) return write_items(launcher, count, on_device, next);
  auto* const written = static_cast<Piece*>(table.written);
  bool differs = false;
  for (size_t k = 0; k < count; ++k) {
    const Piece piece = next(k);
    differs |= memcmp(&written[k], &piece, sizeof piece) != 0;
    written[k] = piece;
  }
  if (!differs) return {};
  return write_items(launcher, count, on_device, [&](size_t k) { return written[k]; });
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
      const size_t left = count - done;
      Pieces<Stage> pieces(stage);
      StageError error = list_pieces(
          launcher, left < most ? left : most, table,
          [&](size_t number) { return piece_of(args[done + number]); }, &pieces);
      if (!failed(error)) {
        error = launcher.run<kKernel>(pieces.iteration_count, pieces, others...);
      }
      if (failed(error)) return error;
    }
    return {};
  }
};

}  // namespace gq::cuda

#endif
