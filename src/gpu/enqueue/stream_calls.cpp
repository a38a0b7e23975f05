// A call on a stream, step by step: its workspace, the header, the agreed status, the execution
// plan.
#include "src/gpu/enqueue/stream_calls.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <new>

#include "kernels/codec/norm.h"
#include "src/call/agreement.h"
#include "src/gpu/device/time_range.h"
#include "src/gpu/enqueue/scratch_layout.h"
#include "src/gpu/enqueue/sparse_arena.h"
#include "src/support/clock.h"
#include "src/support/kept_failure.h"

namespace gq {
namespace {

/** Groups for whose sums a norm stage on a device needs workspace. */
size_t norm_groups(const Plan& plan) {
  const uint64_t codes = code_count(plan.coding.rotated, plan.shape.value_count);
  return static_cast<size_t>(norm_group_count(0, codes));
}

size_t workspace_bytes(const Plan& plan) {
  return in_lines(plan.layout.arena_bytes()) + in_lines(sparse_workspace_bytes(plan)) +
         norm_groups(plan) * sizeof(double);
}

/** What streams do not do, in this version. */
Status check_kind(const Call& call, const Nodes& nodes) {
  if (call.schedule_id == GQSGD_SCHEDULE_HIERARCHICAL && !nodes.is_flat()) {
    return fail(GQSGD_UNSUPPORTED,
                "schedule hierarchical over several nodes works on host memory in this version; "
                "use schedule direct");
  }
  if (call.format.nonfinite == Nonfinite::error && call.format.levels != Levels::none) {
    return fail(GQSGD_UNSUPPORTED,
                "nonfinite=error needs a host that looks at values before codes move, which on a "
                "stream nobody does; use nonfinite=poison, which returns NaN instead");
  }
  return Status();
}

/** What profilers call a call. */
const char* range_name(Operation operation) {
  switch (operation) {
    case Operation::allreduce:
      return "gqsgd.allreduce";
    case Operation::reduce_scatter:
      return "gqsgd.reduce_scatter";
    case Operation::allgather:
      return "gqsgd.allgather";
    case Operation::allreduce_many:
      return "gqsgd.allreduce_many";
  }
  return "gqsgd";
}

const std::vector<Part>* parts_of(const Call& call) {
  return call.segments == nullptr ? nullptr : &call.segments->parts;
}

}  // namespace

StreamCalls::~StreamCalls() {
  OnDevice here(device_);
  const Status entered = here.enter(transport_.ordinal());
  if (!entered.ok()) {
    endpoint_.failure.keep(entered, last_error());
    abandon();
    return;
  }
  if (done_ != nullptr && !wait_on_host(done_, "earlier calls to end").ok()) {
    endpoint_.failure.keep(Status(GQSGD_ABORTED), "the communicator was destroyed during a call");
    transport_.abort_group(GQSGD_ABORTED, endpoint_.rank());
    bool ended = false;
    (void)wait_for(device_, done_, deadline_after_ms(kGraceMs), nullptr, nullptr, &ended).ok();
    if (!ended) abandon();
  }
  while (pending_operations_.first() != nullptr)
    pending_operations_.end_first(outcome_of(*pending_operations_.first()));
  if (!endpoint_.failure.get().ok() || transport_.lends_memory()) {
    transport_.transfer_ownership(&arena_);
    transport_.transfer_ownership(&scratch_);
  }
  device_.end_event(done_);
  device_.end_event(there_);
}

/** Memory that a stream still uses, where no wait is possible, is leaked. */
void StreamCalls::abandon() {
  transport_.leak_in_use();
  aside_.forget();
  arena_.forget();
  scratch_.forget();
  pinned_.forget();
  lists_.forget();
  for (DeviceBuffer& arena : earlier_arenas_) arena.forget();
  end_pending(endpoint_.failure.get());
  pending_operations_.forget();
}

Status StreamCalls::open() {
  OnDevice here(device_);
  GQ_TRY(here.enter(transport_.ordinal()));
  const size_t headers_bytes = endpoint_.size() * sizeof(Header);
  const size_t lists_bytes = endpoint_.size() * sizeof(EntryList);
  GQ_TRY(scratch_.reserve(device_, kHeadersBytes + headers_bytes + lists_bytes));
  GQ_TRY(pinned_.reserve(device_, kPinnedHeadersBytes + headers_bytes + lists_bytes));
  memset(pinned_.data(), 0, pinned_.size_bytes());
  if (pace() == Pace::overlapped) GQ_TRY(aside_.open());
  GQ_TRY(device_.make_event(&done_));
  return device_.make_event(&there_);
}

CallPlaces StreamCalls::places(const CachedPlan& known) {
  return {arena_.data(), &aside_, norm_sums(norm_groups(known.execution_plan.plan())),
          scratch_.as<const float>(kNormBytes), scratch_.as<const uint32_t>(kGateBytes)};
}

Status StreamCalls::run(const Call& call, Status own) {
  const KeptFailure refusal(own);
  const KeptFailure late(take_late_failure());
  GQ_TRY(make(call, refusal.again(), pinned_.as<Disagreement>(kLateBytes)));
  return end(late.again());
}

Status StreamCalls::refuse(const Call& call, Status own) {
  return make(call, own, pinned_.as<Disagreement>(kLateBytes));
}

Status StreamCalls::make(const Call& call, Status own, Disagreement* found) {
  const TimeRange range(range_name(call.operation));
  KeptFailure refusal(own);
  OnDevice here(device_);
  GQ_TRY(endpoint_.intact());
  GQ_TRY(late_failure_of_kernels());
  GQ_TRY(here.enter(transport_.ordinal()));
  Attempt attempt;
  attempt.call = call;
  attempt.found = found;
  GQ_TRY(device_.is_capturing(call.stream, &attempt.captured));
  if (attempt.captured) return end(capture(&attempt, refusal));
  endpoint_.sequence += 1;
  endpoint_.calls += 1;
  const Status counted = call.counts_later ? take_step(&attempt.call) : Status();
  if (refusal.ok()) refusal = KeptFailure(counted);
  if (refusal.ok()) refusal = KeptFailure(prepare(&attempt));
  if (!refusal.ok()) {
    attempt.header = Agreement::refusal_of(endpoint_, call, refusal.again().code(), {});
    if (!call.counts_later) attempt.call.step_at = nullptr;  // which may lead anywhere
  }
  const Status ended = end(enqueue(&attempt, refusal));
  if (!ended.ok()) unused_ = std::move(attempt.fresh);
  return ended;
}

/** A failure that ranks share leaves the group as it was; any other one breaks it. */
Status StreamCalls::end(Status status) {
  const gqsgd_status code = status.code();
  const bool broke = (code >= GQSGD_TIMEOUT && code < GQSGD_NONFINITE) || code == GQSGD_BACKEND ||
                     code == GQSGD_INTERNAL;
  if (!broke) return status;
  endpoint_.failure.keep(status, last_error());
  transport_.abort_group(code, endpoint_.rank());
  return endpoint_.failure.get();
}

Status StreamCalls::prepare(Attempt* attempt) {
  const TimeRange range("gqsgd.prepare");
  Call& call = attempt->call;
  if (call.schedule_id == GQSGD_SCHEDULE_AUTO) call.schedule_id = GQSGD_SCHEDULE_DIRECT;
  GQ_TRY(check_kind(call, endpoint_.nodes));
  GQ_TRY(check_places(call));
  PlanRequest request{&call.format,
                      call.schedule_id,
                      endpoint_.size(),
                      call.value_count,
                      chunk_value_count_of(endpoint_, call),
                      false};
  request.operation = call.operation;
  request.rank = endpoint_.rank();
  request.nodes = &endpoint_.nodes;
  request.stages_are_launches = true;
  NormWords norm_or_hash;
  if (call.segments != nullptr) {
    request.segments = call.segments->parts.data();
    request.segment_count = call.segments->parts.size();
    norm_or_hash = norm_words(call.segments->hash);
  }
  Plan plan;
  GQ_TRY(make_plan(request, &plan));
  GQ_TRY(check_sums(plan));
  GQ_TRY(prepare_lists(plan));
  attempt->header = Agreement::header_of(endpoint_, call, plan.schedule_id, norm_or_hash);
  GQ_TRY(find_plan(plan, attempt));
  const bool fused_alone = attempt->captured && transport_.agrees_on_host();
  if (!fused_alone) {
    GQ_TRY(grow(workspace_bytes(plan)));
    GQ_TRY(list_operands(*attempt));
  }
  return prepare_fused(attempt);
}

Status StreamCalls::check_sums(const Plan& plan) const {
  if (!plan.schedule->adds_natively || transport_.can_sum()) return Status();
  return fail(
      GQSGD_UNSUPPORTED,
      "schedule %s is the transport's own allreduce, which on memory of a device is NCCL's; "
      "use another schedule, or auto",
      plan.schedule->name);
}

Status StreamCalls::check_places(const Call& call) const {
  GQ_TRY(check_place("config.device_step", call.step_at, 2));
  if (call.segments == nullptr) {
    GQ_TRY(check_place("send", call.send, call.value_count));
    return check_place("recv", call.recv, call.value_count);
  }
  for (size_t k = 0; k < call.segments->parts.size(); ++k) {
    const uint64_t value_count = call.segments->parts[k].value_count;
    GQ_TRY(check_place("send", call.segments->places[k].send, value_count));
    GQ_TRY(check_place("recv", call.segments->places[k].recv, value_count));
  }
  return Status();
}

/** Null where this rank has nothing to read or to write. */
Status StreamCalls::check_place(const char* name, const void* pointer, uint64_t value_count) const {
  if (pointer == nullptr || value_count == 0) return Status();
  MemoryKind kind = MemoryKind::host;
  GQ_TRY(device_.memory_kind(pointer, &kind));
  if (kind == MemoryKind::device) return Status();
  return fail(GQSGD_INVALID_ARGUMENT,
              "%s is %p, which is memory of %s; this communicator works on memory of %s device %d",
              name, pointer, kind == MemoryKind::host ? "the host" : "another device", device_.name,
              transport_.ordinal());
}

Status StreamCalls::find_plan(const Plan& plan, Attempt* attempt) {
  const Signature signature = Signature::of(attempt->header);
  const std::vector<Part>* segments = parts_of(attempt->call);
  attempt->known = plans_.find(signature, segments);
  attempt->expected = attempt->known != nullptr && attempt->known == plans_.expected();
  if (attempt->known != nullptr) return Status();
  if (attempt->captured) return not_captured_yet(*attempt, "has not been made");
  if (plans_.is_full()) GQ_TRY(wait_on_host(done_, "earlier calls to end"));
  try {
    plans_.allocate_workspace();
    attempt->fresh = std::make_unique<CachedPlan>();
    attempt->known = attempt->fresh.get();
    attempt->known->signature = signature;
    return attempt->known->execution_plan.make(plan, endpoint_.rank(), segments, pace());
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "no memory for the moves of %u ranks", endpoint_.size());
  }
}

