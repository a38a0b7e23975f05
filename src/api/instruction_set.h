// The CPU stages that a communicator or a stage call uses.
#ifndef GQ_API_INSTRUCTION_SET_H
#define GQ_API_INSTRUCTION_SET_H

#include "kernels/stages.h"
#include "src/support/status.h"

namespace gq {

/** The fastest that run here, or those that GQSGD_FORCE_ISA names. UNSUPPORTED, with the names that
 *  it may have, if it names none of them. */
Status find_cpu_stages(const Stages** stages);

}  // namespace gq

#endif
