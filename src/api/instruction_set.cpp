// GQSGD_FORCE_ISA, and what it may be here.
#include "src/api/instruction_set.h"

#include <stdio.h>

#include "src/support/shown.h"

namespace gq {

Status find_cpu_stages(const Stages** stages) {
  const char* refused = nullptr;
  *stages = cpu_stages(&refused);
  if (*stages != nullptr) return Status();
  char names[64] = "";
  size_t used = 0;
  for (size_t i = 0; const Stages* here = cpu_stages_here(i); ++i) {
    used += static_cast<size_t>(
        snprintf(names + used, sizeof names - used, i == 0 ? "%s" : ", %s", here->name));
  }
  return fail(GQSGD_UNSUPPORTED,
              "GQSGD_FORCE_ISA=%s is no instruction set that this library and this machine have; "
              "they have %s",
              Shown(refused).text(), names);
}

}  // namespace gq
