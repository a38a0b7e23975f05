// One allreduce of any element type on memory of the device that tests have, and the same by
// virtual ranks, as bytes.
#ifndef GQ_TESTS_GPU_STREAMS_TYPED_CALL_H
#define GQ_TESTS_GPU_STREAMS_TYPED_CALL_H

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/operation.h"

namespace gq::test {

using Bytes = std::vector<uint8_t>;

/** Finite values of a rank. */
Bytes typed_values(gqsgd_dtype dtype, size_t value_count, int rank);

/** "" or how the result of rank `rank` differs from that of virtual ranks. */
std::string compare_typed(gqsgd_comm comm, int rank, int rank_count, const Operation& operation,
                          gqsgd_dtype dtype, size_t value_count);

}  // namespace gq::test

#endif
