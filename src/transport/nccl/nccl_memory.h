// Workspace that NCCL knows, so that it sends from there and receives there without copies of its
// own, where the library has ncclCommRegister (2.19 or later) and all ranks of the group can.
#ifndef GQ_TRANSPORT_NCCL_NCCL_MEMORY_H
#define GQ_TRANSPORT_NCCL_NCCL_MEMORY_H

#include <vector>

#include "src/transport/nccl/nccl_comm.h"
#include "src/transport/stream/stream_transport.h"

namespace gq {

/** NCCL does not define what happens if some ranks pass registered memory to a call and others do
 *  not. So ranks decide once for the group, and a later failure is that of the call which needs the
 *  memory: it is refused on all ranks. */
class NcclMemory final : public StreamMemory {
 public:
  explicit NcclMemory(NcclComm* comm) : comm_(*comm) {}

  /** Whether memory can be registered with this communicator: `probe` is, for a moment. */
  Status try_to_register(const DeviceBuffer& probe);
  /** What all ranks can; until then nothing is registered. */
  void decide(bool registers) { registers_ = registers; }

  Status reserve(const Device& device, DeviceBuffer* memory, size_t size_bytes) override;
  /** Deregisters all of it. After an abort NCCL itself does so, which is waited for. */
  bool end_use() override;
  void leak_in_use() override { leaked_ = true; }
  /** Streams of this end do not get through. */
  bool is_leaked() const { return leaked_; }

 private:
  struct Registered {
    void* memory;
    void* handle;
  };

  Status allocate(const Device& device, size_t size_bytes, DeviceBuffer* memory) const;
  Status register_buffer(const DeviceBuffer& memory, void** handle);
  Status deregister(void* handle);
  /** Deregisters it: false if that fails. */
  bool may_free(const Registered& registered);

  NcclComm& comm_;
  bool registers_ = false;
  bool leaked_ = false;
  std::vector<Registered> registered_;
};

}  // namespace gq

#endif
