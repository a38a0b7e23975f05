// gqsgd_simulate: one allreduce of virtual ranks on the calling thread.
#include <memory>
#include <new>
#include <vector>

#include "include/gqsgd_model.h"
#include "kernels/stages.h"
#include "src/api/arguments.h"
#include "src/api/call_scope.h"
#include "src/api/check.h"
#include "src/api/extents.h"
#include "src/call/virtual/virtual_ranks.h"

namespace gq {
namespace {

/** A group of virtual ranks for one simulated call. */
struct VirtualGroup {
  Workers workers;  // of the one thread that is all ranks
  VirtualRanks ranks;
};

Status make_group(uint32_t ranks, const char* options_string, VirtualGroup* group) {
  CommOptions options;
  GQ_TRY(parse_options(options_string, &options));
  if (options.choice.measures && options.costs_given) {
    return fail(GQSGD_UNSUPPORTED,
                "costs=measure times the links of ranks, and virtual ones have none: give "
                "costs=FILE, or what gqsgd_comm_costs of a communicator returns");
  }
  options.choice.measures = false;
  GQ_TRY(group->ranks.open(ranks));
  GQ_TRY(group->workers.start(options.threads, 0, ranks));
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    Endpoint& endpoint = group->ranks[rank].endpoint;
    GQ_TRY(fill_endpoint(endpoint.host.get(), options, &group->workers, &endpoint));
  }
  return Status();
}

/** Virtual ranks write their results one after the other, while others may still read. */
Status check_apart(VirtualRanks& ranks) {
  const Call& first = ranks[0].call;
  const size_t size_bytes = static_cast<size_t>(first.value_count) * dtype_size_bytes(first.dtype);
  if (size_bytes == 0) return Status();
  std::vector<Extent> written, read;
  try {
    written.reserve(ranks.size());
    read.reserve(ranks.size());
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "no memory for the buffers of %u virtual ranks", ranks.size());
  }
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    const Call& call = ranks[rank].call;
    read.push_back(extent_of(call.send, rank, size_bytes));
    if (call.recv != nullptr) written.push_back(extent_of(call.recv, rank, size_bytes));
  }
  return check_disjoint(&written, read);
}

Status simulate(const Arguments& arguments, int32_t rank_count, const void* const* send,
                void* const* recv, size_t count, const char* options_string) {
  GQ_TRY(check_size(rank_count));
  if (send == nullptr || recv == nullptr) {
    return fail(GQSGD_INVALID_ARGUMENT, "gqsgd_simulate: %s is NULL",
                send == nullptr ? "send" : "recv");
  }
  const uint32_t ranks = static_cast<uint32_t>(rank_count);
  Call common;
  CallConfig config;
  GQ_TRY(read_config(arguments.config, &config));
  GQ_TRY(check_step_on_host(config));
  GQ_TRY(check_arguments(arguments, config, &common));
  GQ_TRY(check_count("count", count));
  common.value_count = count;
  common.step = config.step;
  common.index = config.index;
  VirtualGroup group;
  GQ_TRY(make_group(ranks, options_string, &group));
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    Call& call = group.ranks[rank].call;
    call = common;
    GQ_TRY(check_buffers(send[rank], recv[rank], true, &call));
  }
  GQ_TRY(check_apart(group.ranks));
  return group.ranks.allreduce();
}

}  // namespace
}  // namespace gq

gqsgd_status gqsgd_simulate(gqsgd_quantizer quantizer, int32_t rank_count, const void* const* send,
                            void* const* recv, size_t count, gqsgd_dtype dtype, gqsgd_op op,
                            const gqsgd_config* config, const char* options) {
  const gq::Arguments arguments{quantizer, gq::number_of(dtype), gq::number_of(op), config};
  return gq::in_call_scope(
      [&] { return gq::simulate(arguments, rank_count, send, recv, count, options); });
}
