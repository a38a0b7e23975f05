// The declarations by which this library calls UCX: types of its C interface since 1.13, written
// down here so that neither its headers nor its libraries are needed to build. A test compares them
// with ucp.h.
#ifndef GQ_TRANSPORT_UCX_UCX_TYPES_H
#define GQ_TRANSPORT_UCX_UCX_TYPES_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>

namespace gq::ucx {

using Context = struct OpaqueContext*;
using Configuration = struct OpaqueConfiguration*;
using Worker = struct OpaqueWorker*;
using Endpoint = struct OpaqueEndpoint*;
using Address = struct OpaqueAddress*;
using Tag = uint64_t;

/** ucs_status_t, an enumeration of one byte. */
using Result = int8_t;
inline constexpr Result kOk = 0;
inline constexpr Result kInProgress = 1;
inline constexpr Result kIoError = -3;
inline constexpr Result kNoMemory = -4;
inline constexpr Result kUnreachable = -6;
inline constexpr Result kTruncated = -9;
inline constexpr Result kBusy = -15;
inline constexpr Result kCancelled = -16;
inline constexpr Result kSharedMemory = -17;
inline constexpr Result kTimedOut = -20;
inline constexpr Result kRejected = -23;
inline constexpr Result kNotConnected = -24;
inline constexpr Result kConnectionReset = -25;
inline constexpr Result kEndpointTimeout = -80;
inline constexpr Result kLast = -100;

/** What starts something returns: nullptr if it is done, a request, or a Result below 0 as a
 *  pointer. */
using ResultPointer = void*;
inline bool is_failure(ResultPointer pointer) {
  return reinterpret_cast<uintptr_t>(pointer) >= static_cast<uintptr_t>(intptr_t{kLast});
}
inline Result failure_in(ResultPointer pointer) {
  return static_cast<Result>(reinterpret_cast<intptr_t>(pointer));
}

enum ContextField : uint64_t {
  kContextFeatures = 1 << 0,
  kContextTagSenderMask = 1 << 4,
  kContextEndpoints = 1 << 6,
};
enum Feature : uint64_t {
  kFeatureTag = 1 << 0,
  kFeatureWakeup = 1 << 4,
  kFeatureActiveMessages = 1 << 6,
};

struct ContextParameters {
  uint64_t field_mask;
  uint64_t features;
  size_t request_size;
  void (*request_init)(void*);
  void (*request_cleanup)(void*);
  uint64_t tag_sender_mask;
  int mt_workers_shared;
  size_t estimated_num_eps;
  size_t estimated_num_ppn;
  const char* name;
};

enum WorkerField : uint64_t { kWorkerThreadMode = 1 << 0, kWorkerFlags = 1 << 5 };
inline constexpr int kThreadsSerialized = 1;
inline constexpr uint64_t kIgnoreRequestLeak = 1 << 0;

struct WorkerParameters {
  uint64_t field_mask;
  int thread_mode;
  unsigned long cpu_mask[1024 / (8 * sizeof(unsigned long))];
  unsigned events;
  void* user_data;
  int event_fd;
  uint64_t flags;
  const char* name;
  size_t am_alignment;
  uint64_t client_id;
};

enum EndpointField : uint64_t {
  kEndpointAddress = 1 << 0,
  kEndpointErrorMode = 1 << 1,
  kEndpointErrorHandler = 1 << 2,
};
inline constexpr int kErrorModeNone = 0;
inline constexpr int kErrorModePeer = 1;

using ErrorCallback = void (*)(void* argument, Endpoint endpoint, Result status);

struct ErrorHandler {
  ErrorCallback callback;
  void* argument;
};

struct SocketAddress {
  const sockaddr* address;
  socklen_t address_bytes;
};

struct EndpointParameters {
  uint64_t field_mask;
  const OpaqueAddress* address;
  int err_mode;
  ErrorHandler err_handler;
  void* user_data;
  unsigned flags;
  SocketAddress sockaddr;
  void* conn_request;
  const char* name;
  SocketAddress local_sockaddr;
};

enum HandlerField : uint64_t { kHandlerId = 1 << 0, kHandlerCallback = 1 << 2 };

using ActiveMessageCallback = Result (*)(void* argument, const void* header, size_t header_bytes,
                                         void* bytes, size_t size_bytes, const void* parameters);

struct HandlerParameters {
  uint64_t field_mask;
  unsigned id;
  uint32_t flags;
  ActiveMessageCallback cb;
  void* arg;
};

struct TagInfo {
  Tag sender_tag;
  size_t length;
};

enum OperationField : uint32_t {
  kOperationCallback = 1 << 1,
  kOperationUserData = 1 << 2,
  kOperationFlags = 1 << 4,
  kOperationMemoryType = 1 << 6,
  kOperationNotAtOnce = 1 << 16,
};
inline constexpr uint32_t kCloseForce = 1 << 0;
inline constexpr int kMemoryHost = 0;

using SendCallback = void (*)(void* request, Result status, void* user_data);
using ReceiveCallback = void (*)(void* request, Result status, const TagInfo* info,
                                 void* user_data);

struct OperationParameters {
  uint32_t op_attr_mask;
  uint32_t flags;
  void* request;
  union {
    SendCallback send;
    ReceiveCallback recv;
  } cb;
  uint64_t datatype;
  void* user_data;
  void* reply_buffer;
  int memory_type;
  union {
    size_t* length;
    TagInfo* tag_info;
  } recv_info;
  void* memh;
};

inline constexpr unsigned kMajor = 1;
inline constexpr unsigned kMinorMin = 13;

// X(member, symbol, result, arguments): what is needed of every library.
#define GQ_UCX_FUNCTIONS(X)                                                                      \
  X(get_version, ucp_get_version, void, (unsigned* major, unsigned* minor, unsigned* release))   \
  X(status_string, ucs_status_string, const char*, (Result status))                              \
  X(config_read, ucp_config_read, Result,                                                        \
    (const char* prefix, const char* file, Configuration* config))                               \
  X(config_modify, ucp_config_modify, Result,                                                    \
    (Configuration config, const char* name, const char* value))                                 \
  X(config_release, ucp_config_release, void, (Configuration config))                            \
  X(init, ucp_init_version, Result,                                                              \
    (unsigned api_major, unsigned api_minor, const ContextParameters* parameters,                \
     const OpaqueConfiguration* config, Context* context))                                       \
  X(cleanup, ucp_cleanup, void, (Context context))                                               \
  X(worker_create, ucp_worker_create, Result,                                                    \
    (Context context, const WorkerParameters* parameters, Worker* worker))                       \
  X(worker_destroy, ucp_worker_destroy, void, (Worker worker))                                   \
  X(worker_get_address, ucp_worker_get_address, Result,                                          \
    (Worker worker, Address * address, size_t * size_bytes))                                     \
  X(worker_release_address, ucp_worker_release_address, void, (Worker worker, Address address))  \
  X(worker_progress, ucp_worker_progress, unsigned, (Worker worker))                             \
  X(worker_get_efd, ucp_worker_get_efd, Result, (Worker worker, int* descriptor))                \
  X(worker_arm, ucp_worker_arm, Result, (Worker worker))                                         \
  X(worker_set_handler, ucp_worker_set_am_recv_handler, Result,                                  \
    (Worker worker, const HandlerParameters* parameters))                                        \
  X(ep_create, ucp_ep_create, Result,                                                            \
    (Worker worker, const EndpointParameters* parameters, Endpoint* endpoint))                   \
  X(ep_close, ucp_ep_close_nbx, ResultPointer,                                                   \
    (Endpoint endpoint, const OperationParameters* parameters))                                  \
  X(ep_flush, ucp_ep_flush_nbx, ResultPointer,                                                   \
    (Endpoint endpoint, const OperationParameters* parameters))                                  \
  X(ep_print_info, ucp_ep_print_info, void, (Endpoint endpoint, FILE * stream))                  \
  X(active_message_send, ucp_am_send_nbx, ResultPointer,                                         \
    (Endpoint endpoint, unsigned id, const void* header, size_t header_bytes, const void* bytes, \
     size_t count, const OperationParameters* parameters))                                       \
  X(tag_send, ucp_tag_send_nbx, ResultPointer,                                                   \
    (Endpoint endpoint, const void* bytes, size_t count, Tag tag,                                \
     const OperationParameters* parameters))                                                     \
  X(tag_send_sync, ucp_tag_send_sync_nbx, ResultPointer,                                         \
    (Endpoint endpoint, const void* bytes, size_t count, Tag tag,                                \
     const OperationParameters* parameters))                                                     \
  X(tag_receive, ucp_tag_recv_nbx, ResultPointer,                                                \
    (Worker worker, void* bytes, size_t count, Tag tag, Tag mask,                                \
     const OperationParameters* parameters))                                                     \
  X(request_free, ucp_request_free, void, (void* request))

}  // namespace gq::ucx

#endif
