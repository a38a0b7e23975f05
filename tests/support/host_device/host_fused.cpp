// Blocks as threads: what they write and wait for are the memory and atomics of the host. Barriers,
// tiles and the comparison of requests are those of the kernels; the stages between them are a
// CPU's.
#include "tests/support/host_device/host_fused.h"

#include <string.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "kernels/cuda/fused/fused_request.cuh"
#include "kernels/cuda/fused/grid_barrier.cuh"
#include "kernels/cuda/fused/segments.cuh"
#include "kernels/cuda/fused/stage_args.h"
#include "kernels/cuda/fused/tensor_norms.cuh"
#include "kernels/cuda/fused/tiles.cuh"
#include "tests/support/host_device/host_stream.h"
#include "tests/support/inputs.h"

namespace gq::test {
namespace {

using cuda::FusedTile;
using cuda::GridBarrier;
using cuda::Request;
using cuda::TensorNorms;

/** Of a tensor, where norms are not those of blocks. */
using NormOf = std::function<float(uint32_t tensor)>;

struct HostShared {
  cuda::BarrierShared barrier;
};

/** The threads of a block run one at a time: one passes a barrier when all have reached it. */
class HostTeam {
 public:
  HostTeam(uint32_t number, const Delay& delay) : number_(number), delay_(delay) {
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

  /** What the block does before a barrier, or after the last one. */
  template <typename Stage>
  void run(Stage stage) {
    if (delay_) delay_(number_, stage_number_++);
    stage();
  }

 private:
  const uint32_t number_;
  const Delay& delay_;
  uint32_t stage_number_ = 0;
  HostShared shared_;
};

/** The stages of one block of a rank, on a CPU: tile by tile, as it has them in the kernel. */
class HostStages {
 public:
  HostStages(const FusedArgs& args, const Request& request, uint32_t block)
      : args_(args), tiles_(args), segments_(args), block_(block), site_(args.random) {
    site_.step = request.step_now();
    site_.index = request.index_now();
    site_.step_at = nullptr;
  }

  /** The part of the one norm, as a pattern; those of blocks and tensors stay in memory. */
  uint32_t norm(const TensorNorms& norms, const GridBarrier& barrier, uint32_t call) const {
    uint32_t largest = 0;
    if (!has_norm(args_.coding.levels)) return largest;
    each_part([&](const FusedTile& tile, uint32_t tensor) {
      NormArgs args = cuda::norm_args(args_);
      uint32_t here = 0;
      args.range = range_of(tile);
      args.values = values_of(segments_.at(tensor).send, tile);
      args.out = has_blocks() ? static_cast<void*>(own().norms + first_block(tile)) : &here;
      (void)cpu().norm(args);
      if (norms.count > 0) {
        norms.raise(barrier, call, tensor, here);
      } else {
        largest = std::max(largest, here);
      }
    });
    return largest;
  }
  void quantize(const NormOf& norm_of) const {
    each_part([&](const FusedTile& tile, uint32_t tensor) {
      QuantizeArgs args = cuda::quantize_args(args_);
      args.random = site_;
      args.range = range_of(tile);
      args.values = values_of(segments_.at(tensor).send, tile);
      args.words += first_word(tile);
      if (has_blocks()) merge_norms(tile);
      const float norm = norm_of(tensor);
      args.norms = norms_of(&norm, own().merged, tile);
      (void)cpu().quantize(args);
    });
  }
  void reduce_many(const NormOf& norm_of) const {
    const uint32_t rank = args_.random.rank;
    for (uint32_t number = tiles_.first_in_shard(block_, rank); number < tiles_.per_shard;
         number += tiles_.blocks) {
      cut(tiles_.at(rank * tiles_.per_shard + number),
          [&](const FusedTile& part, uint32_t tensor) { add(part, norm_of(tensor)); });
    }
  }
  /** Of all shards, whose sums their owners have. */
  void dequantize(const NormOf& norm_of) const {
    each_part([&](const FusedTile& tile, uint32_t tensor) {
      const FusedBuffers& buffers = *args_.buffers[tile.owner];
      DequantizeArgs args = cuda::dequantize_args(args_);
      args.random = site_;
      args.range = range_of(tile);
      args.words = buffers.words + first_word(tile);
      args.values = const_cast<void*>(values_of(segments_.at(tensor).recv, tile));
      const float norm = norm_of(tensor);
      args.scales = norms_of(&norm, buffers.scales, tile);
      (void)cpu().dequantize(args);
    });
  }

 private:
  static const Stages& cpu() { return *cpu_stages_named("scalar"); }
  FusedBuffers& own() const { return *args_.buffers[args_.random.rank]; }
  bool has_blocks() const { return args_.coding.block > 0; }

