// The CUDA stages that tests compare with scalar: emulated ones, or those of a device.
#ifndef GQ_TESTS_UNIT_KERNELS_CUDA_STAGES_UNDER_TEST_H
#define GQ_TESTS_UNIT_KERNELS_CUDA_STAGES_UNDER_TEST_H

#include "kernels/numbers.h"
#include "kernels/stages.h"

namespace gq::test {

extern const Stages stages_under_test;
extern const NumberStages numbers_under_test;

}  // namespace gq::test

#endif
