// Values and digests by integer arithmetic, so that no bit of them depends on the machine.
#include "src/api/verify/verify_cases.h"

#include <string.h>

#include "kernels/stages.h"
#include "src/support/names.h"

namespace gq {
namespace {

/** splitmix64. */
uint64_t mixed(uint64_t state) {
  state += 0x9e3779b97f4a7c15u;
  state = (state ^ state >> 30) * 0xbf58476d1ce4e5b9u;
  state = (state ^ state >> 27) * 0x94d049bb133111ebu;
  return state ^ state >> 31;
}

/** The type's bits of mantissa, and the exponent field of 1. */
struct Layout {
  uint32_t mantissa_bits;
  uint64_t bias;
};

Layout layout_of(gqsgd_dtype dtype) {
  switch (dtype) {
    case GQSGD_FLOAT64:
      return {52, 1023};
    case GQSGD_FLOAT16:
      return {10, 15};
    case GQSGD_BFLOAT16:
      return {7, 127};
    default:
      return {23, 127};
  }
}

/** Sign and mantissa at random, exponents within 8 of each other, below 2 in magnitude. */
uint64_t pattern_of(gqsgd_dtype dtype, uint64_t random) {
  const Layout layout = layout_of(dtype);
  const uint64_t sign = random >> 63 << (8 * dtype_size_bytes(dtype) - 1);
  const uint64_t exponent = layout.bias - (random >> 56 & 7);
  const uint64_t mantissa = random & ((uint64_t{1} << layout.mantissa_bits) - 1);
  return sign | exponent << layout.mantissa_bits | mantissa;
}

}  // namespace

std::string verify_name(uint32_t number) {
  const VerifyCase& one = kVerifyCases[number];
  return std::string(one.preset) + ", " + kScheduleList[one.schedule] + ", " +
         kDtypeList[one.dtype];
}

gqsgd_op verify_op(uint32_t number) { return number % 2 == 0 ? GQSGD_SUM : GQSGD_MEAN; }

gqsgd_config verify_config(uint32_t number) {
  gqsgd_config config = GQSGD_CONFIG_INIT;
  config.schedule = kVerifyCases[number].schedule;
  config.step_source = GQSGD_STEP_GIVEN;
  config.step = number;
  return config;
}

// A pattern is the first bytes of a little-endian number: the library is for such machines.
std::vector<unsigned char> verify_values(uint32_t number, uint32_t rank) {
  const VerifyCase& one = kVerifyCases[number];
  const size_t size_bytes = dtype_size_bytes(one.dtype);
  std::vector<unsigned char> values(kVerifyValueCount * size_bytes);
  const uint64_t key = mixed(uint64_t{number} << 32 | rank);
  for (size_t k = 0; k < kVerifyValueCount; ++k) {
    const uint64_t random = mixed(key + k);
    if (one.schedule == GQSGD_SCHEDULE_SPARSE && (random >> 59 & 15) != 0) continue;
    const uint64_t pattern = pattern_of(one.dtype, random);
    memcpy(&values[k * size_bytes], &pattern, size_bytes);
  }
  return values;
}

uint64_t verify_digest(gqsgd_dtype dtype, const std::vector<unsigned char>& values) {
  const size_t size_bytes = dtype_size_bytes(dtype);
  uint64_t digest = 0;
  for (size_t k = 0; k < values.size() / size_bytes; ++k) {
    uint64_t pattern = 0;
    memcpy(&pattern, &values[k * size_bytes], size_bytes);
    digest += (2 * k + 1) * pattern;
  }
  return digest;
}

}  // namespace gq
