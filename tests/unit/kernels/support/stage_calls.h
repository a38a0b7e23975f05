// Calls one stage on vectors, for tests; and names the stages that tests run on.
#ifndef GQ_TESTS_UNIT_KERNELS_SUPPORT_STAGE_CALLS_H
#define GQ_TESTS_UNIT_KERNELS_SUPPORT_STAGE_CALLS_H

#include <string>
#include <vector>

#include "kernels/codec/random.h"
#include "kernels/stages.h"

namespace gq::test {

/** Every instruction set that runs on this machine, scalar first. */
std::vector<const Stages*> stages_here();

/** The scalar stages, whose code is the definition itself. */
const Stages& scalar_stages();

Coding coding_for(Levels levels, uint8_t bits, Combine combine, uint32_t ranks,
                  uint32_t reduction_depth, Rounding rounding = Rounding::independent);

/** The four formats with codes, reduced in code form by a chain of `combines`. */
std::vector<Coding> code_formats(uint32_t ranks, uint32_t reduction_depth,
                                 Rounding rounding = Rounding::independent);

std::string describe(const Coding& coding);

/** What a stage call needs beside its buffers. */
struct Call {
  const Stages& stages;
  Coding coding;
  RandomSite site = {};
  uint64_t first_value = 0;
};

using Words = std::vector<uint32_t>;
using Floats = std::vector<float>;

Words quantize(const Call& call, const Floats& values, float norm);
Words quantize_elements(const Call& call, const void* values, size_t value_count, int32_t dtype,
                        float norm);
Words reduce(const Call& call, const Words& a, const Words& b, size_t value_count,
             uint32_t weight_a = 1, uint32_t weight_b = 1);
Words reduce_many(const Call& call, const std::vector<Words>& operands, size_t value_count,
                  float norm);
Floats dequantize(const Call& call, const Words& words, size_t value_count, float scale,
                  int32_t op);
void dequantize_elements(const Call& call, const Words& words, size_t value_count, float scale,
                         int32_t op, int32_t dtype, void* values);

uint32_t bits_of(float value);
float float_of(uint32_t bits);

/** Code e of packed words, as its lane. */
uint32_t lane_at(const Words& words, uint32_t bits, size_t e);

/** Finite values up to `norm`, every third of them at an edge: zeros of both signs, denormals, the
 *  norm and its neighbours, levels and halves of them. */
Floats edge_biased_values(uint64_t seed, size_t value_count, float norm);

/** Lanes that ranks could have made: every code of the format, edges more often. */
Words edge_biased_codes(uint64_t seed, size_t value_count, const Coding& coding);

}  // namespace gq::test

#endif
