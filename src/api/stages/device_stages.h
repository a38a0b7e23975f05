// Stages on device memory: what they need beyond the host's, where norms cannot be looked at and
// arrays of pointers must be on the device.
#ifndef GQ_API_STAGES_DEVICE_STAGES_H
#define GQ_API_STAGES_DEVICE_STAGES_H

#include "src/api/stages/stage_call.h"

namespace gq {

/** The caller's scratch memory, on the device. */
struct Workspace {
  void* data;
  size_t size_bytes;
};

/** Enough for every stage of `value_count` values of up to kListedRanks ranks. */
size_t device_workspace_bytes(const Format& format, size_t value_count);

inline constexpr size_t kListedRanks = 1024;

/** Norms or scales as the caller has them. */
inline NormView norms_on_device(const StageCall& call, const float* norms) {
  return call.coding.block == 0 ? NormView{norms, nullptr} : NormView{nullptr, nullptr, norms};
}

/** Buffers have been checked; workspaces are checked here. norms and out_scales may be null where
 *  codes have no norms. */
Status norm_on_device(const StageCall& call, const void* values, int32_t dtype, float* norms,
                      const Workspace& workspace);
Status reduce_many_on_device(const StageCall& call, const uint32_t* const* words,
                             const float* norms, uint32_t* out_words, float* out_scales,
                             const Workspace& workspace);

// Of adaptive widths alone.
Status dequantize_groups_on_device(const StageCall& call, const uint32_t* words, const float* norms,
                                   const float* scales, int32_t dtype, int32_t op, void* values);
Status find_group_widths_on_device(const StageCall& call, const float* norms, uint8_t* widths);

}  // namespace gq

#endif
