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
  GroupedValues grouped;  ///< adaptive widths, on a device

  bool on_device() const { return device != nullptr; }

  /** What stages of a device take: all groups where widths are adaptive. */
  Range device_range() const {
    if (!coding.adaptive()) return range;
    return {0, static_cast<size_t>(grouped.groups.padded_count()), {}, &grouped};
  }

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
    const uint64_t codes =
        coding.adaptive()
            ? interleaved_groups(range.value_count, coding.mean_half_bits, coding.ranks)
                  .padded_count()
            : code_count(coding.rotated, range.value_count);
    return {name, data, static_cast<size_t>(words_for(packing, codes)), sizeof(uint32_t)};
  }
};

/** Checks handle, site and stream. */
Status begin_stage(gqsgd_quantizer quantizer, const gqsgd_site* site, size_t value_count,
                   void* stream, StageCall* call);

}  // namespace gq

#endif
