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

/** For q = inf magnitudes are compared as integers: NaN > infinity > finite, whatever the order. */
GQ_HD uint32_t magnitude_bits(float value) { return float_bits(value) & kMagnitudeMask; }

/** What a value adds to its lane for q = 1 or 2. */
GQ_HD double norm_term(NormOrder q, float value) {
  const double wide = value;
  return q == NormOrder::two ? wide * wide : wide < 0 ? -wide : wide;
}

}  // namespace gq

#endif
