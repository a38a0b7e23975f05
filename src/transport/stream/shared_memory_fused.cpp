// The start of a rank's memory for fused kernels, and the sentences for kernels that left.
#include "src/transport/stream/shared_memory_fused.h"

#include <inttypes.h>
#include <string.h>

#include <new>

namespace gq {
namespace {

const char* what_was_awaited(BarrierOf kind) {
  switch (kind) {
    case BarrierOf::norms:
      return "the start or norms";
    case BarrierOf::codes:
      return "codes";
    case BarrierOf::sums:
      break;
  }
  return "sums";
}

}  // namespace

Status SharedMemoryFused::clear(FusedBuffers* buffers, StreamHandle stream) {
  written_count_ = 0;
  return device().clear(&buffers->control, sizeof buffers->control, stream);
}

uint64_t SharedMemoryFused::timeout_ns() const {
  const int64_t timeout_ms = config_.timeout_ms->load(std::memory_order_relaxed);
  return timeout_ms < 0 ? UINT64_MAX : static_cast<uint64_t>(timeout_ms) * 1000000;
}

/** Graphs write those of their own at each replay, of which no host knows: from the first one on
 *  every call writes. */
Status SharedMemoryFused::write_segments(const FusedArgs& args, StreamHandle stream) {
  const size_t size_bytes = args.segment_count * sizeof(SegmentPlace);
  const bool is_known = !has_graphs_ && written_count_ == args.segment_count;
  if (is_known && memcmp(written_.get(), args.more_segments, size_bytes) == 0) return Status();
  written_count_ = 0;
  GQ_TRY(Status(device().batches->write_segments(
      {args.more_segments, args.segment_count, args.buffers[rank()]->segments, stream})));
  if (written_ == nullptr) written_.reset(new (std::nothrow) SegmentPlace[kFusedSegmentsMax]);
  if (written_ == nullptr) return Status();  // then the next call writes again
  memcpy(written_.get(), args.more_segments, size_bytes);
  written_count_ = args.segment_count;
  return Status();
}

Status SharedMemoryFused::enqueue(FusedArgs* args, TakeStepArgs* step, StreamHandle stream) {
  know_peers(args);
  args->timeout_ns = timeout_ns();
  args->stream = stream;
  if (args->segment_count > kFusedArgumentSegments) GQ_TRY(write_segments(*args, stream));
  if (step != nullptr) {
    step->stream = stream;
    GQ_TRY(Status(device().agreement->take_step(*step)));
  }
  return Status(device().fused->allreduce(*args));
}

void SharedMemoryFused::count_traffic(const FusedArgs& args) {
  const auto count_shard = [&](uint32_t owner) {
    const uint64_t value_count = args.shards[owner].value_count;
    shared_memory_.count_sent(words_for(args.coding.bits, value_count) * sizeof(uint32_t),
                              value_count);
  };
  for (uint32_t peer = 0; peer < args.ranks; ++peer) {
    if (peer == rank()) continue;
    count_shard(peer);
    count_shard(rank());
  }
}

uint64_t SharedMemoryFused::left_for() const {
  const uint64_t* const leave = leave_word();
  if (leave == nullptr) return 0;
  return std::atomic_ref<uint64_t>(*const_cast<uint64_t*>(leave)).load();
}

Status SharedMemoryFused::late_failure() {
  TooLate late{};
  if (is_too_late(left_for(), &late) && shared_memory_.has_died(late.peer)) {
    shared_memory_.abort_group(GQSGD_PEER_LOST, late.peer);
    return shared_memory_.check();
  }
  GQ_TRY(too_late());
  return left_for() == 0 ? Status() : shared_memory_.check();
}

Status SharedMemoryFused::too_late() {
  TooLate late{};
  if (!is_too_late(left_for(), &late)) return Status();
  shared_memory_.abort_group(GQSGD_TIMEOUT, late.peer);
  return fail(GQSGD_TIMEOUT,
              "an allreduce that had returned, or a replay: the kernel of rank %u waited %" PRId64
              " ms for %s of rank %u; its device is stopped, or busy with kernels that do not end, "
              "or the rank has not replayed the graph (timeout_ms sets the limit; schedule "
              "hierarchical has no kernels that wait)",
              late.waiter, config_.timeout_ms->load(std::memory_order_relaxed),
              what_was_awaited(late.kind), late.peer);
}

}  // namespace gq