  void add(const FusedTile& part, float norm) const {
    const cuda::FusedSums sums(args_);
    const uint32_t* operands[kFusedRanksMax];
    for (uint32_t peer = 0; peer < args_.ranks; ++peer) {
      operands[peer] = args_.buffers[peer]->words + first_word(part);
    }
    ReduceManyArgs args = sums.args;
    args.range = range_of(part);
    args.words = operands;
    args.random = site_;
    args.random.hop = 1;
    args.norms = norms_of(&norm, own().merged, part);
    args.out_words = own().words + first_word(part);
    if (has_blocks()) args.out_scales = own().scales + first_block(part);
    (void)cpu().reduce_many(args);
  }

  /** Calls each(part, tensor) with what tensors have of the block's tiles. */
  template <typename Each>
  void each_part(Each each) const {
    tiles_.each(block_, args_.random.rank, [&](const FusedTile& tile) { cut(tile, each); });
  }
  template <typename Each>
  void cut(const FusedTile& tile, Each each) const {
    const uint64_t end = tile.first_value + tile.value_count;
    for (uint64_t first = tile.first_value, next = end; first < end; first = next) {
      const uint32_t k = segments_.find(first);
      const uint64_t last = std::min(end, segments_.end_of(k));
      if (first < last) each(FusedTile{tile.owner, first, last - first}, k);
      next = k + 1 < segments_.count ? segments_.first_of(k + 1) : end;
      if (next <= first) return;  // where the search is wrong
    }
  }
  static Range range_of(const FusedTile& tile) {
    return {tile.first_value, static_cast<size_t>(tile.value_count)};
  }
  const void* values_of(const void* values, const FusedTile& tile) const {
    return static_cast<const char*>(values) + tile.first_value * dtype_size_bytes(args_.dtype);
  }
  uint64_t first_word(const FusedTile& tile) const {
    return tile.first_value / codes_per_word(args_.coding.bits);
  }
  uint64_t first_block(const FusedTile& tile) const {
    return tile.first_value / args_.coding.block;
  }
  NormView norms_of(const float* one, const uint16_t* blocks, const FusedTile& tile) const {
    if (!has_blocks()) return {one};
    return {nullptr, blocks + first_block(tile)};
  }
  void merge_norms(const FusedTile& tile) const {
    uint16_t* const merged = own().merged + first_block(tile);
    const size_t count = norm_count(args_.coding.block, false, tile.value_count);
    memset(merged, 0, count * sizeof *merged);
    for (uint32_t peer = 0; peer < args_.ranks; ++peer) {
      const uint16_t* const norms = args_.buffers[peer]->norms + first_block(tile);
      (void)cpu().merge_norms({count, norms, merged, nullptr});
    }
  }

  const FusedArgs& args_;
  const cuda::FusedTiles tiles_;
  const cuda::FusedSegments segments_;
  const uint32_t block_;
  RandomSite site_;
};

/** What peers need from the first barrier on. */
bool begin(const FusedArgs& args, const GridBarrier& barrier, const Request& request,
           const TensorNorms& norms, HostTeam& team) {
  FusedControl& control = args.buffers[args.random.rank]->control;
  team.all([&](uint32_t thread) {
    if (thread == 0) barrier.begin(&team.shared().barrier);
    if (team.number() != 0) return;
    if (thread == 0) norms.begin(barrier, team.shared().barrier.call);
    request.show(thread, control.header);
  });
  return team.shared().barrier.left == 0;
}

/** As a block of the kernel does (kernels/cuda/fused/fused.cuh). */
void run_block(const FusedArgs& args, HostTeam& team) {
  const GridBarrier barrier(args);
  const Request request(args);
  const HostStages stages(args, request, team.number());
  const bool has_one_norm = has_norm(args.coding.levels) && args.coding.block == 0;
  const TensorNorms norms(args);
  if (!begin(args, barrier, request, norms, team)) return;
  const uint32_t call = team.shared().barrier.call;
  uint32_t peak = 0;
  team.run([&] { peak = stages.norm(norms, barrier, call); });
  if (has_one_norm ? !barrier.wait(team, BarrierOf::norms, peak)
                   : !barrier.wait_for_same(team, BarrierOf::norms, 0)) {
    return;
  }
  const uint32_t largest = team.shared().barrier.largest;
  const NormOf norm = [&, largest](uint32_t tensor) {
    return norms.count > 0 ? norms.norm_of(barrier, call, tensor) : float_from_bits(largest);
  };
  team.run([&] { stages.quantize(norm); });
  if (!barrier.wait_for_same(team, BarrierOf::codes, request.digest())) return;
  const bool agreed = team.shared().barrier.differs == 0 && !request.is_refused();
  team.run([&] {
    if (agreed) return stages.reduce_many(norm);
    if (team.number() == 0) request.report_difference(barrier.buffers, barrier.ranks);
  });
  if (!barrier.wait_as_one(team, BarrierOf::sums)) return;
  barrier.count(team);
  norms.clear_last(barrier, team);
  if (agreed) team.run([&] { stages.dequantize(norm); });
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

void run_fused_on_threads(const FusedArgs& args, const Delay& delay) {
  std::vector<std::thread> blocks;
  for (uint32_t number = 0; number < args.block_count; ++number) {
    blocks.emplace_back([&, number] {
      HostTeam team(number, delay);
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
