// The steps of preparation, in the order in which they may fail.
#include "src/gpu/enqueue/plan/call_plans.h"

#include <string.h>

#include <new>

#include "src/call/agreement.h"
#include "src/call/auto_schedule.h"
#include "src/gpu/enqueue/plan/call_checks.h"
#include "src/schedule/nodes.h"

namespace gq {
namespace {

PlanRequest request_of(const Endpoint& endpoint, const Call& call) {
  PlanRequest request{&call.format,
                      call.schedule_id,
                      endpoint.size(),
                      call.value_count,
                      chunk_value_count_of(endpoint, call),
                      false};
  request.operation = call.operation;
  request.rank = endpoint.rank();
  request.nodes = &endpoint.nodes;
  request.stages_are_launches = true;
  if (call.segments != nullptr) {
    request.segments = call.segments->parts.data();
    request.segment_count = call.segments->parts.size();
  }
  return request;
}

const std::vector<Part>* parts_of(const Call& call) {
  return call.segments == nullptr ? nullptr : &call.segments->parts;
}

}  // namespace

Status CallPlans::prepare(CallOnStream* call) {
  Endpoint& endpoint = group_.endpoint();
  Call& own = call->call;
  GQ_TRY(check_call(group_, own));
  GQ_TRY(resolve_auto(endpoint, &own));
  Plan plan;
  GQ_TRY(make_plan(request_of(endpoint, own), &plan));
  GQ_TRY(check_sums(group_.transport(), *plan.schedule));
  NormWords norm_or_hash;
  if (own.segments != nullptr) norm_or_hash = norm_words(own.segments->hash);
  call->control = Agreement::control_of(endpoint, own, plan.schedule_id, norm_or_hash);
  GQ_TRY(find_plan(plan, call));
  // Where hosts synchronize, a graph has fused kernels alone, which use no workspace.
  if (call->captured && group_.transport().agrees_on_host()) return Status();
  GQ_TRY(workspace_.reserve(plan));
  GQ_TRY(write_addresses(*call));
  return take_tables(*call);
}

Status CallPlans::take_tables(const CallOnStream& call) {
  CachedPlan* const cached = call.cached;
  if (cached->table_pieces > 0 && cached->tables.get().count == 0) {
    const size_t count = cached->table_pieces * Batches::kPieceAddresses;
    GQ_TRY(cached->tables.take(&address_memory_, count));
    memset(cached->tables.get().staged, kUnwrittenByte, count * sizeof(void*));
  }
  batches_.begin_call(cached->tables.get(), call.captured || cached->captured);
  return Status();
}

/** Parts of one chunk have nothing to overlap: all their messages leave together. */
Pace CallPlans::pace_of(const Plan& plan) const {
  const uint64_t part = shard_value_count(plan.shape, shard_count(plan.shape));
  const bool in_chunks = part > plan.shape.chunk_value_count;
  return in_chunks && group_.overlaps() ? Pace::overlapped : Pace::in_turns;
}

Status CallPlans::find_plan(const Plan& plan, CallOnStream* call) {
  const Endpoint& endpoint = group_.endpoint();
  const Signature signature = Signature::of(call->control);
  const std::vector<Part>* segments = parts_of(call->call);
  call->cached = cache_.find(signature, segments);
  call->expected = call->cached != nullptr && call->cached == cache_.expected();
  if (call->cached != nullptr) return Status();
  if (call->captured) return not_captured_yet(call->call, "has not been made");
  if (cache_.is_full()) GQ_TRY(group_.wait_for_last_call());
  try {
    cache_.reserve();
    call->new_plan = std::make_unique<CachedPlan>();
    call->cached = call->new_plan.get();
    call->cached->signature = signature;
    GQ_TRY(call->cached->execution_plan.make(plan, endpoint.rank(), segments, pace_of(plan)));
    const BatchSizes sizes(call->cached->execution_plan);
    call->cached->table_pieces = sizes.in_tables;
    batches_.reserve(sizes);
    return Status();
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "no memory for the moves of %u ranks", endpoint.size());
  }
}

/** Addresses of operands change with the arena only. Weights are behind them. */
Status CallPlans::write_addresses(const CallOnStream& call) {
  CachedPlan* const cached = call.cached;
  unsigned char* const arena = workspace_.arena();
  const std::vector<size_t>& operands = cached->execution_plan.operands();
  if (operands.empty() || cached->arena == arena) return Status();
  if (call.captured) return not_captured_yet(call.call, "was last made with less workspace");
  if (cached->captured) GQ_TRY(cached->keep_addresses());
  const Nodes* const weights = cached->execution_plan.weights();
  const size_t count = operands.size() + (weights == nullptr ? 0 : weights->count());
  GQ_TRY(cached->addresses.take(&address_memory_, count));
  const AddressArray& array = cached->addresses.get();
  for (size_t k = 0; k < operands.size(); ++k) array.staged[k] = arena + operands[k];
  for (size_t k = operands.size(); k < count; ++k) {
    const uintptr_t weight = weights->size_of(static_cast<uint32_t>(k - operands.size()));
    array.staged[k] = reinterpret_cast<const unsigned char*>(weight);
  }
  GQ_TRY(group_.follow_last_call(call.call.stream));
  GQ_TRY(group_.device().copy(array.on_device, array.staged, count * sizeof(void*),
                              call.call.stream));
  cached->arena = arena;
  return Status();
}

Status CallPlans::reserve(PlanRequest request) {
  request.chunk_value_count = group_.endpoint().stream_chunk_value_count;
  request.reads_in_place = false;
  request.stages_are_launches = true;
  Plan plan;
  GQ_TRY(make_plan(request, &plan));
  const Shape& shape = plan.shape;
  const uint64_t chunks = shard_value_count(shape, shape.ranks) / shape.chunk_value_count + 1;
  GQ_TRY(address_memory_.reserve(PlanCache::kPlansMax * static_cast<size_t>(chunks) * shape.ranks));
  GQ_TRY(workspace_.reserve(plan));
  return reserve_floats(request);
}

/** Those that AUTO may send in place of codes. */
Status CallPlans::reserve_floats(PlanRequest request) {
  const AutoChoice& choice = group_.endpoint().choice;
  const bool by_choice = group_.endpoint().has_streams_only() && choice.has_costs();
  if (!by_choice || !choice.may_be_uncompressed()) return Status();
  const Format floats = uncompressed(*request.format);
  request.format = &floats;
  request.schedule_id = GQSGD_SCHEDULE_NATIVE;
  Plan plan;
  GQ_TRY(make_plan(request, &plan));
  return workspace_.reserve(plan);
}

}  // namespace gq
