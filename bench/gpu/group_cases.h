// Stages of formats whose values are in groups: adaptive widths and Rice codes, on whole calls.
#ifndef GQ_BENCH_GPU_GROUP_CASES_H
#define GQ_BENCH_GPU_GROUP_CASES_H

#include <vector>

#include "bench/gpu/cases.h"

namespace gq::bench {

/** Their operands are the codes of `buffers`' values, encoded once. */
std::vector<GpuCase> adaptive_cases(GpuBuffers& buffers);
std::vector<GpuCase> rice_cases(GpuBuffers& buffers);

}  // namespace gq::bench

#endif
