// Each failure says which call works instead.
#include "src/gpu/enqueue/plan/call_checks.h"

#include "src/support/names.h"

namespace gq {
namespace {

Status check_kind(const Call& call) {
  if (!has_device_stages(call.format.levels)) {
    return fail(GQSGD_UNSUPPORTED,
                "levels=%s works on host memory in this version; use a preset with norms, such as "
                "blocks-8, or none",
                name_in(names_of(kLevelsList), static_cast<size_t>(call.format.levels)));
  }
  if (call.format.nonfinite == Nonfinite::error && call.format.levels != Levels::none) {
    return fail(GQSGD_UNSUPPORTED,
                "nonfinite=error needs a host that checks values before codes move, which calls "
                "on a stream do not; use nonfinite=poison, which returns NaN instead");
  }
  return Status();
}

/** Null where this rank has nothing to read or to write. */
Status check_place(const StreamGroup& group, const char* name, const void* pointer,
                   uint64_t value_count) {
  if (pointer == nullptr || value_count == 0) return Status();
  MemoryKind kind = MemoryKind::host;
  GQ_TRY(group.device().memory_kind(pointer, &kind));
  if (kind == MemoryKind::device) return Status();
  return fail(GQSGD_INVALID_ARGUMENT,
              "%s is %p, which is memory of %s; this communicator works on memory of %s device %d",
              name, pointer, kind == MemoryKind::host ? "the host" : "another device",
              group.device().name, group.transport().ordinal());
}

}  // namespace

Status check_call(const StreamGroup& group, const Call& call) {
  GQ_TRY(check_kind(call));
  GQ_TRY(check_place(group, "config.device_step", call.step_at, 2));
  if (call.segments == nullptr) {
    GQ_TRY(check_place(group, "send", call.send, call.value_count));
    return check_place(group, "recv", call.recv, call.value_count);
  }
  for (size_t k = 0; k < call.segments->parts.size(); ++k) {
    const uint64_t value_count = call.segments->parts[k].value_count;
    GQ_TRY(check_place(group, "send", call.places->of[k].send, value_count));
    GQ_TRY(check_place(group, "recv", call.places->of[k].recv, value_count));
  }
  return Status();
}

Status check_sums(StreamTransport& transport, const Schedule& schedule) {
  if (!schedule.adds_natively || transport.sums() != nullptr) return Status();
  return fail(GQSGD_UNSUPPORTED,
              "schedule %s is the transport's own allreduce, which on memory of a device is "
              "NCCL's; use another schedule, or auto",
              schedule.name);
}

Status not_captured_yet(const Call& call, const char* why) {
  return fail(GQSGD_UNSUPPORTED,
              "stream %p is being captured, and a call of this kind (%s of %llu values) %s: make "
              "it once more before the capture, so that ranks agree on it and memory is there",
              call.stream, operation_name(call), static_cast<unsigned long long>(call.value_count),
              why);
}

}  // namespace gq
