// Collectives of part 5 of the C ABI: checks a call, and lets it run now or later. A refused call
// still takes its turn in the group, so that no other rank waits for this one.
#include "src/api/arguments.h"
#include "src/api/requests.h"

namespace gq {
namespace {

struct Buffers {
  const void* send;
  void* recv;
  const void* stream;
};

Status run_allreduce(gqsgd_comm comm, const Arguments& arguments, const Buffers& buffers) {
  Entry entry;
  GQ_TRY(entry.enter(comm));
  GQ_TRY(entry->endpoint.failure.get());
  Call call;
  const Status checked =
      check_call(*entry, arguments, buffers.send, buffers.recv, buffers.stream, &call);
  return entry->requests.run(call, checked);
}

Status start_allreduce(gqsgd_comm comm, const Arguments& arguments, const Buffers& buffers,
                       gqsgd_request* request) {
  if (request != nullptr) *request = nullptr;
  Entry entry;
  GQ_TRY(entry.enter(comm));
  GQ_TRY(entry->endpoint.failure.get());
  Call call;
  const Status checked =
      check_call(*entry, arguments, buffers.send, buffers.recv, buffers.stream, &call);
  return start_request(entry, call, checked, request);
}

}  // namespace
}  // namespace gq

gqsgd_status gqsgd_allreduce(gqsgd_comm comm, gqsgd_quantizer quantizer, const void* send,
                             void* recv, size_t value_count, int32_t dtype, int32_t op,
                             int32_t schedule, const uint64_t at[2], void* stream) {
  const gq::Arguments arguments{quantizer, value_count, dtype, op, schedule, at};
  return gq::run_allreduce(comm, arguments, {send, recv, stream}).code();
}

gqsgd_status gqsgd_allreduce_start(gqsgd_comm comm, gqsgd_quantizer quantizer, const void* send,
                                   void* recv, size_t value_count, int32_t dtype, int32_t op,
                                   int32_t schedule, const uint64_t at[2], void* stream,
                                   gqsgd_request* request) {
  const gq::Arguments arguments{quantizer, value_count, dtype, op, schedule, at};
  return gq::start_allreduce(comm, arguments, {send, recv, stream}, request).code();
}
