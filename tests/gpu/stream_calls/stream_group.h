// The group that a test of calls on streams runs on: the same file is built for ranks over NCCL
// and, with GQ_LOCAL_GROUP, for threads.
#ifndef GQ_TESTS_GPU_STREAM_CALLS_STREAM_GROUP_H
#define GQ_TESTS_GPU_STREAM_CALLS_STREAM_GROUP_H

#include "tests/gpu/nccl/group.h"
#ifdef GQ_LOCAL_GROUP
#include "tests/gpu/streams/local_group.h"
#endif

namespace gq::test {

#ifdef GQ_LOCAL_GROUP
using StreamGroup = LocalGroup;
inline constexpr bool kAgreesOnHost = true;
#else
using StreamGroup = NcclGroup;
inline constexpr bool kAgreesOnHost = false;
#endif

}  // namespace gq::test

#endif
