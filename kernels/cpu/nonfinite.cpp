// Finds NaN and infinity among values in host memory: a plain scan, on an error path that may be
// slow.
#include <string.h>

#include "kernels/stages.h"

namespace gq {
namespace {

bool is_nonfinite(const unsigned char* value, int32_t dtype) {
  if (dtype == GQSGD_FLOAT64) {
    double wide;
    memcpy(&wide, value, sizeof wide);
    const float narrow = static_cast<float>(wide);
    return !(narrow - narrow == 0);
  }
  if (dtype == GQSGD_FLOAT32) {
    float single;
    memcpy(&single, value, sizeof single);
    return !(single - single == 0);
  }
  uint16_t half;
  memcpy(&half, value, sizeof half);
  const uint16_t exponent = dtype == GQSGD_FLOAT16 ? 0x7c00 : 0x7f80;
  return (half & exponent) == exponent;
}

}  // namespace

NonfiniteSite find_nonfinite(const void* values, uint64_t value_count, int32_t dtype) {
  const unsigned char* bytes = static_cast<const unsigned char*>(values);
  const uint32_t value_bytes = dtype_size_bytes(dtype);
  NonfiniteSite site;
  for (uint64_t i = 0; i < value_count; ++i) {
    if (!is_nonfinite(bytes + i * value_bytes, dtype)) continue;
    if (site.value_count == 0) site.first_value = i;
    ++site.value_count;
  }
  return site;
}

}  // namespace gq
