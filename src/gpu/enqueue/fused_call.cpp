// Allreduces by one kernel per rank: which calls they are, and the kernels' arguments.
#include <string.h>

#include <algorithm>

#include "src/gpu/enqueue/scratch_layout.h"
#include "src/gpu/enqueue/stream_calls.h"
#include "src/schedule/move.h"

namespace gq {
namespace {

/** Follows from what ranks agree on. The kernels make the moves of schedule direct, each shard in
 * one chunk; schedule hierarchical, where it is flat, has the same moves made by the stages. */
bool has_fused_moves(const Call& call, const Plan& plan) {
  const bool direct = plan.schedule_id == GQSGD_SCHEDULE_DIRECT;
  const uint64_t shard = shard_value_count(plan.shape, plan.shape.ranks);
  return direct && call.operation == Operation::allreduce && call.value_count > 0 &&
         call.value_count <= kFusedValuesMax && shard <= plan.shape.chunk_value_count &&
         has_fused_kernel(call.format, plan.coding);
}

/** No more blocks than have values to quantize: each more is a word that all others wait for. */
uint32_t blocks_for(uint64_t value_count, uint32_t block_count) {
  const uint64_t turns = (value_count + kFusedIterationValues - 1) / kFusedIterationValues;
  return static_cast<uint32_t>(std::min<uint64_t>(turns, block_count));
}

/** Where the step is does not matter, only which it is: kernels compare that. */
FusedRequest request_of(const Header& header, Disagreement* found) {
  FusedRequest request{};
  memcpy(request.words, header.words, sizeof request.words);
  request.words[kHeaderFields] &= ~(1u << kHeaderStepOnDeviceShift);
  request.compared = kComparedWords;
  request.step_word = kHeaderStep;
  request.index_word = kHeaderIndex;
  request.status_word = kHeaderStatus;
  request.disagreement = found;
  uint64_t digest = 0xcbf29ce484222325u;  // FNV-1a, by words
  for (uint32_t k = 0; k < kAgreementWords; ++k) {
    uint32_t word = (request.compared >> k & 1) != 0 ? request.words[k] : 0;
    if (k == kHeaderStep) word = 0;
    if (k == kHeaderIndex) word &= ~kIndexMax;
    digest = (digest ^ word) * 0x100000001b3u;
  }
  request.digest = static_cast<uint32_t>(digest ^ digest >> 32);
  return request;
}

}  // namespace

Status StreamCalls::prepare_fused(Attempt* attempt) {
  FusedKernels* const fused = transport_.fused();
  attempt->may_fuse =
      fused != nullptr && has_fused_moves(attempt->call, attempt->known->execution_plan.plan());
  if (!attempt->may_fuse || attempt->captured) return Status();
  GQ_TRY(device_.wait(attempt->call.stream, done_));
  return fused->prepare(endpoint_.sequence, attempt->call.stream);
}

Status StreamCalls::fused_block_count(const Attempt& attempt, uint32_t* block_count) {
  *block_count = 0;
  return attempt.may_fuse ? transport_.fused()->block_count(block_count) : Status();
}

FusedArgs StreamCalls::fused_args(const Attempt& attempt, uint32_t block_count) const {
  const Call& call = attempt.call;
  const Plan& plan = attempt.known->execution_plan.plan();
  FusedArgs args{};
  args.coding = plan.coding;
  args.random = random_site(endpoint_, call, 0);
  args.ranks = endpoint_.size();
  args.value_count = call.value_count;
  args.dtype = call.dtype;
  args.op = call.op;
  args.send = call.send;
  args.recv = call.recv;
  for (uint32_t rank = 0; rank < args.ranks; ++rank) {
    const Part shard = part_of(plan.shape, args.ranks, rank);
    args.shards[rank] = {shard.first_value, shard.value_count};
  }
  args.block_count = blocks_for(call.value_count, block_count);
  args.request = request_of(attempt.header, attempt.found);
  return args;
}

Status StreamCalls::execute_fused(Attempt* attempt, uint32_t block_count) {
  const Call& call = attempt->call;
  FusedArgs args = fused_args(*attempt, block_count);
  TakeStepArgs step = step_args();
  GQ_TRY(transport_.fused()->launch(endpoint_.sequence, &args,
                                    takes_step_on_device(call) ? &step : nullptr, call.stream));
  GQ_TRY(device_.record(done_, call.stream));
  plans_.follow(attempt->known, &attempt->fresh);
  return Status();
}

/** Breaks the group here as well. */
Status StreamCalls::late_failure_of_kernels() {
  FusedKernels* const fused = transport_.fused();
  return fused == nullptr ? Status() : end(fused->late_failure());
}

}  // namespace gq
