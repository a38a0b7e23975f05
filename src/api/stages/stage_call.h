// What every stage of the C ABI begins with: format, coding, random site, the table that runs it
// and the memory that it works on.
#ifndef GQ_API_STAGES_STAGE_CALL_H
#define GQ_API_STAGES_STAGE_CALL_H

#include "include/gqsgd_stages.h"
#include "kernels/codec/groups.h"
#include "kernels/stages.h"
#include "src/api/check.h"
#include "src/gpu/device/device.h"

namespace gq {

struct StageCall {
  Format format;
  Coding coding;
  RandomSite random;
  Range range;
  const Stages* stages = nullptr;
  const Device* device = nullptr;  ///< null: memory is the host's
  void* stream = nullptr;
  GroupedValues grouped;  ///< adaptive widths, Rice codes
  uint64_t first_group = 0, group_count = 0;  ///< the groups that the stage works on

  bool on_device() const { return device != nullptr; }

  /** What stages of a device take: whole groups where there are any. */
  Range device_range() const {
    if (!coding.grouped()) return range;
    const uint64_t first_value = first_group * grouped.groups.group_values;
    return {first_value, static_cast<size_t>(grouped_count()), {}, &grouped};
  }
  /** Values of the stage's groups, with places for those that a group lacks. */
  uint64_t grouped_count() const { return group_count * grouped.groups.group_values; }

  /** As check_buffer, and memory of the kind that the stage works on. */
  Status check(const Buffer& buffer) const;

  Buffer words(const char* name, const void* data) const {
    return packed(name, data, coding.packing());
  }
  /** What reduce_many writes; the same words after reductions in code form. */
  Buffer result_words(const char* name, const void* data) const {
    return packed(name, data, coding.packing_down());
  }
  Buffer norms(const char* name, const float* data) const {
    return {name, data, norm_count(), sizeof(float)};
  }
  size_t norm_count() const {
    return static_cast<size_t>(gq::norm_count(coding.block, coding.rotated, range.value_count));
  }

 private:
  Buffer packed(const char* name, const void* data, const Packing& packing) const {
    const uint64_t codes = coding.grouped() ? grouped_count()
                                            : code_count(coding.rotated, range.value_count);
    return {name, data, static_cast<size_t>(words_for(packing, codes)), sizeof(uint32_t)};
  }
};

/** Checks handle, site and stream. */
Status begin_stage(gqsgd_quantizer quantizer, const gqsgd_site* site, size_t value_count,
                   void* stream, StageCall* call);

}  // namespace gq

#endif
