// Making communicators: local groups of threads, groups of processes.
#include <new>

#include "src/api/call_scope.h"
#include "src/api/check.h"
#include "src/api/communicator/communicator.h"
#include "src/transport/bootstrap/unique_id.h"
#include "src/transport/process/process.h"
#include "src/transport/shared_memory/local.h"

namespace gq {
namespace {

Status create_local_group(int32_t rank_count, const char* text, gqsgd_comm* comms) {
  if (comms == nullptr) {
    return fail(GQSGD_INVALID_ARGUMENT, "gqsgd_comm_create_local: comms is NULL");
  }
  GQ_TRY(check_size(rank_count));
  const uint32_t ranks = static_cast<uint32_t>(rank_count);
  for (uint32_t rank = 0; rank < ranks; ++rank) comms[rank] = nullptr;
  CommOptions options;
  GQ_TRY(parse_options(text, &options));
  std::unique_ptr<std::unique_ptr<HostTransport>[]> transports(
      new (std::nothrow) std::unique_ptr<HostTransport>[ranks]);
  if (!transports) return fail(GQSGD_NO_MEMORY, "no memory for %u communicators", ranks);
  GQ_TRY(create_local(ranks, transports.get()));
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const Status status =
        add_communicator(std::move(transports[rank]), "threads", options, &comms[rank]);
    if (status.ok()) continue;
    for (uint32_t made = 0; made < rank; ++made) {
      remove_communicator(comms[made]);
      comms[made] = nullptr;
    }
    return status;
  }
  return Status();
}

Status create_process_rank(const gqsgd_unique_id* unique_id, int32_t rank, int32_t size,
                           const char* text, gqsgd_comm* comm) {
  if (comm == nullptr) {
    return fail(GQSGD_INVALID_ARGUMENT, "gqsgd_comm_create_process: comm is NULL");
  }
  *comm = nullptr;
  if (unique_id == nullptr) {
    return fail(GQSGD_INVALID_ARGUMENT, "gqsgd_comm_create_process: unique_id is NULL");
  }
  GQ_TRY(check_size(size));
  GQ_TRY(check_rank(rank, size));
  CommOptions options;
  const Status parsed = parse_options(text, &options);
  std::unique_ptr<HostTransport> transport;
  GQ_TRY(create_process(*unique_id, static_cast<uint32_t>(rank), static_cast<uint32_t>(size),
                        options.timeout_ms, &transport, parsed));
  return add_communicator(std::move(transport), "processes", options, comm);
}

}  // namespace
}  // namespace gq

gqsgd_status gqsgd_comm_create_local(int32_t rank_count, const char* options, gqsgd_comm* comms) {
  return gq::in_call_scope([&] { return gq::create_local_group(rank_count, options, comms); });
}

gqsgd_status gqsgd_unique_id_create(gqsgd_unique_id* unique_id) {
  if (unique_id == nullptr) {
    return gq::to_caller(
        gq::fail(GQSGD_INVALID_ARGUMENT, "gqsgd_unique_id_create: unique_id is NULL"));
  }
  return gq::in_call_scope([&] { return gq::make_unique_id(unique_id); });
}

gqsgd_status gqsgd_comm_create_process(const gqsgd_unique_id* unique_id, int32_t rank, int32_t size,
                                       const char* options, gqsgd_comm* comm) {
  return gq::in_call_scope(
      [&] { return gq::create_process_rank(unique_id, rank, size, options, comm); });
}
