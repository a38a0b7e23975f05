// Before everything in kernels/cpu/stages.cpp, as a program with mutations compiles it.
#ifndef GQ_TESTS_UNIT_KERNELS_MUTATIONS_VECTOR_STAGES_H
#define GQ_TESTS_UNIT_KERNELS_MUTATIONS_VECTOR_STAGES_H

#include "kernels/stages.h"
#include "tests/support/mutation.h"

namespace gq {

extern const Stages stages_mutated;

}  // namespace gq

#endif
