// A fused allreduce of one rank on the thread of its stream: stages of a CPU, and between them a
// wait for all ranks. Ranks find each other's work and flags where kernels do, in memory of all of
// them.
#include "tests/support/host_device/host_fused.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "kernels/cuda/fused/stage_args.h"
#include "tests/support/host_device/host_agreement.h"
#include "tests/support/host_device/host_stream.h"

namespace gq::test {
namespace {

const Stages& cpu() { return *cpu_stages_named("scalar"); }

uint64_t load_acquire(const uint64_t* place) { return __atomic_load_n(place, __ATOMIC_ACQUIRE); }
void store_release(uint64_t* place, uint64_t word) {
  __atomic_store_n(place, word, __ATOMIC_RELEASE);
}

/** What one tensor has of one shard. */
struct Part {
  uint32_t owner;   ///< the rank that adds it
  uint32_t tensor;  ///< its number
  uint64_t first_value;
  uint64_t value_count;

  Range range() const { return {first_value, static_cast<size_t>(value_count)}; }
};

class RankCall {
 public:
  explicit RankCall(const FusedArgs& args)
      : args_(args),
        rank_(args.random.rank),
        own_(*args.buffers[rank_]),
        segments_(args.segment_count > kFusedArgumentSegments ? own_.segments : args.segments),
        call_(static_cast<uint32_t>(own_.control.calls) + 1) {
    if (args.random.step_at == nullptr) return;
    args_.random.step = args.random.step_at[0];
    args_.random.index = args.random.step_at[1];
    args_.random.step_at = nullptr;
  }

  void run() {
    if (own_.control.left != 0) return;
    write_header();
    if (has_norm(args_.coding.levels)) find_norms();
    if (!wait(BarrierOf::norms)) return;
    const bool agreed = is_agreed();
    each_part([&](const Part& part) {
      if (agreed) quantize(part);
    });
    if (!wait(BarrierOf::codes)) return;
    each_part([&](const Part& part) {
      if (agreed && part.owner == rank_) add(part);
    });
    if (!wait(BarrierOf::sums)) return;
    own_.control.calls = call_;
    each_part([&](const Part& part) {
      if (agreed) dequantize(part);
    });
  }

 private:
  // Waits.