/** A rank that refuses a call for want of memory still answers peers in the memory that it has. */
Status StreamCalls::grow(size_t arena_bytes) {
  if (arena_bytes <= arena_.size_bytes()) return Status();
  GQ_TRY(wait_on_host(done_, "earlier calls to end"));
  if (has_captured_) GQ_TRY(keep_arena());
  const Status grown = transport_.reserve(&arena_, arena_bytes);
  if (!grown.ok() && has_captured_) {
    arena_.swap(earlier_arenas_.back());
    earlier_arenas_.pop_back();
  }
  GQ_TRY(grown);
  endpoint_.workspace_bytes.raise_to(arena_bytes);
  return Status();
}

/** Addresses of operands change with the arena only. */
Status StreamCalls::list_operands(const Attempt& attempt) {
  CachedPlan* const known = attempt.known;
  const StreamHandle stream = attempt.call.stream;
  const std::vector<size_t>& operands = known->execution_plan.operands();
  if (operands.empty() || known->listed_arena == arena_.data()) return Status();
  if (attempt.captured) return not_captured_yet(attempt, "was last made with less workspace");
  if (known->captured) GQ_TRY(keep_lists(known));
  GQ_TRY(known->lists.take(&lists_, operands.size()));
  const AddressList& list = known->lists.list();
  for (size_t k = 0; k < operands.size(); ++k) list.staged[k] = arena_.data() + operands[k];
  GQ_TRY(device_.wait(stream, done_));
  GQ_TRY(device_.copy(list.there, list.staged, operands.size() * sizeof(void*), stream));
  known->listed_arena = arena_.data();
  return Status();
}

