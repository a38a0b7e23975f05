#include "tests/gpu/ptx/block.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <thread>

#include "tests/gpu/ptx/finding.h"

namespace gq::ptx {
namespace {

constexpr size_t kKeptBytesMax = size_t{256} << 20;
std::atomic<size_t> kept_bytes{0};  // of all kernels

}  // namespace

Block::Block(Launch* launch, uint32_t number)
    : launch_(*launch),
      number_(number),
      shared_(launch->kernel.shared_bytes),
      actor_(launch->actor),
      warps_((launch->threads + kWarp - 1) / kWarp) {
  actor_.stamp.block = number;
  for (uint32_t k = 0; k < warps_.size(); ++k) {
    Warp& warp = warps_[k];
    const uint32_t count = std::min(kWarp, launch->threads - kWarp * k);
    warp.block = this;
    warp.first = kWarp * k;
    warp.members = count < kWarp ? (Mask{1} << count) - 1 : ~Mask{0};
    warp.ready.push_back({0, warp.members});
  }
}

std::vector<uint64_t> RegisterFiles::take() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (files_.empty()) return {};
  std::vector<uint64_t> last = std::move(files_.back());
  files_.pop_back();
  kept_bytes -= last.size() * sizeof last[0];
  return last;
}

void RegisterFiles::give(std::vector<uint64_t> registers) {
  const size_t size_bytes = registers.size() * sizeof registers[0];
  if (kept_bytes + size_bytes > kKeptBytesMax) return;
  kept_bytes += size_bytes;
  const std::lock_guard<std::mutex> lock(mutex_);
  files_.push_back(std::move(registers));
}

/** Of a warp that has ended, if there is one: most never wait, and one after the other finds
 *  registers near. */
void Block::give_registers(Warp* warp) {
  std::vector<uint64_t>& own = warp->registers;
  own = launch_.kernel.files.take();
  if (own.empty()) {
    own.reserve(launch_.kernel.registers.size() * kWarp);
    for (const uint64_t bits : launch_.kernel.registers) own.insert(own.end(), kWarp, bits);
  }
  for (uint32_t k = 0; k < kWarp; ++k) {
    warp->words(kThread)[k] = warp->first + k;
    warp->words(kBlock)[k] = number_;
    warp->words(kThreadCount)[k] = launch_.threads;
    warp->words(kBlockCount)[k] = launch_.blocks;
    warp->words(kLane)[k] = k;
  }
}

void Block::take_registers(Warp* warp) {
  launch_.kernel.files.give(std::move(warp->registers));
  warp->registers.clear();
}

std::string Block::place_of(const Warp& warp, uint32_t instruction, uint32_t thread) const {
  const Kernel& kernel = launch_.kernel;
  return kernel.name + ", line " + std::to_string(kernel.code[instruction].line) + " (" +
         kernel.text[instruction] + "), block " + std::to_string(number_) + " of " +
         std::to_string(launch_.blocks) + ", thread " + std::to_string(warp.first + thread);
}

bool Block::run(Warp* warp) {
  const Mask gave_way = in_state(*warp, State::yields);
  const bool fresh = !warp->ready.empty();
  if (!fresh && gave_way == 0) return false;
  wake(warp, gave_way);
  if (warp->registers.empty()) give_registers(warp);
  launch_.reach.set_actor(&actor_);
  try {
    run_ready(launch_.kernel, warp);
  } catch (const Finding& finding) {
    throw Finding(place_of(*warp, warp->at, warp->thread) + ": " + finding.what());
  }
  if (in_state(*warp, State::ended) == warp->members) take_registers(warp);
  return fresh || in_state(*warp, State::yields) != gave_way;
}

Progress Block::advance() {
  bool made = false, gave_way = false, ended = true;
  for (Warp& warp : warps_) {
    made |= run(&warp);
    made |= join_warp(launch_.kernel, &warp);
    gave_way |= in_state(warp, State::yields) != 0;
    ended &= in_state(warp, State::ended) == warp.members;
  }
  if (ended) return Progress::ended;
  if (pass_barrier() || made) return Progress::made;
  if (gave_way) return Progress::waiting;
  report_stuck();
}

/** All threads have to come, also those that have nothing left to do. */
bool Block::pass_barrier() {
  for (const Warp& warp : warps_) {
    if (in_state(warp, State::barrier) != warp.members) return false;
  }
  for (Warp& warp : warps_) {
    for_each(warp.members, [&](uint32_t thread) {
      if (warp.next[thread] == warps_[0].next[0]) return;
      throw Finding(place_of(warp, warp.next[thread] - 1, thread) +
                    ": others are at another barrier");
    });
    wake(&warp, warp.members);
  }
  shared_.pass_barrier();
  return true;
}

void Block::report_stuck() const {
  for (const Warp& warp : warps_) {
    const Mask waits = warp.members & ~in_state(warp, State::ended);
    if (waits == 0) continue;
    const auto thread = static_cast<uint32_t>(__builtin_ctz(waits));
    throw Finding(place_of(warp, warp.next[thread] - 1, thread) +
                  ": waits for threads that do not come");
  }
  throw Finding(launch_.kernel.name + ": stuck");
}

std::vector<uint8_t> packed_parameters(const Kernel& kernel, void** arguments) {
  std::vector<uint8_t> packed;
  for (size_t k = 0; k < kernel.parameters.size(); ++k) {
    const Parameter& parameter = kernel.parameters[k];
    packed.resize(parameter.offset + parameter.size_bytes);
    memcpy(&packed[parameter.offset], arguments[k], parameter.size_bytes);
  }
  return packed;
}

void check_launch(const Launch& launch) {
  const uint32_t threads_max = launch.kernel.threads_max;
  const bool too_many = threads_max != 0 && launch.threads > threads_max;
  if (launch.blocks > 0 && launch.threads > 0 && !too_many) return;
  throw Finding(launch.kernel.name + ": launched with " + std::to_string(launch.blocks) +
                " blocks of " + std::to_string(launch.threads) + " threads");
}

void run_kernel(const Kernel& kernel, uint32_t blocks, uint32_t threads,
                std::vector<uint8_t> parameters) {
  Launch launch{kernel, blocks, threads, std::move(parameters), begin_operation()};
  check_launch(launch);
  std::deque<std::unique_ptr<Block>> waiting;
  const auto go_on = [&](Block* block) {
    Progress progress = Progress::made;
    while (progress == Progress::made) progress = block->advance();
    if (progress == Progress::ended) launch.acquired.join(block->actor().before);
    return progress;
  };
  // From the last one on, so that nothing relies on the order of blocks.
  for (uint32_t number = blocks; number-- > 0;) {
    auto block = std::make_unique<Block>(&launch, number);
    if (go_on(block.get()) != Progress::ended) waiting.push_back(std::move(block));
  }
  while (!waiting.empty()) {
    std::erase_if(waiting, [&](const std::unique_ptr<Block>& block) {
      return go_on(block.get()) == Progress::ended;
    });
    std::this_thread::sleep_for(std::chrono::microseconds(waiting.empty() ? 0 : 20));
  }
  end_operation(launch.actor.stamp, launch.acquired);
}

}  // namespace gq::ptx
