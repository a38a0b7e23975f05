// The agreement of ranks as stages on a device compute it, on a CPU.
#ifndef GQ_TESTS_SUPPORT_HOST_DEVICE_HOST_AGREEMENT_H
#define GQ_TESTS_SUPPORT_HOST_DEVICE_HOST_AGREEMENT_H

#include "kernels/agreement.h"

namespace gq::test {

void take_step(const TakeStepArgs& args);
void write_header(const WriteHeaderArgs& args);
void agree(const AgreeArgs& args);
void merge_rank_norms(const MergeRankNormsArgs& args);

/** Whether a rank's header is another one than rank 0's, or a refusal. */
bool headers_differ(const uint32_t* reference, const uint32_t* header, uint32_t compared,
                    uint32_t status_word);
/** Unless there is a report already. */
void report_difference(uint32_t rank, const uint32_t* reference, const uint32_t* differing,
                       Disagreement* out);

}  // namespace gq::test

#endif
