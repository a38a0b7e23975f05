// Numbers to codes and back, also in place: a code is half as long as a number, so a buffer of
// numbers holds its codes twice.
#include "src/api/stages/norm_grid.h"

#include <string.h>

#include "kernels/codec/block_norm.h"

namespace gq {
namespace {

uint16_t code_of(float norm) {
  const uint32_t bits = float_bits(norm);
  if ((bits & kMagnitudeMask) >= kFloatInfinityBits) return kNormCodeNan;
  return bits == kFloatMaxBits ? kNormCodeMax : static_cast<uint16_t>(bits >> 16);
}

/** Buffers hold first codes, then numbers, or the reverse: with memcpy the compiler allows for
 *  that. */
template <typename Value>
Value load(const void* buffer, size_t index) {
  Value value;
  memcpy(&value, static_cast<const unsigned char*>(buffer) + index * sizeof value, sizeof value);
  return value;
}

template <typename Value>
void store(void* buffer, size_t index, Value value) {
  memcpy(static_cast<unsigned char*>(buffer) + index * sizeof value, &value, sizeof value);
}

/** Whether the norms lack what no number on the grid has but the largest, and NaN and infinity: a
 *  sign, or bits of the lower half. */
bool have_codes_alone(const float* norms, size_t norm_count) {
  uint32_t bits = 0;
  for (size_t k = 0; k < norm_count; ++k) bits |= float_bits(norms[k]);
  return (bits & 0x8000ffffu) == 0;
}

}  // namespace

Status check_norm_grid(const char* name, const float* norms, size_t norm_count) {
  constexpr size_t kNormsAtOnce = 32;
  size_t k = 0;
  while (k + kNormsAtOnce <= norm_count && have_codes_alone(norms + k, kNormsAtOnce)) {
    k += kNormsAtOnce;
  }
  for (; k < norm_count; ++k) {
    const uint32_t bits = float_bits(norms[k]);
    const bool poisoned = (bits & kMagnitudeMask) >= kFloatInfinityBits;
    if (poisoned || float_bits(norm_from_code(code_of(norms[k]))) == bits) continue;
    return fail(GQSGD_INVALID_ARGUMENT,
                "%s[%zu] is %.9g, which no norm of a block is: those have 7 bits behind the point "
                "and no sign; pass on what gqsgd_norm and gqsgd_reduce_many write",
                name, k, static_cast<double>(norms[k]));
  }
  return Status();
}

void codes_from_norms(const float* norms, size_t norm_count, uint16_t* codes) {
  for (size_t k = 0; k < norm_count; ++k) store(codes, k, code_of(load<float>(norms, k)));
}

void norms_from_codes(const uint16_t* codes, size_t norm_count, float* norms, CodesAt codes_at) {
  for (size_t i = 0; i < norm_count; ++i) {
    // Towards the codes that are still to be read: number k lies over codes 2 k and 2 k + 1.
    const size_t k = codes_at == CodesAt::kHead ? norm_count - 1 - i : i;
    store(norms, k, norm_from_code(load<uint16_t>(codes, k)));
  }
}

}  // namespace gq
