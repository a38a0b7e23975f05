// Norms and scales of blocks as the C ABI has them: float32 numbers on the grid of the 16-bit codes
// that stages work with.
#ifndef GQ_API_STAGES_NORM_GRID_H
#define GQ_API_STAGES_NORM_GRID_H

#include <stddef.h>
#include <stdint.h>

#include "src/support/status.h"

namespace gq {

/** INVALID_ARGUMENT naming the first number that no code stands for. NaN and infinity poison. */
Status check_norm_grid(const char* name, const float* norms, size_t norm_count);

/** The codes of numbers on the grid. `codes` may begin where `norms` does. */
void codes_from_norms(const float* norms, size_t norm_count, uint16_t* codes);

/** The other way. `codes` may begin where `norms` does (kHead), or end there (kTail). */
enum class CodesAt { kHead, kTail };
void norms_from_codes(const uint16_t* codes, size_t norm_count, float* norms, CodesAt codes_at);

}  // namespace gq

#endif
