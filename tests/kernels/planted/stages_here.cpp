// The stages under test in a program with a planted fault: the scalar ones, compiled with it.
#include "kernels/cpu/tables.h"
#include "tests/kernels/stage_calls.h"

namespace gq::test {

std::vector<const Stages*> stages_here() { return {&stages_scalar}; }

const Stages& scalar_stages() { return stages_scalar; }

}  // namespace gq::test
