// Which CPU stages run: the best instruction set of this machine, or the one requested by name.
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/tables.h"

namespace gq {
namespace {

struct Isa {
  const Stages* stages;
  bool (*runs_here)();
};

bool always() { return true; }

#if defined(__x86_64__)
bool has_avx2() { return __builtin_cpu_supports("avx2") != 0; }

bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("popcnt");
}

bool has_avx512vbmi() {
  return has_avx512() && __builtin_cpu_supports("avx512vbmi") &&
         __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("gfni") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}
#endif

/** Best first. */
constexpr Isa kIsas[] = {
#if defined(__x86_64__)
    {&stages_avx512vbmi, has_avx512vbmi},
    {&stages_avx512, has_avx512},
    {&stages_avx2, has_avx2},
#elif defined(__aarch64__)
    {&stages_neon, always},
#endif
    {&stages_scalar, always},
};

}  // namespace

const Stages* cpu_stages_named(const char* name) {
  for (const Isa& isa : kIsas) {
    if (strcmp(isa.stages->name, name) == 0) return isa.runs_here() ? isa.stages : nullptr;
  }
  return nullptr;
}

const Stages* cpu_stages(const char** refused) {
  *refused = nullptr;
  const char* forced = getenv("GQSGD_FORCE_ISA");
  if (forced != nullptr && forced[0] != '\0') {
    const Stages* stages = cpu_stages_named(forced);
    if (stages == nullptr) *refused = forced;
    return stages;
  }
  return cpu_stages_here(0);
}

const Stages* cpu_stages_here(size_t number) {
  for (const Isa& isa : kIsas) {
    if (isa.runs_here() && number-- == 0) return isa.stages;
  }
  return nullptr;
}

}  // namespace gq
