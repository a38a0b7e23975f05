// Part 5 of the C ABI: checks a call, and lets it run. A refused call still takes its turn in the
// group, so that no other rank waits for this one.
#include <inttypes.h>

#include <memory>

#include "kernels/cpu/float_environment.h"
#include "kernels/stages.h"
#include "src/allreduce.h"
#include "src/api/check.h"
#include "src/api/communicator.h"
#include "src/api/quantizer.h"
#include "src/transport/local.h"

namespace gq {
namespace {

// Elements are numbered with 44 bits in the random counter (40 bits of group, 16 elements each).
constexpr uint64_t kValueCountMax = UINT64_C(1) << 44;

struct Arguments {
  gqsgd_quantizer quantizer;
  size_t value_count;
  int32_t dtype;
  int32_t op;
  int32_t schedule;
  const uint64_t* at;
};

/** Everything but the buffers and the step. */
Status check_arguments(const Arguments& arguments, Call* call) {
  GQ_TRY(find_format(arguments.quantizer, &call->format));
  GQ_TRY(check_dtype(arguments.dtype));
  GQ_TRY(check_op(arguments.op));
  if (arguments.value_count > kValueCountMax) {
    return fail(GQSGD_INVALID_ARGUMENT, "value_count is %zu; the largest is %" PRIu64,
                arguments.value_count, kValueCountMax);
  }
  call->value_count = arguments.value_count;
  call->dtype = arguments.dtype;
  call->op = arguments.op;
  call->schedule_id = arguments.schedule;
  return Status();
}

Status check_buffers(const void* send, void* recv, bool recv_is_optional, Call* call) {
  const size_t element_bytes = dtype_size_bytes(call->dtype);
  const size_t value_count = static_cast<size_t>(call->value_count);
  const Buffer from{"send", send, value_count, element_bytes};
  const Buffer to{"recv", recv, value_count, element_bytes};
  GQ_TRY(check_buffer(from));
  if (recv != nullptr || !recv_is_optional) GQ_TRY(check_buffer(to));
  GQ_TRY(check_overlap(from, to, true));
  call->send = send;
  call->recv = recv;
  return Status();
}

/** The caller's {step, index}, or the communicator's own step, which this call uses up. */
Status take_step(Communicator& communicator, const uint64_t* at, Call* call) {
  call->step = at != nullptr ? at[0] : communicator.next_step.fetch_add(1);
  call->index = at != nullptr ? at[1] : 0;
  return check_step(call->step, call->index);
}

Status check_call(Communicator& communicator, const Arguments& arguments, const void* send,
                  void* recv, const void* stream, Call* call) {
  GQ_TRY(take_step(communicator, arguments.at, call));
  GQ_TRY(check_arguments(arguments, call));
  GQ_TRY(check_buffers(send, recv, false, call));
  return check_stream(stream);
}

Status run_allreduce(gqsgd_comm comm, const Arguments& arguments, const void* send, void* recv,
                     const void* stream) {
  Entry entry;
  GQ_TRY(entry.enter(comm));
  GQ_TRY(entry->failure());
  Call call;
  const Status checked = check_call(*entry, arguments, send, recv, stream, &call);
  const FloatEnvironment environment;  // the merge of the ranks' norms rounds as the format says
  bool broken = false;
  const Status status = allreduce(entry->endpoint, call, checked, &broken);
  if (broken) entry->set_failure(status, last_error());
  return entry->failure().ok() ? status : entry->failure();
}

/** A group of virtual ranks for one simulated call. */
struct VirtualGroup {
  std::unique_ptr<Endpoint[]> endpoints;
  std::unique_ptr<Call[]> calls;
};

Status make_group(uint32_t ranks, const char* options_text, VirtualGroup* group) {
  CommOptions options;
  GQ_TRY(parse_options(options_text, &options));
  std::unique_ptr<std::unique_ptr<Transport>[]> transports(new (std::nothrow)
                                                               std::unique_ptr<Transport>[ranks]);
  group->endpoints.reset(new (std::nothrow) Endpoint[ranks]);
  group->calls.reset(new (std::nothrow) Call[ranks]);
  if (!transports || !group->endpoints || !group->calls) {
    return fail(GQSGD_NO_MEMORY, "no memory for %u virtual ranks", ranks);
  }
  GQ_TRY(create_local(ranks, transports.get()));
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    GQ_TRY(fill_endpoint(std::move(transports[rank]), options, &group->endpoints[rank]));
  }
  return Status();
}

Status simulate(const Arguments& arguments, int32_t rank_count, const void* const* send,
                void* const* recv, const char* options_text) {
  GQ_TRY(check_size(rank_count));
  if (send == nullptr || recv == nullptr) {
    return fail(GQSGD_INVALID_ARGUMENT, "gqsgd_simulate: %s is NULL",
                send == nullptr ? "send" : "recv");
  }
  const uint32_t ranks = static_cast<uint32_t>(rank_count);
  Call common;
  GQ_TRY(check_arguments(arguments, &common));
  if (arguments.at != nullptr) {
    common.step = arguments.at[0];
    common.index = arguments.at[1];
  }
  GQ_TRY(check_step(common.step, common.index));
  VirtualGroup group;
  GQ_TRY(make_group(ranks, options_text, &group));
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    group.calls[rank] = common;
    GQ_TRY(check_buffers(send[rank], recv[rank], true, &group.calls[rank]));
  }
  const FloatEnvironment environment;
  return allreduce_in_turn(group.endpoints.get(), group.calls.get(), ranks);
}

}  // namespace
}  // namespace gq

gqsgd_status gqsgd_allreduce(gqsgd_comm comm, gqsgd_quantizer quantizer, const void* send,
                             void* recv, size_t value_count, int32_t dtype, int32_t op,
                             int32_t schedule, const uint64_t at[2], void* stream) {
  const gq::Arguments arguments{quantizer, value_count, dtype, op, schedule, at};
  return gq::run_allreduce(comm, arguments, send, recv, stream).code();
}

gqsgd_status gqsgd_simulate(gqsgd_quantizer quantizer, int32_t rank_count, const void* const* send,
                            void* const* recv, size_t value_count, int32_t dtype, int32_t op,
                            int32_t schedule, const uint64_t at[2], const char* options) {
  const gq::Arguments arguments{quantizer, value_count, dtype, op, schedule, at};
  return gq::simulate(arguments, rank_count, send, recv, options).code();
}
