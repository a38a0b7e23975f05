// Norms inside a rank: what one value contributes, and the order in which sums are formed
// (docs/FORMAT.md, section 4). How the ranks' norms become one: global_norm.h.
#ifndef GQ_KERNELS_CODEC_NORM_H
#define GQ_KERNELS_CODEC_NORM_H

#include "kernels/codec/formats.h"
#include "kernels/codec/scale.h"

namespace gq {

/** Sums are formed per group of this many values, in lanes that are added by halving at its end. */
inline constexpr uint32_t kNormGroupValues = 65536;
inline constexpr uint32_t kNormLanes = 1024;

/** Groups that `code_count` values from first_value on belong to. */
GQ_HD constexpr uint64_t norm_group_count(uint64_t first_value, uint64_t code_count) {
  if (code_count == 0) return 0;
  return (first_value + code_count - 1) / kNormGroupValues - first_value / kNormGroupValues + 1;
}

/** For q = inf magnitudes are compared as integers: NaN > infinity > finite, whatever the order. */
GQ_HD uint32_t magnitude_bits(float value) { return float_bits(value) & kMagnitudeMask; }

/** What a value adds to its lane for q = 1 or 2. */
GQ_HD double norm_term(NormOrder q, float value) {
  const double wide = value;
  return q == NormOrder::two ? wide * wide : wide < 0 ? -wide : wide;
}

}  // namespace gq

#endif