Status StreamCalls::reserve(PlanRequest request) {
  request.chunk_value_count = endpoint_.stream_chunk_value_count;
  request.reads_in_place = false;
  request.stages_are_launches = true;
  OnDevice here(device_);
  GQ_TRY(here.enter(transport_.ordinal()));
  if (transport_.fused() != nullptr) GQ_TRY(transport_.fused()->reserve());
  Plan plan;
  GQ_TRY(make_plan(request, &plan));
  const Shape& shape = plan.shape;
  const uint64_t chunks = shard_value_count(shape, shape.ranks) / shape.chunk_value_count + 1;
  GQ_TRY(lists_.reserve(PlanCache::kKnownMax * static_cast<size_t>(chunks) * shape.ranks));
  return grow(workspace_bytes(plan));
}

Status StreamCalls::enqueue(Attempt* attempt, const KeptFailure& refusal) {
  const Call& call = attempt->call;
  if (transport_.agrees_on_host()) {
    return enqueue_after_host_agreement(attempt, refusal, refusal.ok() && has_one_norm(call));
  }
  // A rank that may replay a graph has to see what the others do outside of theirs. Sparse entries
  // wait for counts: no rank can answer one that has continued to these alone.
  attempt->speculative =
      attempt->expected && refusal.ok() && !has_captured_ && !sends_lists(*attempt);
  if (attempt->speculative) {
    GQ_TRY(publish(*attempt, has_one_norm(call)));
    GQ_TRY(agree_on_device(call, attempt->found));
    return execute_call(attempt);
  }
  GQ_TRY(publish(*attempt, refusal.ok() && has_one_norm(call)));
  if (refusal.ok()) GQ_TRY(agree_on_device(call, pinned_.as<Disagreement>(kSeenBytes)));
  Status outcome;
  GQ_TRY(agree_on_host(*attempt, refusal.again(), &outcome));
  if (outcome.ok()) return execute_call(attempt);
  const KeptFailure difference(outcome);
  GQ_TRY(stay_in_step(call));
  return difference.again();
}

