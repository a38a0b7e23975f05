// The declarations by which this library calls NCCL: types of its C interface since 2.14, written
// down here so that neither its header nor its library is needed to build. A test compares them
// with nccl.h.
#ifndef GQ_TRANSPORT_NCCL_NCCL_TYPES_H
#define GQ_TRANSPORT_NCCL_NCCL_TYPES_H

#include <stddef.h>

namespace gq::nccl {

using Comm = struct OpaqueComm*;
using Stream = void*;  // a cudaStream_t

/** Passed by value. */
struct Id {
  char internal[128];
};

using Result = int;
inline constexpr Result kSuccess = 0;
inline constexpr Result kInvalidArgument = 4;
inline constexpr Result kInProgress = 7;

using DataType = int;
inline constexpr DataType kUint8 = 1;
inline constexpr DataType kUint64 = 5;
inline constexpr DataType kFloat32 = 7;
inline constexpr DataType kBfloat16 = 9;

using ReduceOp = int;
inline constexpr ReduceOp kSum = 0;

/** The configuration of 2.14, which later versions read as such by its size and version. */
struct Config {
  size_t size = sizeof(Config);
  unsigned int magic = 0xcafebeef;
  unsigned int version = 21400;
  int blocking = 0;  ///< 0: calls return at once, and kInProgress until they are through
};

inline constexpr int kVersionMin = 21400;

// X(member, symbol, result, arguments): what is needed of every library.
#define GQ_NCCL_FUNCTIONS(X)                                                             \
  X(get_unique_id, ncclGetUniqueId, Result, (Id * id))                                   \
  X(init, ncclCommInitRankConfig, Result,                                                \
    (Comm * comm, int ranks, Id id, int rank, Config* config))                           \
  X(destroy, ncclCommDestroy, Result, (Comm comm))                                       \
  X(abort, ncclCommAbort, Result, (Comm comm))                                           \
  X(async_error, ncclCommGetAsyncError, Result, (Comm comm, Result * error))             \
  X(count, ncclCommCount, Result, (Comm comm, int* count))                               \
  X(user_rank, ncclCommUserRank, Result, (Comm comm, int* rank))                         \
  X(device, ncclCommCuDevice, Result, (Comm comm, int* device))                          \
  X(error_string, ncclGetErrorString, const char*, (Result result))                      \
  X(last_error, ncclGetLastError, const char*, (Comm comm))                              \
  X(group_start, ncclGroupStart, Result, ())                                             \
  X(group_end, ncclGroupEnd, Result, ())                                                 \
  X(send, ncclSend, Result,                                                              \
    (const void* from, size_t count, DataType type, int peer, Comm comm, Stream stream)) \
  X(receive, ncclRecv, Result,                                                           \
    (void* to, size_t count, DataType type, int peer, Comm comm, Stream stream))         \
  X(all_gather, ncclAllGather, Result,                                                   \
    (const void* own, void* all, size_t count, DataType type, Comm comm, Stream stream)) \
  X(all_reduce, ncclAllReduce, Result,                                                   \
    (const void* from, void* to, size_t count, DataType type, ReduceOp op, Comm comm,    \
     Stream stream))

// The same of what not all versions have: null where it is missing.
#define GQ_NCCL_OPTIONAL_FUNCTIONS(X)                                    \
  X(register_buffer, ncclCommRegister, Result,                           \
    (Comm comm, void* buffer, size_t size_bytes, void** handle))         \
  X(deregister, ncclCommDeregister, Result, (Comm comm, void* handle))   \
  X(allocate, ncclMemAlloc, Result, (void** memory, size_t size_bytes))  \
  X(release, ncclMemFree, Result, (void* memory))

}  // namespace gq::nccl

#endif
