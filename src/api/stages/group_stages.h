// Stages of adaptive widths in the C ABI: whole calls. Norms and scales are in the order of values
// there; stages of a CPU take those of one group at a time.
#ifndef GQ_API_STAGES_GROUP_STAGES_H
#define GQ_API_STAGES_GROUP_STAGES_H

#include "src/api/stages/stage_call.h"

namespace gq {

/** A call with groups begins at value 0; its coding gets its groups, and the stage all of them. */
Status begin_groups(StageCall* call);

// Of adaptive widths, on host memory. Arguments have been checked.
Status quantize_groups(const StageCall& call, const void* values, int32_t dtype,
                       const float* norms, uint32_t* words);
Status reduce_many_groups(const StageCall& call, const uint32_t* const* words, const float* norms,
                          uint32_t* out_words, float* out_scales);
Status dequantize_groups(const StageCall& call, const uint32_t* words, const float* norms,
                         const float* scales, int32_t dtype, int32_t op, void* values);
Status find_group_widths(const StageCall& call, const float* norms, uint8_t* widths);

}  // namespace gq

#endif
