#include "tests/gpu/ptx/warp.h"

#include <algorithm>
#include <string>

#include "tests/gpu/ptx/block.h"

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
  while (path.next < others) {
    warp->at = path.next++;
    const Instruction& made = kernel.code[warp->at];
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
  for_each(threads, [&](uint32_t thread) {
    warp->state[thread] = State::ready;
    put(&warp->ready, {warp->next[thread], Mask{1} << thread});
  });
}

bool join_warp(const Kernel& kernel, Warp* warp) {
  const Mask sums = in_state(*warp, State::warp_sum);
  const Mask waiting = sums | in_state(*warp, State::warp_max);
  if (waiting == 0) return false;
  const auto first = static_cast<uint32_t>(__builtin_ctz(waiting));
  const Instruction& made = kernel.code[warp->next[first] - 1];
  const Mask named = read<uint32_t>(*warp, made.in[1], first);
  uint32_t sum = 0, greatest = 0;
  bool all_came = (named & ~waiting) == 0;
  for_each(named, [&](uint32_t thread) {
    all_came = all_came && warp->next[thread] == warp->next[first];
    const uint32_t value = read<uint32_t>(*warp, made.in[0], thread);
    sum += value;
    greatest = std::max(greatest, value);
  });
  if (!all_came) return false;
  for_each(named, [&](uint32_t thread) {
    write(*warp, made.out[0], thread, (sums >> first & 1) != 0 ? sum : greatest);
  });
  wake(warp, named);
  return true;
}

}  // namespace gq::ptx
