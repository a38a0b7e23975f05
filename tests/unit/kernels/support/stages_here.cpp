// The stages under test: all that this machine runs.
#include <stdexcept>

#include "tests/unit/kernels/support/stage_calls.h"

namespace gq::test {

std::vector<const Stages*> stages_here() {
  std::vector<const Stages*> here;
  for (size_t k = 0; const Stages* stages = cpu_stages_here(k); ++k) here.push_back(stages);
  return here;
}

const Stages& scalar_stages() {
  const Stages* stages = cpu_stages_named("scalar");
  if (stages == nullptr) throw std::runtime_error("no scalar stages in this build");
  return *stages;
}

}  // namespace gq::test
