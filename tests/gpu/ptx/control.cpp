// Instructions that decide what threads do next.
#include <atomic>
#include <chrono>

#include "tests/gpu/ptx/block.h"

namespace gq::ptx {
namespace {

template <State kState>
void stop(const Instruction&, Warp& warp, Mask threads) {
  for_each(threads, [&](uint32_t thread) { warp.state[thread] = kState; });
}

void branch(const Instruction&, Warp&, Mask) {}  // Paths are the warp's (warp.cpp).

void run_fence(const Instruction&, Warp& warp, Mask) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  fence(&warp.block->launch().reach.actor());
}

uint64_t time_of(const Launch& launch) {
  if (launch.time_ns != nullptr) return *launch.time_ns;
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

void tell_time(const Instruction& made, Warp& warp, Mask threads) {
  const uint64_t now_ns = time_of(warp.block->launch());
  for_each(threads, [&](uint32_t thread) { write(warp, made.out[0], thread, now_ns); });
}

}  // namespace

Operation find_control(const std::string& name, Kind* kind) {
  *kind = Kind::computes;
  if (name == "membar.sys" || name == "membar.gl" || name == "membar.cta") return run_fence;
  if (name == "fence.acq_rel.sys") return run_fence;
  if (name == "mov.u64.globaltimer") return tell_time;
  *kind = Kind::branches;
  if (name == "bra" || name == "bra.uni") return branch;
  *kind = Kind::stops;
  if (name == "ret") return stop<State::ended>;
  if (name == "bar.sync") return stop<State::barrier>;
  if (name == "nanosleep.u32") return stop<State::yields>;
  if (name == "redux.sync.max.u32") return stop<State::warp_max>;
  if (name == "redux.sync.add.u32") return stop<State::warp_sum>;
  if (name == "vote.sync.ballot.b32") return stop<State::warp_ballot>;
  if (name == "bar.warp.sync") return stop<State::warp_sync>;
  if (name == "shfl.sync.up.b32") return stop<State::shuffle_up>;
  if (name == "shfl.sync.down.b32") return stop<State::shuffle_down>;
  if (name == "shfl.sync.bfly.b32") return stop<State::shuffle_butterfly>;
  if (name == "shfl.sync.idx.b32") return stop<State::shuffle_index>;
  return nullptr;
}

}  // namespace gq::ptx
