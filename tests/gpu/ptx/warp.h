// A warp: threads that execute the same instructions, each on registers of its own, for as long
// as they are at the same place; else those come first that are furthest behind.
#ifndef GQ_TESTS_GPU_PTX_WARP_H
#define GQ_TESTS_GPU_PTX_WARP_H

#include <array>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "tests/gpu/ptx/kernel.h"

namespace gq::ptx {

class Block;

inline constexpr uint32_t kWarp = 32;

/** A bit for each thread of a warp. */
using Mask = uint32_t;

enum class State : uint8_t {
  ready,
  yields,    ///< gives way to others, then goes on
  barrier,   ///< waits for all threads of its block
  warp_max,  ///< waits for the threads of its warp that an instruction names; so do the next
  warp_sum,
  warp_ballot,
  warp_sync,
  shuffle_up,
  shuffle_down,
  shuffle_butterfly,
  shuffle_index,
  ended,
};

/** Threads of a warp that are at the same instruction. */
struct Path {
  uint32_t next;
  Mask threads;
};

struct Warp {
  Block* block = nullptr;
  uint32_t first = 0;  ///< its first thread's number in the block
  Mask members = 0;
  /** kWarp words for each register; a predicate has the bits of all threads in its first one. None
   *  before the warp has begun, and when it has ended. */
  std::vector<uint64_t> registers;
  std::vector<Path> ready;  ///< the furthest ahead come first
  std::array<State, kWarp> state = {};
  std::array<uint32_t, kWarp> next = {};  ///< instruction, of those that are not ready
  uint32_t at = 0;                        ///< the instruction that is executed, for findings
  uint32_t thread = 0;                    ///< and the thread that an access is made for

  uint64_t* words(Register number) { return &registers[size_t{number} * kWarp]; }
};

/** What a thread has in a register of these words: the low bytes of its own word, or its bit of the
 *  first one. */
template <typename Value>
Value value_in(const uint64_t* words, uint32_t thread) {
  if constexpr (std::is_same_v<Value, bool>) {
    return (words[0] >> thread & 1) != 0;
  } else {
    Value value;
    memcpy(&value, words + thread, sizeof value);
    return value;
  }
}

template <typename Value>
void put_value(uint64_t* words, uint32_t thread, Value value) {
  if constexpr (std::is_same_v<Value, bool>) {
    words[0] = (words[0] & ~(uint64_t{1} << thread)) | uint64_t{value} << thread;
  } else {
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    words[thread] = bits;
  }
}

template <typename Value>
Value read(Warp& warp, Register number, uint32_t thread) {
  return value_in<Value>(warp.words(number), thread);
}

template <typename Value>
void write(Warp& warp, Register number, uint32_t thread, Value value) {
  put_value(warp.words(number), thread, value);
}

/** Calls `each` with the number of every thread of a mask. */
template <typename Each>
void for_each(Mask threads, Each each) {
  if (threads == ~Mask{0}) {
    for (uint32_t thread = 0; thread < kWarp; ++thread) each(thread);
    return;
  }
  for (Mask left = threads; left != 0; left &= left - 1) {
    each(static_cast<uint32_t>(__builtin_ctz(left)));
  }
}

/** Lets the threads run that are ready, until none is. Throws Finding. */
void run_ready(const Kernel& kernel, Warp* warp);
/** Threads of a warp wait at an instruction: carries it out if all have come that it names. */
bool join_warp(const Kernel& kernel, Warp* warp);
/** The threads that are in a state. */
Mask in_state(const Warp& warp, State state);
/** Threads that wait are ready again. */
void wake(Warp* warp, Mask threads);

}  // namespace gq::ptx

#endif
