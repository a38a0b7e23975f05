// The tables that stages.cpp defines, one per instruction set of this architecture.
#ifndef GQ_KERNELS_CPU_TABLES_H
#define GQ_KERNELS_CPU_TABLES_H

#include "kernels/stages.h"

namespace gq {

extern const Stages stages_scalar;
#if defined(__x86_64__)
extern const Stages stages_avx2;
extern const Stages stages_avx512;
extern const Stages stages_avx512vbmi;
#elif defined(__aarch64__)
extern const Stages stages_neon;
#endif

}  // namespace gq

#endif
