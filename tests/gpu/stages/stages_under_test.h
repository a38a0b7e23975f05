// The CUDA stages that tests compare with scalar.
#ifndef GQ_TESTS_GPU_STAGES_STAGES_UNDER_TEST_H
#define GQ_TESTS_GPU_STAGES_STAGES_UNDER_TEST_H

#include "kernels/stages.h"

namespace gq::test {

extern const Stages stages_under_test;

}  // namespace gq::test

#endif
