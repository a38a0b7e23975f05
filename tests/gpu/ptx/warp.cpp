#include "tests/gpu/ptx/warp.h"

#include <algorithm>
#include <string>

#include "tests/gpu/ptx/block.h"
#include "tests/gpu/ptx/finding.h"

namespace gq::ptx {
namespace {

/** Adds threads to those that wait for their turn: the furthest ahead come first. */
void put(std::vector<Path>* ready, Path path) {
  if (path.threads == 0) return;
  size_t at = ready->size();
  while (at > 0 && (*ready)[at - 1].next < path.next) --at;
  if (at > 0 && (*ready)[at - 1].next == path.next) {
    (*ready)[at - 1].threads |= path.threads;
  } else {
    ready->insert(ready->begin() + static_cast<std::ptrdiff_t>(at), path);
  }
}

/** The threads of a path that an instruction is for. */
Mask taken(const Instruction& made, Warp* warp, Mask threads) {
  if (made.guard == kAlways) return threads;
  const Mask guard = static_cast<Mask>(warp->words(made.guard)[0]);
  return threads & (made.guard_inverted ? ~guard : guard);
}

/** Runs threads until they are no longer together, or not the furthest behind. */
void run_path(const Kernel& kernel, Warp* warp, Path path) {
  const uint32_t others = warp->ready.empty() ? ~0u : warp->ready.back().next;
  TrafficCounter& traffic = warp->block->launch().traffic;
  while (path.next < others) {
    warp->at = path.next++;
    const Instruction& made = kernel.code[warp->at];
    traffic.come_to(warp->at);
    const Mask threads = taken(made, warp, path.threads);
    if (threads == 0) continue;
    if (made.kind == Kind::computes) {
      made.run(made, *warp, threads);
      continue;
    }
    if (made.kind == Kind::stops) {
      made.run(made, *warp, threads);
      for_each(threads, [&](uint32_t thread) { warp->next[thread] = path.next; });
    } else {
      put(&warp->ready, {made.target, threads});
    }
    path.threads &= ~threads;
    return put(&warp->ready, path);
  }
  put(&warp->ready, path);
}

/** The instruction that a thread waits at. */
const Instruction& awaited(const Kernel& kernel, const Warp& warp, uint32_t thread) {
  return kernel.code[warp.next[thread] - 1];
}

/** The operand that names the threads of a warp operation. */
Register named_by(State state, const Instruction& made) {
  if (state == State::warp_sync) return made.in[0];
  return state >= State::shuffle_up && state <= State::shuffle_index ? made.in[3] : made.in[1];
}

/** The lane that a lane's word comes from, or -1 where that is beyond its segment. */
int32_t source_lane(State state, uint32_t lane, uint32_t by, uint32_t clamp) {
  const uint32_t segment = clamp >> 8 & 31;
  const auto first = static_cast<int32_t>(lane & segment);
  const int32_t bound = first | static_cast<int32_t>(clamp & 31 & ~segment);
  const auto own = static_cast<int32_t>(lane), distance = static_cast<int32_t>(by & 31);
  int32_t from = own ^ distance;
  if (state == State::shuffle_up) return own - distance >= bound ? own - distance : -1;
  if (state == State::shuffle_down) from = own + distance;
  if (state == State::shuffle_index) from = first | (distance & ~static_cast<int32_t>(segment));
  return from <= bound ? from : -1;
}

/** A word of another lane, or the own one; the predicate says which. */
void shuffle(const Instruction& made, Warp* warp, State state, Mask named) {
  std::array<uint32_t, kWarp> words = {};
  for_each(named, [&](uint32_t lane) { words[lane] = read<uint32_t>(*warp, made.in[0], lane); });
  for_each(named, [&](uint32_t lane) {
    const uint32_t by = read<uint32_t>(*warp, made.in[1], lane);
    const int32_t from = source_lane(state, lane, by, read<uint32_t>(*warp, made.in[2], lane));
    warp->thread = lane;
    if (from >= 0 && (named >> from & 1) == 0) throw Finding("a word of a lane that is not named");
    write(*warp, made.out[0], lane, words[from >= 0 ? static_cast<uint32_t>(from) : lane]);
    write(*warp, made.out[1], lane, from >= 0);
  });
}

/** For all of them the sum, the greatest number, or a bit of each whose predicate is true. */
void reduce(const Instruction& made, Warp* warp, State state, Mask named) {
  uint32_t sum = 0, greatest = 0, ballot = 0;
  for_each(named, [&](uint32_t lane) {
    const uint32_t value = state == State::warp_ballot
                               ? read<bool>(*warp, made.in[0], lane)
                               : read<uint32_t>(*warp, made.in[0], lane);
    sum += value;
    greatest = std::max(greatest, value);
    ballot |= (value != 0 ? Mask{1} : 0) << lane;
  });
  const uint32_t result = state == State::warp_sum      ? sum
                          : state == State::warp_ballot ? ballot
                                                        : greatest;
  for_each(named, [&](uint32_t lane) { write(*warp, made.out[0], lane, result); });
}

}  // namespace

void run_ready(const Kernel& kernel, Warp* warp) {
  while (!warp->ready.empty()) {
    const Path path = warp->ready.back();
    warp->ready.pop_back();
    run_path(kernel, warp, path);
  }
}

Mask in_state(const Warp& warp, State state) {
  Mask found = 0;
  for_each(warp.members, [&](uint32_t thread) {
    if (warp.state[thread] == state) found |= Mask{1} << thread;
  });
  return found;
}

void wake(Warp* warp, Mask threads) {
  for_each(threads, [&](uint32_t thread) { warp->state[thread] = State::ready; });
  while (threads != 0) {
    const uint32_t next = warp->next[static_cast<uint32_t>(__builtin_ctz(threads))];
    Mask together = 0;
    for_each(threads, [&](uint32_t thread) {
      if (warp->next[thread] == next) together |= Mask{1} << thread;
    });
    put(&warp->ready, {next, together});
    threads &= ~together;
  }
}

namespace {

/** The operation of those that `first` names, once all of them have come to it. */
bool join_at(const Kernel& kernel, Warp* warp, uint32_t first, Mask waiting) {
  const State state = warp->state[first];
  const Instruction& made = awaited(kernel, *warp, first);
  const Mask named = read<uint32_t>(*warp, named_by(state, made), first);
  bool all_came = (named & ~waiting) == 0;
  for_each(named, [&](uint32_t lane) {
    all_came = all_came && warp->next[lane] == warp->next[first];
  });
  if (!all_came) return false;
  if (state >= State::shuffle_up) {
    shuffle(made, warp, state, named);
  } else if (state != State::warp_sync) {
    reduce(made, warp, state, named);
  } else if (named == warp->members) {
    warp->block->shared().pass_warp_barrier(warp->first);
  }
  wake(warp, named);
  return true;
}

}  // namespace

/** Some lanes may already wait for all others, which still are among themselves. Groups that each
 *  have an instruction for themselves go on together, as they do on a device. */
bool join_warp(const Kernel& kernel, Warp* warp) {
  const auto waiting = [&] {
    Mask found = 0;
    for_each(warp->members, [&](uint32_t lane) {
      const State state = warp->state[lane];
      if (state >= State::warp_max && state <= State::shuffle_index) found |= Mask{1} << lane;
    });
    return found;
  };
  bool joined = false;
  Mask left = waiting();
  for_each(left, [&](uint32_t lane) {
    if ((left >> lane & 1) == 0 || !join_at(kernel, warp, lane, left)) return;
    joined = true;
    left = waiting();
  });
  return joined;
}

}  // namespace gq::ptx
