// Groups over NCCL that do not form, or lose a rank's call: what ends them, and when.
#ifndef GQ_TESTS_GPU_NCCL_ENDS_H
#define GQ_TESTS_GPU_NCCL_ENDS_H

#include "tests/gpu/nccl_ranks.h"

namespace gq::test {

/** "" or what did not end as it should: a group of two of which one rank comes, and, if `has_two`
 *  ranks can be had, a call that one of them makes until its group is aborted. */
std::string check_nccl_ends(const NcclRanks& setting, bool has_two);

}  // namespace gq::test

#endif
