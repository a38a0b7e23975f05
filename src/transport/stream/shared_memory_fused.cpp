// The start of a rank's memory for fused kernels, and the sentences for kernels that left.
#include "src/transport/stream/shared_memory_fused.h"

#include <inttypes.h>

namespace gq {
namespace {

const char* what_was_awaited(BarrierOf kind) {
  switch (kind) {
    case BarrierOf::norms:
      return "norms";
    case BarrierOf::codes:
      return "codes";
    case BarrierOf::sums:
      break;
  }
  return "sums";
}

}  // namespace

/** The kernels before one that waits are loaded as that is: later, in a graph, loading may not wait
 *  for the device. */
Status SharedMemoryFused::clear(FusedBuffers* buffers, StreamHandle stream) const {
  constexpr size_t kCounterWords = sizeof(uint64_t) / sizeof(uint32_t);
  GQ_TRY(device().clear(&buffers->control, sizeof buffers->control, stream));
  GQ_TRY(device().clear(buffers->words, sizeof(uint64_t), stream));  // of no call yet
  TakeStepArgs args{};
  args.counter = reinterpret_cast<uint64_t*>(buffers->words);
  args.step = buffers->words + kCounterWords;
  args.stream = stream;
  GQ_TRY(Status(device().agreement->take_step(args)));
  const SegmentPlace none{};
  return Status(device().batches->write_segments({&none, 1, buffers->segments, stream}));
}

uint64_t SharedMemoryFused::timeout_ns() const {
  const int64_t timeout_ms = config_.timeout_ms->load(std::memory_order_relaxed);
  return timeout_ms < 0 ? UINT64_MAX : static_cast<uint64_t>(timeout_ms) * 1000000;
}

Status SharedMemoryFused::enqueue(FusedArgs* args, TakeStepArgs* step, StreamHandle stream) const {
  know_peers(args);
  args->timeout_ns = timeout_ns();
  args->stream = stream;
  if (args->segment_count > kFusedArgumentSegments) {
    const WriteSegmentsArgs table{args->more_segments, args->segment_count,
                                  args->buffers[rank()]->segments, stream};
    GQ_TRY(Status(device().batches->write_segments(table)));
  }
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
