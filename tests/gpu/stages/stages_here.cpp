// The stages under test here: scalar, which is the truth, and CUDA's.
#include <stdexcept>

#include "tests/gpu/stages/stages_under_test.h"
#include "tests/unit/kernels/support/stage_calls.h"

namespace gq::test {

const Stages& scalar_stages() {
  const Stages* stages = cpu_stages_named("scalar");
  if (stages == nullptr) throw std::runtime_error("no scalar stages in this build");
  return *stages;
}

std::vector<const Stages*> stages_here() { return {&scalar_stages(), &stages_under_test}; }

}  // namespace gq::test
