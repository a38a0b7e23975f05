// Checks of handle, site, format and memory that stages share.
#include "src/api/stages/stage_call.h"

#include <inttypes.h>

#include "src/api/instruction_set.h"
#include "src/api/quantizer/quantizer.h"
#include "src/api/stages/group_stages.h"
#include "src/plan/plan.h"
#include "src/support/names.h"

namespace gq {
namespace {

constexpr uint64_t kFirstValueMax = UINT64_C(1) << 44;  // as in a collective

Status check_site(const gqsgd_site& site) {
  if (site.size < 1 || site.size > kRanksMax || site.rank >= site.size) {
    return fail(GQSGD_INVALID_ARGUMENT,
                "site: rank %" PRIu64 " of size %" PRIu64 "; size is 1 to %u, rank below size",
                site.rank, site.size, kRanksMax);
  }
  if (site.reduction_depth >= site.size && site.reduction_depth > 0) {
    return fail(GQSGD_INVALID_ARGUMENT,
                "site: reduction_depth is %" PRIu64 "; %" PRIu64 " ranks are at most %" PRIu64
                " reductions in a chain",
                site.reduction_depth, site.size, site.size - 1);
  }
  if (site.first_value > kFirstValueMax) {
    return fail(GQSGD_INVALID_ARGUMENT, "site: first_value is %" PRIu64 "; the largest is %" PRIu64,
                site.first_value, kFirstValueMax);
  }
  return check_step(site.step, site.index);
}

/** What the format makes of the site. */
Status check_format(const gqsgd_site& site, const Format& format, const Coding& coding) {
  const uint32_t alignment = value_alignment(coding.block, coding.rotated);
  if (site.first_value % alignment != 0) {
    return fail(GQSGD_INVALID_ARGUMENT,
                "site: first_value is %" PRIu64 "; with block=%u%s it must be a multiple of %u",
                site.first_value, coding.block, coding.rotated ? " and a rotation" : "", alignment);
  }
  const char* field = coding.wide ? nullptr : wide_only_field(format);
  if (field != nullptr) {
    return fail(GQSGD_INVALID_ARGUMENT,
                "site: reduction_depth is %" PRIu64
                ", and %s needs codes that are added by reduce_many; give reduction_depth = 0",
                site.reduction_depth, field);
  }
  if (coding.levels != Levels::linear || coding.steps > 0) return Status();
  return fail(GQSGD_INVALID_ARGUMENT,
              "combine=exact with %d bits has no level left for %" PRIu64
              " ranks; use combine=average, or reduction_depth = 0 and reduce_many",
              static_cast<int>(format.bits), site.size);
}

Status check_memory(const Device& device, const Buffer& buffer) {
  MemoryKind kind;
  GQ_TRY(device.memory_kind(buffer.data, &kind));
  if (kind == MemoryKind::device) return Status();
  return fail(GQSGD_INVALID_ARGUMENT,
              "%s is %p, memory of %s; with a stream it must be memory of the current device%s",
              buffer.name, buffer.data, kind == MemoryKind::host ? "the host" : "another device",
              kind == MemoryKind::host ? "; hint: NULL as stream is for host memory" : "");
}

/** Those of the host, or with a stream those of its device. */
Status choose_stages(void* stream, StageCall* call) {
  if (stream != nullptr) {
    if (!has_device_stages(call->format.levels)) {
      return fail(GQSGD_UNSUPPORTED,
                  "levels=%s has no stages on a device in this version; NULL as stream is for host "
                  "memory",
                  name_in(names_of(kLevelsList), static_cast<size_t>(call->format.levels)));
    }
    GQ_TRY(device_of(stream, &call->device));
    call->stages = call->device->stages;
    call->stream = stream;
    return Status();
  }
  return find_cpu_stages(&call->stages);
}

}  // namespace

Status begin_stage(gqsgd_quantizer quantizer, const gqsgd_site* site, size_t value_count,
                   void* stream, StageCall* call) {
  GQ_TRY(find_format(quantizer, &call->format));
  if (site == nullptr) return fail(GQSGD_INVALID_ARGUMENT, "site is NULL");
  GQ_TRY(check_site(*site));
  GQ_TRY(check_count("value_count", value_count));
  GQ_TRY(check_count("first_value + value_count", site->first_value + value_count));
  call->coding = coding_of(call->format, static_cast<uint32_t>(site->size),
                           static_cast<uint32_t>(site->reduction_depth));
  GQ_TRY(check_format(*site, call->format, call->coding));
  call->random = RandomSite{call->format.seed, static_cast<uint32_t>(site->step),
                            static_cast<uint32_t>(site->index), static_cast<uint32_t>(site->rank),
                            static_cast<uint32_t>(site->hop)};
  call->range = Range{site->first_value, value_count};
  GQ_TRY(choose_stages(stream, call));
  return begin_groups(call);
}

Status StageCall::check(const Buffer& buffer) const {
  GQ_TRY(check_buffer(buffer));
  if (buffer.value_count == 0) return Status();
  return on_device() ? check_memory(*device, buffer) : Status();
}

}  // namespace gq
