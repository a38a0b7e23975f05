// The stages under test in a program with mutations: the scalar ones, compiled with them.
#include "kernels/cpu/tables.h"
#include "tests/unit/kernels/support/stage_calls.h"

namespace gq::test {

std::vector<const Stages*> stages_here() { return {&stages_scalar}; }

const Stages& scalar_stages() { return stages_scalar; }

}  // namespace gq::test
