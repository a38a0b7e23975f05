#include "tests/unit/kernels/support/stage_calls.h"

#include <string.h>

#include <cmath>

#include "tests/support/inputs.h"

namespace gq::test {

Coding coding_for(Levels levels, uint8_t bits, Combine combine, uint32_t ranks,
                  uint32_t reduction_depth, Rounding rounding) {
  Format format;
  format.levels = levels;
  format.bits = format.bits_down = bits;
  format.combine = combine;
  format.rounding = rounding;
  return coding_of(format, ranks, reduction_depth);
}

std::vector<Coding> code_formats(uint32_t ranks, uint32_t reduction_depth, Rounding rounding) {
  return {coding_for(Levels::linear, 8, Combine::exact, ranks, reduction_depth, rounding),
          coding_for(Levels::linear, 8, Combine::average, ranks, reduction_depth, rounding),
          coding_for(Levels::linear, 4, Combine::average, ranks, reduction_depth, rounding),
          coding_for(Levels::exponential, 8, Combine::sum, ranks, reduction_depth, rounding),
          coding_for(Levels::exponential, 4, Combine::average, ranks, reduction_depth, rounding)};
}

std::string describe(const Coding& coding) {
  static const char* const kLevels[] = {"linear", "exponential", "none", "bf16", "fp16"};
  static const char* const kCombine[] = {"exact", "sum", "average"};
  static const char* const kRounding[] = {"", " correlated", " nearest"};
  std::string text =
      std::string(kLevels[static_cast<int>(coding.levels)]) + std::to_string(coding.bits) + " " +
      kCombine[static_cast<int>(coding.combine)] + (coding.wide ? " wide" : "") + " ranks " +
      std::to_string(coding.ranks) + " steps " + std::to_string(coding.steps) + " headroom " +
      std::to_string(coding.headroom) + kRounding[static_cast<int>(coding.rounding)];
  if (coding.bits_down != coding.bits) text += " down " + std::to_string(coding.bits_down);
  if (coding.mantissa_bits > 0) text += " mantissa " + std::to_string(coding.mantissa_bits);
  if (coding.block > 0) text += " block " + std::to_string(coding.block);
  if (coding.rescale) text += " rescale";
  if (coding.rounding_down == RoundingDown::subtractive) text += " subtractive";
  if (coding.rotated) text += " rotated";
  return text;
}

namespace {

Words words_of(const Coding& coding, size_t value_count) {
  return Words(words_for(coding.bits, value_count), 0xA5A5A5A5u);
}

Range range_of(const Call& call, size_t value_count) { return {call.first_value, value_count}; }

}  // namespace

Words quantize_elements(const Call& call, const void* values, size_t value_count, int32_t dtype,
                        float norm) {
  Words words = words_of(call.coding, value_count);
  call.stages.quantize({call.coding,
                        call.site,
                        range_of(call, value_count),
                        values,
                        dtype,
                        {&norm, nullptr},
                        words.data(),
                        nullptr});
  return words;
}

Words quantize(const Call& call, const Floats& values, float norm) {
  return quantize_elements(call, values.data(), values.size(), GQSGD_FLOAT32, norm);
}

Words reduce(const Call& call, const Words& a, const Words& b, size_t value_count,
             uint32_t weight_a, uint32_t weight_b) {
  Words result = b;
  call.stages.reduce({call.coding, call.site, range_of(call, value_count), weight_a, weight_b,
                      a.data(), result.data(), nullptr});
  return result;
}

Words reduce_many(const Call& call, const std::vector<Words>& operands, size_t value_count,
                  float norm) {
  std::vector<const uint32_t*> pointers;
  for (const Words& words : operands) pointers.push_back(words.data());
  Words result = words_of(call.coding, value_count);
  call.stages.reduce_many({call.coding,
                           call.site,
                           range_of(call, value_count),
                           pointers.data(),
                           {&norm, nullptr},
                           result.data(),
                           nullptr,
                           nullptr});
  return result;
}

void dequantize_elements(const Call& call, const Words& words, size_t value_count, float scale,
                         int32_t op, int32_t dtype, void* values) {
  call.stages.dequantize({call.coding,
                          call.site,
                          range_of(call, value_count),
                          words.data(),
                          {&scale, nullptr},
                          dtype,
                          op,
                          values,
                          nullptr});
}

Floats dequantize(const Call& call, const Words& words, size_t value_count, float scale,
                  int32_t op) {
  Floats values(value_count);
  dequantize_elements(call, words, value_count, scale, op, GQSGD_FLOAT32, values.data());
  return values;
}

uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

uint32_t lane_at(const Words& words, uint32_t bits, size_t e) {
  const size_t per_word = 32 / bits;
  return (words[e / per_word] >> (bits * (e % per_word))) & ((1u << bits) - 1);
}

Floats edge_biased_values(uint64_t seed, size_t value_count, float norm) {
  const float edges[] = {0.0f,       -0.0f,        float_of(1),       float_of(0x007fffff),
                         norm,       -norm,        norm * 0.5f,       -norm * 0.25f,
                         norm / 127, -norm / 7,    norm * 1.5f / 127, norm * 0x1p-63f,
                         norm / 254, -norm / 3,    norm * 0x1p-126f,  -norm * 0x1p-7f,
                         1e-38f,     -norm * 0.75f};
  Floats values(value_count);
  for (size_t e = 0; e < value_count; ++e) {
    const uint64_t draw = mix(seed * 0x10001 + e);
    const double magnitude = uniform_at(seed, e) * std::ldexp(1.0, -static_cast<int>(draw % 12));
    const float random = static_cast<float>(norm * (draw & 0x100 ? magnitude : -magnitude));
    values[e] = draw % 3 == 0 ? edges[(draw >> 16) % (sizeof edges / sizeof edges[0])] : random;
    if (std::fabs(values[e]) > norm) values[e] = norm;
  }
  return values;
}

Words edge_biased_codes(uint64_t seed, size_t value_count, const Coding& coding) {
  const uint32_t top = (1u << (coding.bits - 1)) - 1;
  const uint32_t edges[] = {0, 1, 2, top - 1, top};
  Words words(words_for(coding.bits, value_count), 0);
  const uint32_t lane_end = 32 / coding.bits * coding.bits;
  uint32_t* word = words.data();
  uint32_t shift = 0;
  for (size_t e = 0; e < value_count; ++e) {
    const uint64_t draw = mix(seed * 0x20003 + e);
    const uint32_t any = static_cast<uint32_t>(draw >> 32);
    uint32_t lane = draw % 3 == 0 ? edges[(draw >> 8) % 5] : any & top;
    if (coding.levels == Levels::linear) {
      lane =
          draw & 0x10000 ? 2 * coding.steps - lane % (coding.steps + 1) : lane % (coding.steps + 1);
    } else if (lane != 0 && (draw & 0x10000)) {
      lane |= top + 1;
    }
    *word |= lane << shift;
    shift += coding.bits;
    if (shift == lane_end) {
      shift = 0;
      ++word;
    }
  }
  return words;
}

}  // namespace gq::test
