// The stages of the device that tests have: those of a CPU, as work of a stream.
#ifndef GQ_TESTS_SUPPORT_HOST_DEVICE_HOST_STAGES_H
#define GQ_TESTS_SUPPORT_HOST_DEVICE_HOST_STAGES_H

#include "kernels/agreement.h"
#include "kernels/stages.h"

namespace gq::test {

const Stages& host_stages();
const BatchStages& host_batch_stages();
const AgreementStages& host_agreement_stages();

/** Lists of segments that were enqueued so far to be written, or captured. */
uint32_t segment_lists_enqueued();

}  // namespace gq::test

#endif
