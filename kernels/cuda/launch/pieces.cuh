// Kernels on several ranges at once, each with buffers of its own: the shards of a call, or its
// tensors. Iterations of all ranges are numbered through, and a block finds the range of each.
#ifndef GQ_KERNELS_CUDA_LAUNCH_PIECES_CUH
#define GQ_KERNELS_CUDA_LAUNCH_PIECES_CUH

#include <stddef.h>

#include "kernels/cuda/launch/body.cuh"
#include "kernels/stages.h"

namespace gq::cuda {

/** A range and its buffers; what a body does not have is null. */
struct Piece {
  uint64_t first_value = 0;
  uint64_t value_count = 0;
  const void* values = nullptr;  ///< of the caller; reduce_many: the array of operands
  const void* norms = nullptr;   ///< or scales
  void* words = nullptr;         ///< codes; norm: its result
  void* scales = nullptr;        ///< that reduce_many writes
  uint32_t end = 0;              ///< iterations of all pieces up to this one
};
static_assert(sizeof(Piece) == kBatchPieceBytes);

/** Of a table, which no kernel writes meanwhile. */
GQ_HD uint32_t table_end(const Piece* piece) {
#if defined(__CUDA_ARCH__)
  return __ldg(&piece->end);
#else
  return piece->end;
#endif
}
GQ_HD Piece table_piece(const Piece* piece) {
#if defined(__CUDA_ARCH__)
  Piece loaded;
  auto* const to = reinterpret_cast<unsigned long long*>(&loaded);
  const auto* const from = reinterpret_cast<const unsigned long long*>(piece);
  GQ_UNROLL for (uint32_t k = 0; k < sizeof(Piece) / sizeof(uint64_t); ++k) to[k] = __ldg(from + k);
  return loaded;
#else
  return *piece;
#endif
}

/** So that what is read and written there is no generic access. */
GQ_HD void assume_global([[maybe_unused]] const void* place) {
#if defined(__CUDA_ARCH__)
  __builtin_assume(__isGlobal(place));
#endif
}

/** A body on several pieces. Body::set() turns it to one of them, iterations() counts the
 *  iterations that this takes. */
template <typename BodyKind>
struct Batch {
  using Body = BodyKind;
  using Shared = typename Body::Shared;
  using Own = typename Body::Own;
  static constexpr uint32_t kThreads = Body::kThreads;
  static constexpr uint32_t kBlocksAtOnce = Body::kBlocksAtOnce;
  static constexpr uint32_t kIterationsPerBlock = Body::kIterationsPerBlock;
  static constexpr uint32_t kBlocksAtLeast = Body::kBlocksAtLeast;

  Body body;
  uint32_t iteration_count = 0;  ///< of all pieces
  uint32_t piece_count = 0;
  const Piece* table = nullptr;  ///< the pieces, if they are more than fit here
  Piece argument[kBatchArgumentsMax];

  explicit Batch(const Body& body) : body(body) {}

  GQ_HD uint32_t end_of(uint32_t number) const {
    return table != nullptr ? table_end(table + number) : argument[number].end;
  }
  /** Turns `other` to a piece. */
  GQ_HD void set(Body& other, uint32_t number) const {
    const Piece piece = table != nullptr ? table_piece(table + number) : argument[number];
    assume_global(piece.values);
    assume_global(piece.norms);
    assume_global(piece.words);
    assume_global(piece.scales);
    other.set(piece);
  }
  /** The first piece that ends behind the iteration. */
  GQ_HD uint32_t find(uint32_t iteration) const {
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

/** What one block does of a batch. */
template <typename Body, typename Block>
GQ_HD void run_block(const Batch<Body>& batch, Block& block) {
  for (uint32_t next = block.number(); next < batch.iteration_count;) {
    const uint32_t number = batch.find(next);
    const uint32_t first = number == 0 ? 0 : batch.end_of(number - 1);
    Body body = batch.body;
    batch.set(body, number);
    next = run_iterations(body, block, next, {first, batch.end_of(number)});
    // What the block shares is used again for the next piece.
    constexpr bool kReuses = Body::kShares || Body::kIterationBarriers;
    if (kReuses && next < batch.iteration_count) block.template all<kReuses>([](auto) {});
  }
}

/** Brings pieces to memory of the device: as arguments of a kernel, of which graphs keep a copy. */
struct WritePieces : BodyDefaults {
  static constexpr uint32_t kPieces = 580;  ///< of 32,764 bytes of arguments: CUDA 12.1, driver 530
  static constexpr uint32_t kWords = sizeof(Piece) / sizeof(uint64_t);
  Piece piece[kPieces];
  uint32_t count = 0;
  Piece* out = nullptr;

  template <typename Here>
  GQ_HD void run(Interval<0>, uint32_t, uint32_t, Here local) const {
    const auto* const from = reinterpret_cast<const uint64_t*>(piece);
    auto* const to = reinterpret_cast<uint64_t*>(out);
    for (uint32_t k = local.thread; k < count * kWords; k += kThreads)
      to[k] = from[k];
  }
};

/** Pieces as they are numbered: `piece_of(k)` gives the k-th, without its end. */
template <typename Body, typename PieceOf>
class PieceCounter {
 public:
  PieceCounter(const Body& body, PieceOf piece_of) : body_(body), piece_of_(piece_of) {}

  Piece next() {
    Piece piece = piece_of_(number_++);
    body_.set(piece);
    total_ += body_.iterations();
    piece.end = total_;
    return piece;
  }
  uint32_t total() const { return total_; }

 private:
  Body body_;
  PieceOf piece_of_;
  size_t number_ = 0;
  uint32_t total_ = 0;
};

template <typename Body, typename Launcher, typename PieceOf>
StageError run_pieces(Launcher& launch, const Body& body, size_t count, void* table,
                      PieceOf piece_of) {
  Batch<Body> batch(body);
  PieceCounter<Body, PieceOf> pieces(body, piece_of);
  batch.piece_count = static_cast<uint32_t>(count);
  if (count <= kBatchArgumentsMax) {
    for (size_t k = 0; k < count; ++k) batch.argument[k] = pieces.next();
  } else {
    batch.table = static_cast<Piece*>(table);
    WritePieces write;
    for (size_t first = 0; first < count; first += write.count) {
      const size_t left = count - first;
      write.count = left < write.kPieces ? static_cast<uint32_t>(left) : write.kPieces;
      write.out = static_cast<Piece*>(table) + first;
      for (uint32_t k = 0; k < write.count; ++k) write.piece[k] = pieces.next();
      const StageError error = launch.run(write);
      if (failed(error)) return error;
    }
  }
  batch.iteration_count = pieces.total();
  return launch.run(batch);
}

/** Calls of one stage that become one launch, and the piece that each is. */
template <typename Args>
struct StageCalls {
  const Args* args;
  size_t count;
  void* table;
  Piece (*piece_of)(const Args& args);

  const Args& first() const { return args[0]; }

  /** Without a table, as many at a time as are arguments. */
  template <typename Launcher, typename Body>
  StageError run(Launcher& launch, const Body& body) const {
    const size_t most = table == nullptr ? kBatchArgumentsMax : count;
    for (size_t done = 0; done < count; done += most) {
      const size_t left = count - done;
      const StageError error =
          run_pieces(launch, body, left < most ? left : most, table,
                     [&](size_t number) { return piece_of(args[done + number]); });
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
