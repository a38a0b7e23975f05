// Blocks as threads: what they write and wait for are the memory and atomics of the host. Barriers
// and the comparison of requests are those of the kernels; the stages between them are a CPU's,
// made by the first block of each rank.
#include "tests/support/host_device/host_fused.h"

#include <string.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "kernels/cuda/fused/fused_request.cuh"
#include "kernels/cuda/fused/grid_barrier.cuh"
#include "kernels/cuda/fused/stage_args.h"
#include "tests/support/host_device/host_stream.h"
#include "tests/support/inputs.h"

namespace gq::test {
namespace {

using cuda::GridBarrier;
using cuda::Request;

struct HostShared {
  cuda::BarrierShared barrier;
};

/** The threads of a block run one at a time: one passes a barrier when all have reached it. */
class HostTeam {
 public:
  HostTeam(uint32_t number, uint64_t disorder) : number_(number), disorder_(disorder) {
    memset(&shared_, 0xCA, sizeof shared_);  // nothing may rely on what is in it
  }

  uint32_t number() const { return number_; }
  HostShared& shared() { return shared_; }

  template <typename Step>
  void each(Step step) {
    for (uint32_t thread = 0; thread < GridBarrier::kThreads; ++thread) step(thread);
  }
  template <typename Step>
  void all(Step step) {
    each(step);
  }

  /** By one block of each rank, not before any order of the blocks is possible. */
  template <typename Stage>
  void run(Stage stage) {
    if (disorder_ != 0) {
      disorder_ = mix(disorder_ + number_);
      std::this_thread::sleep_for(std::chrono::microseconds(disorder_ % 1000));
    }
    if (number_ == 0) stage();
  }

 private:
  const uint32_t number_;
  uint64_t disorder_;
  HostShared shared_;
};

/** The stages of one rank, on a CPU. */
class HostStages {
 public:
  HostStages(const FusedArgs& args, const Request& request) : args_(args), site_(args.random) {
    site_.step = request.step_now();
    site_.index = request.index_now();
    site_.step_at = nullptr;
  }

  /** The one norm's pattern; those of blocks stay in the rank's memory, and are 0 here. */
  uint32_t norm() const {
    NormArgs args = cuda::norm_args(args_);
    uint32_t largest = 0;
    if (!has_blocks()) args.out = &largest;
    (void)cpu().norm(args);
    return largest;
  }
  void quantize(float norm) const {
    QuantizeArgs args = cuda::quantize_args(args_);
    args.random = site_;
    if (has_blocks()) {
      merge_norms();
    } else {
      args.norms = {&norm};
    }
    (void)cpu().quantize(args);
  }
  void reduce_many(float norm) const {
    const cuda::FusedSums sums(args_);
    ReduceManyArgs args = sums.args;
    args.words = sums.operands;
    args.random = site_;
    args.random.hop = 1;
    if (!has_blocks()) args.norms = {&norm};
    (void)cpu().reduce_many(args);
  }
  /** All shards, whose sums their owners have. */
  void dequantize(float norm) const {
    for (uint32_t owner = 0; owner < args_.ranks; ++owner) {
      const FusedShard& shard = args_.shards[owner];
      const FusedBuffers& buffers = *args_.buffers[owner];
      DequantizeArgs args = cuda::dequantize_args(args_);
      args.random = site_;
      args.range = {shard.first_value, static_cast<size_t>(shard.value_count)};
      args.words = buffers.words + shard.first_value / codes_per_word(args_.coding.bits);
      const size_t first_byte = shard.first_value * dtype_size_bytes(args.dtype);
      args.values = static_cast<char*>(args.values) + first_byte;
      args.scales = {&norm};
      if (has_blocks()) {
        args.scales = {nullptr, buffers.scales + shard.first_value / args_.coding.block};
      }
      (void)cpu().dequantize(args);
    }
  }

 private:
  static const Stages& cpu() { return *cpu_stages_named("scalar"); }
  bool has_blocks() const { return args_.coding.block > 0; }
  void merge_norms() const {
    uint16_t* const merged = args_.buffers[args_.random.rank]->merged;
    const size_t count = norm_count(args_.coding.block, false, args_.value_count);
    memset(merged, 0, count * sizeof *merged);
    for (uint32_t peer = 0; peer < args_.ranks; ++peer) {
      (void)cpu().merge_norms({count, args_.buffers[peer]->norms, merged, nullptr});
    }
  }

  const FusedArgs& args_;
  RandomSite site_;
};

/** What peers need from the first barrier on. */
bool begin(const FusedArgs& args, const GridBarrier& barrier, const Request& request,
           HostTeam& team) {
  FusedControl& control = args.buffers[args.random.rank]->control;
  team.all([&](uint32_t thread) {
    if (thread == 0) barrier.begin(&team.shared().barrier);
    if (team.number() != 0) return;
    request.show(thread, control.header);
  });
  return team.shared().barrier.left == 0;
}

/** As a block of the kernel does (kernels/cuda/fused/fused.cuh). */
void run_block(const FusedArgs& args, HostTeam& team) {
  const GridBarrier barrier(args);
  const Request request(args);
  const HostStages stages(args, request);
  if (!begin(args, barrier, request, team)) return;
  uint32_t peak = 0;
  team.run([&] { peak = stages.norm(); });
  if (!barrier.wait(team, BarrierOf::norms, peak)) return;
  const float norm = float_from_bits(team.shared().barrier.largest);
  barrier.count(team);
  team.run([&] { stages.quantize(norm); });
  if (!barrier.wait(team, BarrierOf::codes, request.digest())) return;
  const bool agreed = team.shared().barrier.differs == 0 && !request.is_refused();
  team.run([&] {
    if (agreed) return stages.reduce_many(norm);
    request.report_difference(barrier.buffers, barrier.ranks);
  });
  if (!barrier.wait_as_one(team, BarrierOf::sums) || !agreed) return;
  team.run([&] { stages.dequantize(norm); });
}

std::atomic<uint32_t> blocks_there{kFusedBlocks};
std::atomic<uint32_t> queues_there{kFusedQueues};
std::atomic<uint32_t> kernels_enqueued{0};
std::atomic<int> lost_rank{-1};

StageError allreduce(const FusedArgs& args) {
  if (lost_rank == static_cast<int>(args.random.rank)) return {};
  ++kernels_enqueued;
  auto* const stream = static_cast<HostStream*>(args.stream);
  stream->push(
      stream, [](void* kept) { run_fused_on_threads(*static_cast<const FusedArgs*>(kept)); },
      [](void* kept) { delete static_cast<FusedArgs*>(kept); }, new FusedArgs(args));
  return {};
}

StageError blocks_at_once(uint32_t* count) {
  *count = blocks_there;
  return {};
}

uint32_t queues() { return queues_there; }

}  // namespace

void run_fused_on_threads(const FusedArgs& args, uint64_t disorder) {
  std::vector<std::thread> blocks;
  for (uint32_t number = 0; number < args.block_count; ++number) {
    blocks.emplace_back([&, number] {
      HostTeam team(number, disorder);
      run_block(args, team);
    });
  }
  for (std::thread& block : blocks) block.join();
}

const FusedStages& host_fused_stages() {
  static constexpr FusedStages kStages = {allreduce, blocks_at_once, queues};
  return kStages;
}

void set_fused_blocks_at_once(uint32_t count) { blocks_there = count; }
void set_fused_queues(uint32_t count) { queues_there = count; }
uint32_t fused_kernels_enqueued() { return kernels_enqueued; }
void lose_fused_kernels_of(int rank) { lost_rank = rank; }

}  // namespace gq::test
