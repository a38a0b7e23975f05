// How blocks of all ranks wait for each other inside a kernel, and how they stop waiting.
#ifndef GQ_KERNELS_CUDA_FUSED_GRID_BARRIER_CUH
#define GQ_KERNELS_CUDA_FUSED_GRID_BARRIER_CUH

#include "kernels/cuda/fused/signal.cuh"
#include "kernels/cuda/launch/block.cuh"
#include "kernels/fused.h"

namespace gq::cuda {

/** What a block's threads share of a barrier. */
struct BarrierShared {
  uint32_t call;     ///< its number
  uint32_t largest;  ///< of the words that were loaded
  uint32_t differs;  ///< not 0: at the barrier for codes one was not the own word
  uint32_t left;     ///< not 0: a thread, or the rank, has given up
};

/** One rank's side of the barriers of a call. All threads of a block call what takes its shared
 *  memory by reference. */
struct GridBarrier {
  static constexpr uint32_t kLooks = 64;  ///< at a place, before one at the host's word
  uint32_t rank;
  uint32_t ranks;
  uint32_t block_count;
  uint64_t timeout_ns;
  FusedBuffers* buffers[kFusedRanksMax];
  uint64_t* leave[kFusedRanksMax];

  explicit GridBarrier(const FusedArgs& args)
      : rank(args.random.rank),
        ranks(args.ranks),
        block_count(args.block_count),
        timeout_ns(args.timeout_ns) {
    for (uint32_t peer = 0; peer < kFusedRanksMax; ++peer) {
      buffers[peer] = peer < ranks ? args.buffers[peer] : nullptr;
      leave[peer] = peer < ranks ? args.leave[peer] : nullptr;
    }
  }

  GQ_DEVICE FusedControl& control() const { return buffers[rank]->control; }

  /** Before the first barrier, by one thread: the number of this call. The block leaves if a kernel
   *  of the rank has left: the number is one that was used. */
  GQ_DEVICE void begin(BarrierShared* shared) const {
    const uint64_t calls = load_relaxed(&control().calls), left = load_relaxed(&control().left);
    shared->call = static_cast<uint32_t>(calls) + 1;
    shared->left = left != 0 ? 1 : 0;
  }

  /** After the last barrier: all blocks of the rank have read the number. */
  GQ_DEVICE void count(uint32_t call) const {
    if (blockIdx.x == 0 && threadIdx.x == 0) store_release(&control().calls, call);
  }

  /** Store-releases `word` for this block, then waits until all blocks of all ranks have stored
   *  theirs, whose largest is shared.largest. False, for all threads alike, if the block has given
   *  up. Their earlier writes are visible to all threads that return true. */
  GQ_DEVICE bool wait(BarrierShared& shared, BarrierOf kind, uint32_t word) const {
    return wait_for(shared, kind, word, {0, block_count});
  }

  /** The same, but waits only for the blocks of this number, one of each rank. */
  GQ_DEVICE bool wait_for_same(BarrierShared& shared, BarrierOf kind, uint32_t word) const {
    return wait_for(shared, kind, word, {blockIdx.x, 1});
  }

  /** A barrier after which a rank's blocks go on together or not at all: what the first of them
   *  finds holds for all. */
  GQ_DEVICE bool wait_as_one(BarrierShared& shared, BarrierOf kind) const {
    const bool came = wait(shared, kind, 0);
    __syncthreads();
    if (threadIdx.x == 0) shared.left = decision(shared.call, !came) ? 1 : 0;
    __syncthreads();
    return shared.left == 0;
  }

 private:
  /** Blocks of each rank. */
  struct Blocks {
    uint32_t first;
    uint32_t count;
  };

  GQ_DEVICE bool wait_for(BarrierShared& shared, BarrierOf kind, uint32_t word,
                          const Blocks& awaited) const {
    __syncthreads();  // threads may still read the words loaded last
    if (threadIdx.x == 0) shared.largest = shared.differs = shared.left = 0;
    __syncthreads();
    const uint32_t call = shared.call;
    if (threadIdx.x < ranks) set_flag(call, kind, threadIdx.x, word);
    raise_together(&shared.largest, wait_for_flags(call, kind, word, awaited, &shared));
    __syncthreads();
    return shared.left == 0;
  }

  GQ_DEVICE void set_flag(uint32_t call, BarrierOf kind, uint32_t peer, uint32_t word) const {
    store_release(&buffers[peer]->control.flags[static_cast<uint32_t>(kind)][rank][blockIdx.x],
                  uint64_t{call} << 32 | word);
  }

  /** The largest word at the places that are this thread's to look at. */
  GQ_DEVICE uint32_t wait_for_flags(uint32_t call, BarrierOf kind, uint32_t own,
                                    const Blocks& awaited, BarrierShared* shared) const {
    const auto& flags = control().flags[static_cast<uint32_t>(kind)];
    const uint64_t begun_ns = clock_ns();
    uint32_t largest = 0;
    for (uint32_t number = threadIdx.x; number < ranks * awaited.count; number += kBlockThreads) {
      const uint32_t peer = number / awaited.count;
      const uint32_t block = awaited.first + number % awaited.count;
      uint32_t word = 0;
      if (!await(call, &flags[peer][block], begun_ns, &word)) {
        give_up({rank, peer, kind});
        raise(&shared->left, 1);
        break;
      }
      if (kind == BarrierOf::codes && word != own) raise(&shared->differs, 1);
      largest = word > largest ? word : largest;
    }
    if (threadIdx.x < ranks * awaited.count) fence_acquire();  // once, for all polled words
    return largest;
  }

  /** Without an order for what is behind it. */
  GQ_DEVICE bool await(uint32_t call, const uint64_t* place, uint64_t begun_ns,
                       uint32_t* word) const {
    for (uint32_t look = 1;; ++look) {
      const uint64_t flags = load_relaxed(place);
      if (static_cast<uint32_t>(flags >> 32) == call) {
        *word = static_cast<uint32_t>(flags);
        return true;
      }
      if (look % kLooks == 0 &&
          (load_relaxed(leave[rank]) != 0 || clock_ns() - begun_ns >= timeout_ns)) {
        return false;
      }
      __nanosleep(32);
    }
  }

  /** Unless a peer set its exit flag, this rank sets the flags of the others, which would wait for
   *  it in vain. */
  GQ_DEVICE void give_up(const TooLate& late) const {
    store_release(&control().left, 1);
    if (load_acquire(leave[rank]) != 0) return;
    for (uint32_t peer = 0; peer < ranks; ++peer) store_release(leave[peer], leave_word(late));
  }

  /** Whether the rank exits: the result of the first block that checks. */
  GQ_DEVICE bool decision(uint32_t call, bool leaves) const {
    uint64_t* const place = &control().decision;
    uint64_t seen = load_acquire(place);
    while (seen >> 1 != call) {
      const uint64_t before = compare_exchange(place, seen, uint64_t{call} << 1 | (leaves ? 1 : 0));
      if (before == seen) return leaves;
      seen = before;
    }
    return (seen & 1) != 0;
  }
};

}  // namespace gq::cuda

#endif
