// The conditions follow from what ranks agree on; devices compare the steps.
#include "src/gpu/enqueue/fused_calls.h"

#include <string.h>

#include <algorithm>
#include <new>

#include "src/gpu/enqueue/agreement/disagreement.h"
#include "src/schedule/move.h"
#include "src/support/fnv1a.h"

namespace gq {
namespace {

bool reduces_tensors(const Call& call) {
  if (call.operation == Operation::allreduce) return true;
  return call.operation == Operation::allreduce_many &&
         call.segments->parts.size() <= kFusedSegmentsMax;
}

/** The kernels make the moves of schedule direct, each shard in one chunk; schedule hierarchical,
 *  where it is flat, has the same moves made by the stages. */
bool has_fused_moves(const Call& call, const Plan& plan) {
  const bool direct = plan.schedule_id == GQSGD_SCHEDULE_DIRECT;
  const uint64_t shard = shard_value_count(plan.shape, plan.shape.ranks);
  return direct && reduces_tensors(call) && call.value_count > 0 &&
         call.value_count <= fused_values_max(plan.coding) &&
         shard <= plan.shape.chunk_value_count &&
         has_fused_kernel(call.format, plan.coding);
}

/** No more blocks than there are tiles: each more is a word that all others wait for. */
uint32_t blocks_for(const Plan& plan, uint32_t block_count) {
  const uint64_t shard = shard_value_count(plan.shape, plan.shape.ranks);
  const uint32_t tile = fused_tile_values(plan.coding);
  const uint64_t tiles = (shard + tile - 1) / tile * plan.shape.ranks;
  return static_cast<uint32_t>(std::min<uint64_t>(tiles, block_count));
}

/** Where the step is does not matter, only which it is: kernels compare that. */
FusedRequest request_of(const CallOnStream& call) {
  FusedRequest request{};
  memcpy(request.words, call.control.words, sizeof request.words);
  request.words[kControlFields] &= ~(1u << kControlStepOnDeviceShift);
  request.compared = compared_words(call.call);
  request.step_word = kControlStep;
  request.index_word = kControlIndex;
  request.status_word = kControlStatus;
  request.disagreement = call.disagreement;
  Fnv1a64 digest;
  for (uint32_t k = 0; k < kAgreementWords; ++k) {
    uint32_t word = (request.compared >> k & 1) != 0 ? request.words[k] : 0;
    if (k == kControlStep) word = 0;
    if (k == kControlIndex) word &= ~kIndexMax;
    digest.add_whole(word);
  }
  request.digest = static_cast<uint32_t>(digest.hash() ^ digest.hash() >> 32);
  return request;
}

}  // namespace

Status FusedCalls::reserve() {
  FusedKernels* const kernels = group_.transport().fused();
  return kernels == nullptr ? Status() : kernels->reserve();
}

Status FusedCalls::prepare(CallOnStream* call) {
  FusedKernels* const kernels = group_.transport().fused();
  call->is_fused = kernels != nullptr && has_fused_moves(call->call, call->plan());
  if (!call->is_fused) return Status();
  if (call->call.segments != nullptr) {
    try {
      segments_.reserve(call->call.segments->parts.size());
    } catch (const std::bad_alloc&) {
      return fail(GQSGD_NO_MEMORY, "no memory for %zu segments",
                  call->call.segments->parts.size());
    }
  }
  if (call->captured) return Status();
  const StreamHandle stream = call->call.stream;
  GQ_TRY(group_.follow_last_call(stream));
  return kernels->prepare(group_.endpoint().sequence, stream);
}

Status FusedCalls::block_count(const CallOnStream& call, uint32_t* block_count) {
  *block_count = 0;
  return call.is_fused ? group_.transport().fused()->block_count(block_count) : Status();
}

/** They have memory already. */
void FusedCalls::list_segments(const Call& call) {
  segments_.clear();
  for (size_t k = 0; k < call.segments->parts.size(); ++k) {
    const Part& part = call.segments->parts[k];
    const Place& place = call.places->of[k];
    segments_.push_back(
        fused_segment({part.first_value, part.value_count, place.send, place.recv}, call.dtype));
  }
}

FusedArgs FusedCalls::arguments_of(const CallOnStream& call, uint32_t block_count) {
  const Call& own = call.call;
  const Plan& plan = call.plan();
  FusedArgs args{};
  args.coding = plan.coding;
  args.random = random_site(group_.endpoint(), own, 0);
  args.ranks = group_.endpoint().size();
  args.value_count = own.value_count;
  args.dtype = own.dtype;
  args.op = own.op;
  args.segment_count = 1;
  args.segments[0] = {0, own.value_count, own.send_at(0), own.recv_at(0)};
  if (own.segments != nullptr) {
    list_segments(own);
    args.segment_count = static_cast<uint32_t>(segments_.size());
    args.more_segments = segments_.data();
    if (segments_.size() <= kFusedArgumentSegments) {
      std::copy(segments_.begin(), segments_.end(), args.segments);
    }
  }
  for (uint32_t rank = 0; rank < args.ranks; ++rank) {
    const Part shard = part_of(plan.shape, args.ranks, rank);
    args.shards[rank] = {shard.first_value, shard.value_count};
  }
  args.block_count = blocks_for(plan, block_count);
  args.request = request_of(call);
  return args;
}

Status FusedCalls::launch(const CallOnStream& call, uint32_t block_count) {
  FusedArgs args = arguments_of(call, block_count);
  TakeStepArgs step = counter_.stage();
  return group_.transport().fused()->launch(
      group_.endpoint().sequence, &args, StepCounter::takes_on_device(call.call) ? &step : nullptr,
      call.call.stream);
}

Status FusedCalls::capture(const CallOnStream& call, uint32_t block_count) {
  FusedArgs args = arguments_of(call, block_count);
  return group_.transport().fused()->capture(&args, call.call.stream);
}

}  // namespace gq
