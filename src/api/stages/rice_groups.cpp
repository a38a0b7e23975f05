// The functions of the C ABI for some groups of a call of Rice codes: what an owner has of it.
#include <inttypes.h>

#include "src/api/call_scope.h"
#include "src/api/stages/device_stages.h"
#include "src/api/stages/rice_stages.h"
#include "src/api/stages/stage_call.h"

namespace gq {
namespace {

Status begin_rice(gqsgd_quantizer quantizer, const gqsgd_site* site, size_t value_count,
                  void* stream, const char* function, StageCall* call) {
  GQ_TRY(begin_stage(quantizer, site, value_count, stream, call));
  if (call->coding.levels == Levels::rice) return Status();
  return fail(GQSGD_INVALID_ARGUMENT,
              "%s is for levels=rice; codes of other levels lie in the order of values, so that a "
              "stage takes any part of a call by first_value",
              function);
}

Status find_groups(gqsgd_quantizer quantizer, const gqsgd_site* site, size_t value_count,
                   size_t* group_count, size_t* codes_size_bytes, size_t* sums_size_bytes) {
  if (group_count == nullptr || codes_size_bytes == nullptr || sums_size_bytes == nullptr) {
    return fail(GQSGD_INVALID_ARGUMENT, "gqsgd_rice_groups: %s is NULL",
                group_count == nullptr        ? "group_count"
                : codes_size_bytes == nullptr ? "codes_size_bytes"
                                              : "sums_size_bytes");
  }
  StageCall call;
  GQ_TRY(begin_rice(quantizer, site, value_count, nullptr, "gqsgd_rice_groups", &call));
  constexpr size_t kPlaneBytes = kPlaneWords * sizeof(uint32_t);
  *group_count = static_cast<size_t>(call.group_count);
  *codes_size_bytes = call.coding.packing().group_planes * kPlaneBytes;
  *sums_size_bytes = call.coding.packing_down().group_planes * kPlaneBytes;
  return Status();
}

Status choose_groups(size_t first_group, size_t group_count, StageCall* call) {
  const uint64_t count = call->group_count;
  if (first_group > count || group_count > count - first_group) {
    return fail(GQSGD_INVALID_ARGUMENT,
                "first_group is %zu and group_count %zu; the call has %" PRIu64
                " groups (gqsgd_rice_groups)",
                first_group, group_count, count);
  }
  call->first_group = first_group;
  call->group_count = group_count;
  return Status();
}

Status reduce_rice(gqsgd_quantizer quantizer, const gqsgd_site* site, const uint32_t* const* words,
                   size_t value_count, size_t first_group, size_t group_count,
                   uint32_t* out_words, const Workspace& workspace, void* stream) {
  StageCall call;
  GQ_TRY(begin_rice(quantizer, site, value_count, stream, "gqsgd_reduce_rice", &call));
  GQ_TRY(choose_groups(first_group, group_count, &call));
  if (words == nullptr) return fail(GQSGD_INVALID_ARGUMENT, "words is NULL");
  const Buffer to = call.result_words("out_words", out_words);
  GQ_TRY(call.check(to));
  for (uint64_t rank = 0; rank < site->size; ++rank) {
    const Buffer from = call.words("words[rank]", words[rank]);
    GQ_TRY(call.check(from));
    GQ_TRY(check_overlap(from, to, false));
  }
  if (call.on_device()) {
    return reduce_many_on_device(call, words, nullptr, out_words, nullptr, workspace);
  }
  return reduce_many_rice(call, words, out_words);
}

}  // namespace
}  // namespace gq

gqsgd_status gqsgd_rice_groups(gqsgd_quantizer quantizer, const gqsgd_site* site,
                               size_t value_count, size_t* group_count, size_t* codes_size_bytes,
                               size_t* sums_size_bytes) {
  return gq::in_call_scope([&] {
    return gq::find_groups(quantizer, site, value_count, group_count, codes_size_bytes,
                           sums_size_bytes);
  });
}

gqsgd_status gqsgd_reduce_rice(gqsgd_quantizer quantizer, const gqsgd_site* site,
                               const uint32_t* const* words, size_t value_count,
                               size_t first_group, size_t group_count, uint32_t* out_words,
                               void* workspace, size_t workspace_size_bytes, void* stream) {
  return gq::in_call_scope([&] {
    return gq::reduce_rice(quantizer, site, words, value_count, first_group, group_count, out_words,
                           {workspace, workspace_size_bytes}, stream);
  });
}