Status StreamCalls::execute_call(Attempt* attempt) {
  const TimeRange range("gqsgd.fill");
  const Call& call = attempt->call;
  const Enqueuer enqueuer(endpoint_, transport_, call, *attempt->known, places(*attempt->known));
  const bool encoded = sends_lists(*attempt);
  bool as_lists = false;
  if (encoded) GQ_TRY(list_codes(*attempt, &as_lists));
  GQ_TRY(as_lists ? exchange_lists(call, attempt->known->execution_plan.plan())
                  : enqueuer.moves(encoded));
  CloseGateArgs gate{};
  gate.broken = transport_.broken_word();
  gate.gate = scratch_.as<uint32_t>(kGateBytes);
  gate.stream = call.stream;
  GQ_TRY(Status(device_.agreement->close_gate(gate)));
  GQ_TRY(as_lists ? add_lists(call, attempt->known->execution_plan.plan()) : enqueuer.results());
  if (attempt->captured) return device_.record_in_graph(done_, call.stream);
  GQ_TRY(device_.record(done_, call.stream));
  if (attempt->known->execution_plan.plan().schedule->adds_natively &&
      call.format.levels == Levels::none) {
    endpoint_.native_float_calls += 1;
  }
  plans_.follow(attempt->known, &attempt->fresh);
  return Status();
}

Status StreamCalls::wait_on_host(EventHandle event, const char* what) {
  const int64_t timeout_ms = endpoint_.timeout_ms.load(std::memory_order_relaxed);
  const uint64_t begun_us = monotonic_us();
  bool done = false;
  const auto look = [](void* calls) {
    StreamCalls& self = *static_cast<StreamCalls*>(calls);
    GQ_TRY(self.endpoint_.intact());
    return self.transport_.check();
  };
  GQ_TRY(wait_for(device_, event, deadline_after_ms(timeout_ms), look, this, &done));
  endpoint_.wait_ns += (monotonic_us() - begun_us) * 1000;
  return done ? Status() : timed_out(timeout_ms, what);
}

Status StreamCalls::timed_out(int64_t timeout_ms, const char* what) const {
  return fail(GQSGD_TIMEOUT,
              "call %" PRIu64 ": rank %u waited %" PRId64
              " ms on its stream for %s: a rank is late, stopped, or makes other calls, or earlier "
              "work of the stream takes as long (timeout_ms sets the limit)",
              endpoint_.sequence, endpoint_.rank(), timeout_ms, what);
}

}  // namespace gq
