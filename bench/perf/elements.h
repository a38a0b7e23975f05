// Buffers of any element type of the C ABI, for inputs and for judging results; no timing.
#ifndef GQ_BENCH_PERF_ELEMENTS_H
#define GQ_BENCH_PERF_ELEMENTS_H

#include <cstddef>
#include <cstdint>

namespace gq::bench {

/** Value `element` of rank `rank`: half of it common to all ranks, nearly normal, the same in every
 *  run and known to every process. */
double input_value(int rank, uint64_t element);

/** Writes the inputs of a rank as `dtype`. */
void fill_inputs(int rank, size_t value_count, int32_t dtype, void* values);

/** Reads element `element` of a buffer. */
double value_at(const void* values, size_t element, int32_t dtype);

}  // namespace gq::bench

#endif
