// Registration and its end: memory is registered once it is there, and deregistered before it goes.
#include "src/transport/nccl/nccl_memory.h"

#include <algorithm>
#include <new>
#include <utility>

#include "src/support/log.h"

namespace gq {

Status NcclMemory::register_buffer(const DeviceBuffer& memory, void** handle) {
  *handle = nullptr;
  const NcclComm::Operation operation(&comm_, "ncclCommRegister");
  GQ_TRY(operation.begun());
  return comm_.through(comm_.library().register_buffer(comm_.get(), memory.data(),
                                                       memory.size_bytes(), handle),
                       "ncclCommRegister");
}

/** NCCL_LOCAL_REGISTER=0 makes NCCL register nothing and return a null handle. */
Status NcclMemory::deregister(void* handle) {
  if (handle == nullptr) return Status();
  const NcclComm::Operation operation(&comm_, "ncclCommDeregister");
  GQ_TRY(operation.begun());
  return comm_.through(comm_.library().deregister(comm_.get(), handle), "ncclCommDeregister");
}

Status NcclMemory::try_to_register(const DeviceBuffer& probe) {
  const NcclLibrary& library = comm_.library();
  if (library.register_buffer == nullptr || library.deregister == nullptr) {
    return fail(GQSGD_UNSUPPORTED, "%s (version number %d) has no ncclCommRegister", library.path,
                library.version);
  }
  if (!comm_.is_own()) {
    return fail(GQSGD_UNSUPPORTED, "the communicator is the caller's, who may destroy it first");
  }
  void* handle = nullptr;
  GQ_TRY(register_buffer(probe, &handle));
  return deregister(handle);
}

/** NCCL's own kind of memory, which transports inside a node need, where it can be had. */
Status NcclMemory::allocate(const Device& device, size_t size_bytes, DeviceBuffer* memory) const {
  const NcclLibrary& library = comm_.library();
  void* allocated = nullptr;
  const bool has_allocator = library.allocate != nullptr && library.release != nullptr;
  if (has_allocator && library.allocate(&allocated, size_bytes) == nccl::kSuccess) {
    memory->take(allocated, size_bytes, library.release);
    return Status();
  }
  return memory->reserve(device, size_bytes);
}

Status NcclMemory::reserve(const Device& device, DeviceBuffer* memory, size_t size_bytes) {
  if (!registers_) return memory->reserve(device, size_bytes);
  if (size_bytes <= memory->size_bytes()) return Status();
  try {
    registered_.reserve(registered_.size() + 1);
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "no memory to note what NCCL knows");
  }
  DeviceBuffer longer;
  GQ_TRY(allocate(device, size_bytes, &longer));
  Registered made{longer.data(), nullptr};
  const Status known = register_buffer(longer, &made.handle);
  if (known.code() == GQSGD_BACKEND) {  // which would break the group
    return fail(GQSGD_NO_RESOURCE,
                "NCCL does not register %zu bytes of workspace, and knows that of other ranks "
                "(NCCL_LOCAL_REGISTER=0 on all ranks does without): %s",
                size_bytes, known.sentence());
  }
  GQ_TRY(known);
  const auto earlier =
      std::find_if(registered_.begin(), registered_.end(), [&](const Registered& known) {
        return memory->data() != nullptr && known.memory == memory->data();
      });
  const bool keeps = earlier != registered_.end() && !may_free(*earlier);
  if (earlier != registered_.end()) registered_.erase(earlier);
  registered_.push_back(made);
  memory->swap(longer);
  if (keeps) longer.forget();
  return Status();
}

bool NcclMemory::may_free(const Registered& registered) {
  const Status ended = deregister(registered.handle);
  if (!ended.ok()) log_line(GQSGD_LOG_WARN, "workspace is leaked: %s", ended.sentence());
  return ended.ok();
}

bool NcclMemory::end_use() {
  const std::vector<Registered> all = std::exchange(registered_, {});
  if (all.empty()) return true;
  if (comm_.was_aborted()) {
    comm_.give_up();
    return comm_.wait_for_end();
  }
  bool may = true;
  for (const Registered& each : all) may = may_free(each) && may;
  return may;
}

}  // namespace gq
