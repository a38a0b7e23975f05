// Kernels on several ranges at once, each with buffers of its own: the shards of a call, or its
// tensors. Iterations of all ranges are numbered through, and a block finds the range of each.
#ifndef GQ_KERNELS_CUDA_LAUNCH_PIECES_CUH
#define GQ_KERNELS_CUDA_LAUNCH_PIECES_CUH

#include <string.h>

#include "kernels/cuda/launch/launch.cuh"

namespace gq::cuda {

/** A range and its buffers; what a stage does not have is null. */
struct Piece {
  uint64_t first_value = 0;
  uint64_t value_count = 0;
  const void* values = nullptr;  ///< of the caller; reduce_many: the array of operands
  const void* norms = nullptr;   ///< or scales
  void* words = nullptr;         ///< codes; norm: its result
  void* scales = nullptr;        ///< that reduce_many writes
  uint32_t end = 0;              ///< iterations of all pieces up to this one
  uint32_t scales_behind = 0;    ///< in units of 2 bytes: ReduceManyArgs::operand_scales_bytes
};
static_assert(sizeof(Piece) == kBatchPieceBytes);

/** Whether pieces have room for where the operands' scales are. */
inline StageError check_scales_behind(const ReduceManyArgs* args, size_t count) {
  constexpr size_t kEnd = sizeof(uint16_t) << 32;
  for (size_t k = 0; k < count; ++k) {
    if (args[k].operand_scales_bytes < kEnd) continue;
    return {"reduce_many", 0, nullptr, "scales of an operand lie too far behind its words"};
  }
  return {};
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
    return table != nullptr ? __ldg(&table[number].end) : argument[number].end;
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

/** Pieces on their way to memory of the device: as arguments of a kernel, of which graphs keep a
 *  copy. */
struct PieceList {
  static constexpr uint32_t kPieces = 580;  ///< of 32,764 bytes of arguments: CUDA 12.1, driver 530
  Piece piece[kPieces];
  uint32_t count;
  Piece* out;
};
template <typename List>
__global__ void write_pieces(const __grid_constant__ List list) {
  const auto* const from = reinterpret_cast<const uint64_t*>(list.piece);
  auto* const to = reinterpret_cast<uint64_t*>(list.out);
  constexpr uint32_t kWords = sizeof(Piece) / sizeof(uint64_t);
  for (uint32_t k = threadIdx.x; k < list.count * kWords; k += blockDim.x) to[k] = from[k];
}

/** Pieces as they are numbered: `piece_of(k)` gives the k-th, without its end. */
template <typename Stage, typename PieceOf>
class PieceCounter {
 public:
  PieceCounter(const Stage& stage, PieceOf piece_of) : stage_(stage), piece_of_(piece_of) {}

  Piece next() {
    Piece piece = piece_of_(number_++);
    stage_.set(piece);
    total_ += stage_.iterations();
    piece.end = total_;
    return piece;
  }
  uint32_t total() const { return total_; }

 private:
  Stage stage_;
  PieceOf piece_of_;
  size_t number_ = 0;
  uint32_t total_ = 0;
};

/** Whether a table has other pieces than those of `counted`; notes that it gets them. */
template <typename Counter>
bool note_pieces(Counter counted, size_t count, void* written) {
  if (written == nullptr) return true;
  bool differs = false;
  auto* known = static_cast<unsigned char*>(written);
  for (size_t k = 0; k < count; ++k, known += sizeof(Piece)) {
    const Piece piece = counted.next();
    if (memcmp(known, &piece, sizeof piece) == 0) continue;
    memcpy(known, &piece, sizeof piece);
    differs = true;
  }
  return differs;
}

/** As many at a time as are arguments of a kernel. */
template <typename Counter>
StageError write_table(const Launcher& launcher, Counter counted, size_t count, void* table) {
  PieceList list;
  for (size_t first = 0; first < count; first += list.count) {
    const size_t left = count - first;
    list.count = left < list.kPieces ? static_cast<uint32_t>(left) : list.kPieces;
    list.out = static_cast<Piece*>(table) + first;
    for (uint32_t k = 0; k < list.count; ++k) list.piece[k] = counted.next();
    const StageError error = launcher.launch(write_pieces<PieceList>, 1, kBlockThreads, list);
    if (failed(error)) return error;
  }
  return {};
}

/** Fills `pieces`; what does not fit there is brought to the table, if that has other pieces. */
template <typename Stage, typename PieceOf>
StageError list_pieces(const Launcher& launcher, size_t count, const BatchTable& table,
                       PieceOf piece_of, Pieces<Stage>* pieces) {
  PieceCounter<Stage, PieceOf> counted(pieces->stage, piece_of);
  StageError error;
  if (count > kBatchArgumentsMax) {
    pieces->table = static_cast<Piece*>(table.on_device);
    if (note_pieces(counted, count, table.written)) {
      error = write_table(launcher, counted, count, table.on_device);
    }
  }
  for (size_t k = 0; k < count; ++k) {
    const Piece piece = counted.next();
    if (count <= kBatchArgumentsMax) pieces->argument[k] = piece;
  }
  pieces->piece_count = static_cast<uint32_t>(count);
  pieces->iteration_count = counted.total();
  return error;
}

/** Calls of one stage that become one launch, and the piece that each is. */
template <typename Args>
struct StageCalls {
  const Args* args;
  size_t count;
  BatchTable table;
  Piece (*piece_of)(const Args& args);

  const Args& first() const { return args[0]; }

  /** A kernel whose first argument are the pieces. Without a table, as many at a time as are
   *  arguments. */
  template <typename Stage, typename... Others>
  StageError run(const Launcher& launcher, void (*kernel)(Pieces<Stage>, Others...),
                 const std::type_identity_t<Stage>& stage,
                 const std::type_identity_t<Others>&... others) const {
    const size_t most = table.on_device == nullptr ? kBatchArgumentsMax : count;
    for (size_t done = 0; done < count; done += most) {
      const size_t left = count - done;
      Pieces<Stage> pieces(stage);
      StageError error = list_pieces(
          launcher, left < most ? left : most, table,
          [&](size_t number) { return piece_of(args[done + number]); }, &pieces);
      if (!failed(error)) error = launcher.run(kernel, pieces.iteration_count, pieces, others...);
      if (failed(error)) return error;
    }
    return {};
  }
};

/** The buffer of a view that is there. */
inline const void* place_of(const NormView& view) {
  if (view.one != nullptr) return view.one;
  return view.blocks != nullptr ? static_cast<const void*>(view.blocks) : view.numbers;
}

}  // namespace gq::cuda

#endif
