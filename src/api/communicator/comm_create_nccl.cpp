// Making communicators over NCCL.
#include "include/gqsgd_nccl.h"
#include "src/api/call_scope.h"
#include "src/api/check.h"
#include "src/api/communicator/communicator.h"
#include "src/transport/nccl/nccl.h"

namespace gq {
namespace {

/** What every communicator over NCCL is made with. */
struct Needs {
  CommOptions options;
  const NcclLibrary* library = nullptr;
  const Device* device = nullptr;
};

Status find_needs(const char* options, NcclSearch search, Needs* needs) {
  GQ_TRY(parse_options(options, &needs->options));
  GQ_TRY(open_nccl(needs->options.nccl.c_str(), search, &needs->library));
  const char* reason = "";
  needs->device = process_device(&reason);
  if (needs->device != nullptr) return Status();
  return fail(GQSGD_UNSUPPORTED, "communicators over NCCL need a GPU: %s", reason);
}

Status create_id(const char* text, gqsgd_unique_id* unique_id) {
  if (unique_id == nullptr) {
    return fail(GQSGD_INVALID_ARGUMENT, "gqsgd_nccl_unique_id_create: unique_id is NULL");
  }
  CommOptions options;
  GQ_TRY(parse_options(text, &options));
  const NcclLibrary* library = nullptr;
  GQ_TRY(open_nccl(options.nccl.c_str(), NcclSearch::any, &library));
  return make_nccl_id(*library, unique_id);
}

Status create(const gqsgd_unique_id* unique_id, int32_t rank, int32_t size, const char* text,
              gqsgd_comm* comm) {
  if (comm == nullptr) {
    return fail(GQSGD_INVALID_ARGUMENT, "gqsgd_comm_create_nccl: comm is NULL");
  }
  *comm = nullptr;
  if (unique_id == nullptr) {
    return fail(GQSGD_INVALID_ARGUMENT, "gqsgd_comm_create_nccl: unique_id is NULL");
  }
  GQ_TRY(check_size(size));
  GQ_TRY(check_rank(rank, size));
  Needs needs;
  GQ_TRY(find_needs(text, NcclSearch::any, &needs));
  std::unique_ptr<StreamTransport> transport;
  GQ_TRY(create_nccl(*needs.device, *needs.library, *unique_id, static_cast<uint32_t>(rank),
                     static_cast<uint32_t>(size),
                     {needs.options.timeout_ms, needs.options.network.host_id,
                      needs.options.nccl_blocks},
                     &transport));
  return add_communicator(std::move(transport), "nccl", needs.options, comm);
}

Status borrow(void* nccl_comm, const char* text, gqsgd_comm* comm) {
  if (comm == nullptr) {
    return fail(GQSGD_INVALID_ARGUMENT, "gqsgd_comm_create_from_nccl: comm is NULL");
  }
  *comm = nullptr;
  if (nccl_comm == nullptr) {
    return fail(GQSGD_INVALID_ARGUMENT, "gqsgd_comm_create_from_nccl: nccl_comm is NULL");
  }
  Needs needs;
  GQ_TRY(find_needs(text, NcclSearch::loaded_only, &needs));
  std::unique_ptr<StreamTransport> transport;
  GQ_TRY(borrow_nccl(*needs.device, *needs.library, nccl_comm,
                     {needs.options.timeout_ms, needs.options.network.host_id, true},
                     &transport));
  return add_communicator(std::move(transport), "nccl", needs.options, comm);
}

}  // namespace
}  // namespace gq

gqsgd_status gqsgd_nccl_unique_id_create(const char* options, gqsgd_unique_id* unique_id) {
  return gq::in_call_scope([&] { return gq::create_id(options, unique_id); });
}

gqsgd_status gqsgd_comm_create_nccl(const gqsgd_unique_id* unique_id, int32_t rank, int32_t size,
                                    const char* options, gqsgd_comm* comm) {
  return gq::in_call_scope([&] { return gq::create(unique_id, rank, size, options, comm); });
}

gqsgd_status gqsgd_comm_create_from_nccl(void* nccl_comm, const char* options, gqsgd_comm* comm) {
  return gq::in_call_scope([&] { return gq::borrow(nccl_comm, options, comm); });
}
