// Stages of Rice codes in the C ABI, on host memory: groups of a call one after the other.
// Arguments have been checked.
#ifndef GQ_API_STAGES_RICE_STAGES_H
#define GQ_API_STAGES_RICE_STAGES_H

#include "src/api/stages/stage_call.h"

namespace gq {

// Each allocates the values of a group, and fails with NO_MEMORY before it has written anything.
Status quantize_rice(const StageCall& call, const void* values, int32_t dtype, uint32_t* words);
Status reduce_many_rice(const StageCall& call, const uint32_t* const* words, uint32_t* out_words);
Status dequantize_rice(const StageCall& call, const uint32_t* words, int32_t dtype, int32_t op,
                       void* values);

}  // namespace gq

#endif