  /** False if the rank has given up. */
  bool wait(BarrierOf kind) const {
    const auto number = static_cast<uint32_t>(kind);
    for (uint32_t peer = 0; peer < args_.ranks; ++peer) {
      store_release(&args_.buffers[peer]->control.flags[number][rank_][0], call_);
    }
    const auto begun = std::chrono::steady_clock::now();
    for (uint32_t peer = 0; peer < args_.ranks; ++peer) {
      while (load_acquire(&own_.control.flags[number][peer][0]) != call_) {
        const std::chrono::nanoseconds waited = std::chrono::steady_clock::now() - begun;
        const bool too_long = static_cast<uint64_t>(waited.count()) >= args_.timeout_ns;
        if (too_long || load_acquire(args_.leave[rank_]) != 0) {
          give_up({rank_, peer, kind});
          return false;
        }
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
    }
    return true;
  }
  void give_up(const TooLate& late) const {
    own_.control.left = 1;
    if (load_acquire(args_.leave[rank_]) != 0) return;
    for (uint32_t peer = 0; peer < args_.ranks; ++peer) {
      store_release(args_.leave[peer], leave_word(late));
    }
  }

  // Whether all ranks make the same call.

  void write_header() {
    const FusedRequest& request = args_.request;
    uint32_t* const header = own_.control.header;
    std::copy_n(request.words, kAgreementWords, header);
    header[request.step_word] = args_.random.step;
    header[request.index_word] &= ~kIndexMax;
    header[request.index_word] |= args_.random.index & kIndexMax;
    if (args_.random.index > kIndexMax) header[request.status_word] = GQSGD_INVALID_ARGUMENT;
  }
  /** Else it is reported. */
  bool is_agreed() const {
    const FusedRequest& request = args_.request;
    const uint32_t* const reference = args_.buffers[0]->control.header;
    for (uint32_t rank = 0; rank < args_.ranks; ++rank) {
      const uint32_t* const header = args_.buffers[rank]->control.header;
      if (!headers_differ(reference, header, request.compared, request.status_word)) continue;
      report_difference(rank, reference, header, request.disagreement);
      return false;
    }
    return true;
  }

  // Stages.

  /** Of blocks, or one for each tensor: calls use the two copies of those in turn, because peers
   *  may read those of the last call. */
  void find_norms() {
    uint32_t* const norms = own_.control.tensor_norms[call_ % 2];
    std::fill_n(norms, args_.segment_count, 0);
    each_part([&](const Part& part) {
      uint32_t largest = 0;
      NormArgs args = cuda::norm_args(args_);
      args.range = part.range();
      args.values = values_of(segments_[part.tensor].send, part);
      args.out = has_blocks() ? static_cast<void*>(own_.norms + first_block(part)) : &largest;
      (void)cpu().norm(args);
      norms[part.tensor] = std::max(norms[part.tensor], largest);
    });
  }
  void quantize(const Part& part) const {
    QuantizeArgs args = cuda::quantize_args(args_);
    args.range = part.range();
    args.values = values_of(segments_[part.tensor].send, part);
    args.words += first_word(part);
    if (has_blocks()) merge_norms(part);
    const float norm = norm_of(part);
    args.norms = view_of(&norm, own_.merged, part);
    (void)cpu().quantize(args);
  }
  void add(const Part& part) const {
    const cuda::FusedSums sums(args_);
    const uint32_t* operands[kFusedRanksMax];
    for (uint32_t peer = 0; peer < args_.ranks; ++peer) {
      operands[peer] = args_.buffers[peer]->words + first_word(part);
    }
    ReduceManyArgs args = sums.args;
    args.range = part.range();
    args.words = operands;
    const float norm = norm_of(part);
    args.norms = view_of(&norm, own_.merged, part);
    args.out_words = own_.words + first_word(part);
    if (has_blocks()) args.out_scales = own_.scales + first_block(part);
    (void)cpu().reduce_many(args);
  }
  void dequantize(const Part& part) const {
    const FusedBuffers& owner = *args_.buffers[part.owner];
    DequantizeArgs args = cuda::dequantize_args(args_);
    args.range = part.range();
    args.words = owner.words + first_word(part);
    args.values = const_cast<void*>(values_of(segments_[part.tensor].recv, part));
    const float norm = norm_of(part);
    args.scales = view_of(&norm, owner.scales, part);
    (void)cpu().dequantize(args);
  }

  template <typename Each>
  void each_part(Each each) const {
    for (uint32_t owner = 0; owner < args_.ranks; ++owner) {
      const FusedShard& shard = args_.shards[owner];
      for (uint32_t k = 0; k < args_.segment_count; ++k) {
        const uint64_t first = std::max(shard.first_value, segments_[k].first_value);
        const uint64_t end = std::min(shard.first_value + shard.value_count,
                                      segments_[k].first_value + segments_[k].value_count);
        if (first < end) each(Part{owner, k, first, end - first});
      }
    }
  }
  const void* values_of(const void* values, const Part& part) const {
    return static_cast<const char*>(values) + part.first_value * dtype_size_bytes(args_.dtype);
  }
  uint64_t first_word(const Part& part) const {
    return part.first_value / codes_per_word(args_.coding.bits);
  }

  // Norms: the largest of all ranks.

  bool has_blocks() const { return args_.coding.block > 0; }
  uint64_t first_block(const Part& part) const { return part.first_value / args_.coding.block; }
  NormView view_of(const float* one, const uint16_t* blocks, const Part& part) const {
    if (!has_blocks()) return {one};
    return {nullptr, blocks + first_block(part)};
  }
  float norm_of(const Part& part) const {
    uint32_t largest = 0;
    for (uint32_t peer = 0; peer < args_.ranks; ++peer) {
      const FusedControl& control = args_.buffers[peer]->control;
      largest = std::max(largest, control.tensor_norms[call_ % 2][part.tensor]);
    }
    return float_from_bits(largest);
  }
  void merge_norms(const Part& part) const {
    uint16_t* const merged = own_.merged + first_block(part);
    const size_t count = norm_count(args_.coding.block, false, part.value_count);
    std::fill_n(merged, count, 0);
    for (uint32_t peer = 0; peer < args_.ranks; ++peer) {
      const uint16_t* const norms = args_.buffers[peer]->norms + first_block(part);
      (void)cpu().merge_norms({count, norms, merged, nullptr});
    }
  }

  FusedArgs args_;
  const uint32_t rank_;
  FusedBuffers& own_;
  const SegmentPlace* const segments_;
  const uint32_t call_;  ///< its number, as in FusedControl
};

std::atomic<uint32_t> blocks_there{kFusedBlocks};
std::atomic<uint32_t> queues_there{kFusedQueues};
std::atomic<uint32_t> kernels_enqueued{0};
std::atomic<int> lost_rank{-1};

StageError allreduce(const FusedArgs& args) {
  if (lost_rank == static_cast<int>(args.random.rank)) return {};
  ++kernels_enqueued;
  auto* const stream = static_cast<HostStream*>(args.stream);
  stream->push(
      stream, [](void* kept) { RankCall(*static_cast<const FusedArgs*>(kept)).run(); },
      [](void* kept) { delete static_cast<FusedArgs*>(kept); }, new FusedArgs(args));
  return {};
}

StageError blocks_at_once(uint32_t* count) {
  *count = blocks_there;
  return {};
}

uint32_t queues() { return queues_there; }

}  // namespace

const FusedStages& host_fused_stages() {
  static constexpr FusedStages kStages = {allreduce, blocks_at_once, queues};
  return kStages;
}

void set_fused_blocks_at_once(uint32_t count) { blocks_there = count; }
void set_fused_queues(uint32_t count) { queues_there = count; }
uint32_t fused_kernels_enqueued() { return kernels_enqueued; }
void lose_fused_kernels_of(int rank) { lost_rank = rank; }

}  // namespace gq::test
