// Inputs from a hash, and the two 16-bit formats by hand, as C++20 has no type for them.
#include "bench/perf/elements.h"

#include <gqsgd.h>

#include <cmath>
#include <cstring>

namespace gq::bench {
namespace {

uint64_t mix(uint64_t x) {  // the finaliser of SplitMix64
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

/** The sum of four 16-bit uniforms, centred and scaled to variance 1. */
double nearly_normal(uint64_t word) {
  double sum = 0;
  for (int part = 0; part < 4; ++part) sum += static_cast<double>((word >> (16 * part)) & 0xffff);
  return (sum / 65535 - 2) * 1.7320508;
}

template <typename Element>
void store(void* values, size_t element, Element value) {
  std::memcpy(static_cast<Element*>(values) + element, &value, sizeof value);
}

template <typename Element>
Element load(const void* values, size_t element) {
  Element value;
  std::memcpy(&value, static_cast<const Element*>(values) + element, sizeof value);
  return value;
}

uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// To 16 bits by cutting, and without float16's denormals: inputs only have to be some numbers.
uint16_t to_bfloat16(float value) { return static_cast<uint16_t>(bits_of(value) >> 16); }

uint16_t to_float16(float value) {
  const uint32_t bits = bits_of(value);
  const uint32_t exponent = (bits >> 23) & 0xff;
  if (exponent <= 127 - 15) return 0;
  const uint32_t magnitude = ((exponent - 127 + 15) << 10) | ((bits >> 13) & 0x3ff);
  return static_cast<uint16_t>((bits >> 16 & 0x8000) | magnitude);
}

double from_bfloat16(uint16_t bits) {
  const uint32_t wide = uint32_t{bits} << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

double from_float16(uint16_t bits) {
  const int exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
  if (exponent == 31) return fraction ? NAN : (bits >> 15 ? -INFINITY : INFINITY);
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 1024, exponent - 25);
  return bits >> 15 ? -magnitude : magnitude;
}

}  // namespace

double input_value(int rank, uint64_t element) {
  const uint64_t own = mix(element ^ mix(static_cast<uint64_t>(rank) + 1));
  return 0.5 * nearly_normal(mix(element)) + nearly_normal(own);
}

void fill_inputs(int rank, size_t value_count, int32_t dtype, void* values) {
  for (size_t e = 0; e < value_count; ++e) {
    const double value = input_value(rank, e);
    const float single = static_cast<float>(value);
    switch (dtype) {
      case GQSGD_FLOAT64:
        store(values, e, value);
        break;
      case GQSGD_FLOAT16:
        store(values, e, to_float16(single));
        break;
      case GQSGD_BFLOAT16:
        store(values, e, to_bfloat16(single));
        break;
      default:
        store(values, e, single);
    }
  }
}

double value_at(const void* values, size_t element, int32_t dtype) {
  switch (dtype) {
    case GQSGD_FLOAT64:
      return load<double>(values, element);
    case GQSGD_FLOAT16:
      return from_float16(load<uint16_t>(values, element));
    case GQSGD_BFLOAT16:
      return from_bfloat16(load<uint16_t>(values, element));
    default:
      return load<float>(values, element);
  }
}

}  // namespace gq::bench
