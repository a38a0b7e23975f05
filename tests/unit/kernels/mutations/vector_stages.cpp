// The stages under test in a program with mutations of what only vectors have: compiled with them
// for one instruction set. A machine without it skips.
#include "tests/unit/kernels/mutations/vector_stages.h"

#include <stdlib.h>

#include <string_view>

#include "kernels/cpu/tables.h"
#include "tests/unit/kernels/support/stage_calls.h"

namespace gq::test {

std::vector<const Stages*> stages_here() {
  constexpr int kSkipped = 77;  // to Meson
  const Stages* here = nullptr;
  for (size_t k = 0; const Stages* stages = cpu_stages_here(k); ++k) {
    if (stages->name == std::string_view(GQ_MUTATED_ISA)) here = stages;
  }
  if (here == nullptr) exit(kSkipped);
  return {&stages_mutated};
}

const Stages& scalar_stages() { return stages_scalar; }

}  // namespace gq::test
