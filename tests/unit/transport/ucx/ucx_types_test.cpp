// What ucx_types.h declares is what UCX's own headers declare, where these are installed: the
// compiler compares them.
#include "src/transport/ucx/ucx_types.h"

#include <gtest/gtest.h>

#if __has_include(<ucp/api/ucp.h>)
#define GQ_HAVE_UCX_HEADERS 1
#include <ucp/api/ucp.h>

#include <cstddef>
#include <tuple>
#include <type_traits>

namespace gq::ucx {
namespace {

#define GQ_SAME_FIELD(ours, our_field, theirs, their_field)                   \
  static_assert(offsetof(ours, our_field) == offsetof(theirs, their_field) && \
                sizeof(ours::our_field) == sizeof(theirs::their_field))

GQ_SAME_FIELD(ContextParameters, field_mask, ucp_params_t, field_mask);
GQ_SAME_FIELD(ContextParameters, features, ucp_params_t, features);
GQ_SAME_FIELD(ContextParameters, tag_sender_mask, ucp_params_t, tag_sender_mask);
GQ_SAME_FIELD(ContextParameters, estimated_num_eps, ucp_params_t, estimated_num_eps);
GQ_SAME_FIELD(ContextParameters, name, ucp_params_t, name);
GQ_SAME_FIELD(WorkerParameters, field_mask, ucp_worker_params_t, field_mask);
GQ_SAME_FIELD(WorkerParameters, thread_mode, ucp_worker_params_t, thread_mode);
GQ_SAME_FIELD(WorkerParameters, cpu_mask, ucp_worker_params_t, cpu_mask);
GQ_SAME_FIELD(WorkerParameters, events, ucp_worker_params_t, events);
GQ_SAME_FIELD(WorkerParameters, flags, ucp_worker_params_t, flags);
GQ_SAME_FIELD(WorkerParameters, client_id, ucp_worker_params_t, client_id);
GQ_SAME_FIELD(EndpointParameters, field_mask, ucp_ep_params_t, field_mask);
GQ_SAME_FIELD(EndpointParameters, address, ucp_ep_params_t, address);
GQ_SAME_FIELD(EndpointParameters, err_mode, ucp_ep_params_t, err_mode);
GQ_SAME_FIELD(EndpointParameters, err_handler, ucp_ep_params_t, err_handler);
GQ_SAME_FIELD(EndpointParameters, local_sockaddr, ucp_ep_params_t, local_sockaddr);
GQ_SAME_FIELD(ErrorHandler, callback, ucp_err_handler_t, cb);
GQ_SAME_FIELD(ErrorHandler, argument, ucp_err_handler_t, arg);
GQ_SAME_FIELD(HandlerParameters, field_mask, ucp_am_handler_param_t, field_mask);
GQ_SAME_FIELD(HandlerParameters, id, ucp_am_handler_param_t, id);
GQ_SAME_FIELD(HandlerParameters, flags, ucp_am_handler_param_t, flags);
GQ_SAME_FIELD(HandlerParameters, cb, ucp_am_handler_param_t, cb);
GQ_SAME_FIELD(HandlerParameters, arg, ucp_am_handler_param_t, arg);
GQ_SAME_FIELD(TagInfo, sender_tag, ucp_tag_recv_info_t, sender_tag);
GQ_SAME_FIELD(TagInfo, length, ucp_tag_recv_info_t, length);
GQ_SAME_FIELD(OperationParameters, op_attr_mask, ucp_request_param_t, op_attr_mask);
GQ_SAME_FIELD(OperationParameters, flags, ucp_request_param_t, flags);
GQ_SAME_FIELD(OperationParameters, cb, ucp_request_param_t, cb);
GQ_SAME_FIELD(OperationParameters, user_data, ucp_request_param_t, user_data);
GQ_SAME_FIELD(OperationParameters, memory_type, ucp_request_param_t, memory_type);
GQ_SAME_FIELD(OperationParameters, recv_info, ucp_request_param_t, recv_info);
GQ_SAME_FIELD(OperationParameters, memh, ucp_request_param_t, memh);
// Later versions may add fields at the end, which their bits in field_mask announce.
static_assert(sizeof(ContextParameters) <= sizeof(ucp_params_t));
static_assert(sizeof(WorkerParameters) <= sizeof(ucp_worker_params_t));
static_assert(sizeof(EndpointParameters) <= sizeof(ucp_ep_params_t));
static_assert(sizeof(OperationParameters) <= sizeof(ucp_request_param_t));
static_assert(sizeof(HandlerParameters) <= sizeof(ucp_am_handler_param_t));
static_assert(sizeof(TagInfo) == sizeof(ucp_tag_recv_info_t));

static_assert(sizeof(Result) == sizeof(ucs_status_t) && std::is_signed_v<Result>);
static_assert(kOk == UCS_OK && kInProgress == UCS_INPROGRESS && kIoError == UCS_ERR_IO_ERROR);
static_assert(kNoMemory == UCS_ERR_NO_MEMORY && kUnreachable == UCS_ERR_UNREACHABLE);
static_assert(kTruncated == UCS_ERR_MESSAGE_TRUNCATED && kBusy == UCS_ERR_BUSY);
static_assert(kSharedMemory == UCS_ERR_SHMEM_SEGMENT);
static_assert(kCancelled == UCS_ERR_CANCELED && kTimedOut == UCS_ERR_TIMED_OUT);
static_assert(kRejected == UCS_ERR_REJECTED && kNotConnected == UCS_ERR_NOT_CONNECTED);
static_assert(kConnectionReset == UCS_ERR_CONNECTION_RESET);
static_assert(kEndpointTimeout == UCS_ERR_ENDPOINT_TIMEOUT && kLast == UCS_ERR_LAST);

#define GQ_SAME_NUMBER(ours, theirs) \
  static_assert(static_cast<uint64_t>(ours) == static_cast<uint64_t>(theirs))

GQ_SAME_NUMBER(kContextFeatures, UCP_PARAM_FIELD_FEATURES);
GQ_SAME_NUMBER(kContextTagSenderMask, UCP_PARAM_FIELD_TAG_SENDER_MASK);
GQ_SAME_NUMBER(kContextEndpoints, UCP_PARAM_FIELD_ESTIMATED_NUM_EPS);
GQ_SAME_NUMBER(kFeatureTag, UCP_FEATURE_TAG);
GQ_SAME_NUMBER(kFeatureWakeup, UCP_FEATURE_WAKEUP);
GQ_SAME_NUMBER(kFeatureActiveMessages, UCP_FEATURE_AM);
GQ_SAME_NUMBER(kHandlerId, UCP_AM_HANDLER_PARAM_FIELD_ID);
GQ_SAME_NUMBER(kHandlerCallback, UCP_AM_HANDLER_PARAM_FIELD_CB);
GQ_SAME_NUMBER(kWorkerThreadMode, UCP_WORKER_PARAM_FIELD_THREAD_MODE);
GQ_SAME_NUMBER(kWorkerFlags, UCP_WORKER_PARAM_FIELD_FLAGS);
GQ_SAME_NUMBER(kThreadsSerialized, UCS_THREAD_MODE_SERIALIZED);
GQ_SAME_NUMBER(kIgnoreRequestLeak, UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK);
GQ_SAME_NUMBER(kEndpointAddress, UCP_EP_PARAM_FIELD_REMOTE_ADDRESS);
GQ_SAME_NUMBER(kEndpointErrorMode, UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE);
GQ_SAME_NUMBER(kEndpointErrorHandler, UCP_EP_PARAM_FIELD_ERR_HANDLER);
GQ_SAME_NUMBER(kErrorModePeer, UCP_ERR_HANDLING_MODE_PEER);
GQ_SAME_NUMBER(kOperationCallback, UCP_OP_ATTR_FIELD_CALLBACK);
GQ_SAME_NUMBER(kOperationUserData, UCP_OP_ATTR_FIELD_USER_DATA);
GQ_SAME_NUMBER(kOperationFlags, UCP_OP_ATTR_FIELD_FLAGS);
GQ_SAME_NUMBER(kOperationMemoryType, UCP_OP_ATTR_FIELD_MEMORY_TYPE);
GQ_SAME_NUMBER(kOperationNotAtOnce, UCP_OP_ATTR_FLAG_NO_IMM_CMPL);
GQ_SAME_NUMBER(kCloseForce, UCP_EP_CLOSE_FLAG_FORCE);
GQ_SAME_NUMBER(kMemoryHost, UCS_MEMORY_TYPE_HOST);

/** How a function's types are passed: pointers are alike, other types have a size. */
template <typename T>
constexpr int kind_of() {
  if constexpr (std::is_void_v<T>) {
    return 0;
  } else if constexpr (std::is_pointer_v<T>) {
    return -1;
  } else {
    return static_cast<int>(sizeof(T));
  }
}

template <typename Function>
struct Signature;
template <typename Result, typename... Arguments>
struct Signature<Result (*)(Arguments...)> {
  static constexpr auto kKinds = std::tuple(kind_of<Result>(), kind_of<Arguments>()...);
};

template <typename One, typename Other>
constexpr bool has_same_signature() {
  constexpr auto kOne = Signature<One>::kKinds;
  constexpr auto kOther = Signature<Other>::kKinds;
  if constexpr (std::is_same_v<decltype(kOne), decltype(kOther)>) return kOne == kOther;
  return false;
}

#define GQ_SAME_FUNCTION(member, symbol, result, arguments) \
  static_assert(has_same_signature<result(*) arguments, decltype(&symbol)>(), #symbol);
GQ_UCX_FUNCTIONS(GQ_SAME_FUNCTION)
#undef GQ_SAME_FUNCTION
static_assert(has_same_signature<SendCallback, ucp_send_nbx_callback_t>());
static_assert(has_same_signature<ReceiveCallback, ucp_tag_recv_nbx_callback_t>());
static_assert(has_same_signature<ActiveMessageCallback, ucp_am_recv_callback_t>());
static_assert(has_same_signature<ErrorCallback, ucp_err_handler_cb_t>());
// The comparison sees a difference.
static_assert(!has_same_signature<SendCallback, ucp_tag_recv_nbx_callback_t>());
static_assert(!has_same_signature<int (*)(char), int (*)(long)>());

}  // namespace
}  // namespace gq::ucx
#endif

namespace gq::test {
namespace {

TEST(UcxTypes, Headers_DeclareTheSame) {
#ifndef GQ_HAVE_UCX_HEADERS
  GTEST_SKIP() << "ucp/api/ucp.h is not here (package libucx-dev)";
#else
  const ucx::ResultPointer failure = UCS_STATUS_PTR(UCS_ERR_CANCELED);
  EXPECT_TRUE(ucx::is_failure(failure));
  EXPECT_EQ(ucx::failure_in(failure), ucx::kCancelled);
  EXPECT_TRUE(ucx::is_failure(UCS_STATUS_PTR(UCS_ERR_LAST)));
  int request = 0;
  EXPECT_FALSE(ucx::is_failure(&request));
  EXPECT_FALSE(ucx::is_failure(nullptr));
#endif
}

}  // namespace
}  // namespace gq::test
