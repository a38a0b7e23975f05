// Stages of Rice codes as calls enqueue them, on whole groups of an allreduce: the C ABI has none.
#ifndef GQ_TESTS_GPU_PTX_CHECKS_RICE_CASES_H
#define GQ_TESTS_GPU_PTX_CHECKS_RICE_CASES_H

#include <vector>

#include "bench/gpu/cases.h"

namespace gq::test {

/** Their operands are the codes of `buffers`' values. */
std::vector<bench::GpuCase> rice_cases(bench::GpuBuffers& buffers);

}  // namespace gq::test

#endif
