// The caller's floating-point state: results do not depend on it, and it comes back.
#include <gtest/gtest.h>
#include <string.h>

#include <cstdlib>

#include "tests/unit/kernels/support/stage_calls.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace gq::test {
namespace {

#if defined(__x86_64__)
using State = unsigned;  // MXCSR
constexpr State kAllMasked = 0x1f80, kUnderflowFlag = 0x0010;
constexpr State kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040;
constexpr State kRoundDown = 0x2000, kRoundUp = 0x4000;
constexpr State kStates[] = {kAllMasked | kFlushToZero | kDenormalsAreZero, kAllMasked | kRoundUp,
                             kAllMasked | kRoundDown | kFlushToZero | kUnderflowFlag};

State read_state() { return _mm_getcsr(); }
void write_state(State state) { _mm_setcsr(state); }
#elif defined(__aarch64__)
using State = uint64_t;  // FPCR
constexpr State kFlushToZero = 1 << 24, kDefaultNan = 1 << 25;
constexpr State kRoundDown = 2 << 22, kRoundUp = 1 << 22;
constexpr State kStates[] = {kFlushToZero, kRoundUp, kRoundDown | kFlushToZero | kDefaultNan};

State read_state() {
  State state;
  asm volatile("mrs %0, fpcr" : "=r"(state) : : "memory");
  return state;
}

void write_state(State state) { asm volatile("msr fpcr, %0" : : "r"(state) : "memory"); }
#endif

constexpr size_t kValues = 3000;

/** Inputs of one norm, made in the plain state. */
struct Inputs {
  float norm;
  Floats a = edge_biased_values(1, kValues, norm);
  Floats b = edge_biased_values(2, kValues, norm);
};

/** Everything that the stages compute from the inputs; no arithmetic of its own. */
std::vector<uint32_t> all_results(const Stages& stages, const Inputs& in) {
  std::vector<uint32_t> results;
  const auto keep = [&](const void* data, size_t word_count) {
    const auto* words = static_cast<const uint32_t*>(data);
    results.insert(results.end(), words, words + word_count);
  };
  for (const uint32_t reduction_depth : {0u, 2u}) {
    for (const Coding& coding : code_formats(3, reduction_depth)) {
      const Call call{stages, coding};
      const Words a = quantize(call, in.a, in.norm), b = quantize(call, in.b, in.norm);
      const Words merged = coding.wide ? reduce_many(call, {a, b, a}, kValues, in.norm)
                                       : reduce(call, a, b, kValues, 2, 1);
      keep(merged.data(), merged.size());
      keep(dequantize(call, merged, kValues, in.norm, GQSGD_MEAN).data(), kValues);
      std::vector<uint16_t> halves(kValues);
      dequantize_elements(call, merged, kValues, in.norm, GQSGD_SUM, GQSGD_FLOAT16, halves.data());
      keep(halves.data(), kValues / 2);
    }
  }
  for (const NormOrder q : {NormOrder::inf, NormOrder::one, NormOrder::two}) {
    uint64_t out = 0;
    stages.norm({q, 0, false, {}, {0, kValues}, in.a.data(), GQSGD_FLOAT32, &out, nullptr});
    keep(&out, 2);
  }
  return results;
}

TEST(Environment, EveryState_ChangesPlainArithmetic) {
  const State before = read_state();
  volatile float dividend = 0x1p-131f, divisor = 3;  // 87381 and a third of the smallest denormal
  const volatile float nearest = dividend / divisor;
  for (const State state : kStates) {
    write_state(state);
    const volatile float quotient = dividend / divisor;
    write_state(before);
    EXPECT_NE(bits_of(quotient), bits_of(nearest)) << state;
  }
}

TEST(Environment, StatesOfTheCaller_ChangeNoResult_Restored) {
  const State before = read_state();
  for (const Stages* stages : stages_here()) {
    for (const float norm : {0.1f, 0x1p-135f, 0x1.8p127f}) {
      const Inputs inputs{norm};
      const std::vector<uint32_t> expected = all_results(*stages, inputs);
      for (const State state : kStates) {
        write_state(state);
        const std::vector<uint32_t> results = all_results(*stages, inputs);
        const State after = read_state();
        write_state(before);
        EXPECT_EQ(after, state) << stages->name;
        EXPECT_TRUE(results == expected) << stages->name << " norm " << norm << " state " << state;
      }
    }
  }
}

TEST(Environment, DenormalNorms_WithoutFlushing_Work) {
  const float norm = float_of(1000);  // 1000 * 2^-149: a step of 8 or so units
  for (const Stages* stages : stages_here()) {
    Floats values(100);
    for (uint32_t e = 0; e < 100; ++e) values[e] = float_of(10 * e);
    const Call call{*stages, coding_for(Levels::linear, 8, Combine::average, 1, 0)};
    const Floats decoded = dequantize(call, quantize(call, values, norm), 100, norm, GQSGD_MEAN);
    for (uint32_t e = 0; e < 100; ++e) {
      // One step of rounding, and a step that is itself rounded to whole units: up to 127 / 2.
      EXPECT_LE(std::abs(static_cast<int>(bits_of(decoded[e])) - static_cast<int>(10 * e)), 8 + 64)
          << stages->name << " value " << e;
    }
  }
}

}  // namespace
}  // namespace gq::test
