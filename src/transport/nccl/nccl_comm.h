// One ncclComm_t: its results as statuses, its waits with a deadline, its end on a thread of its
// own, because NCCL may take its time over that.
#ifndef GQ_TRANSPORT_NCCL_NCCL_COMM_H
#define GQ_TRANSPORT_NCCL_NCCL_COMM_H

#include <stdint.h>

#include <atomic>
#include <memory>

#include "src/gpu/device/device.h"
#include "src/transport/nccl/nccl_library.h"

namespace gq {

class NcclComm {
 public:
  NcclComm(const Device& device, const NcclLibrary& library, int64_t timeout_ms, bool blocks)
      : device_(device), library_(library), timeout_ms_(timeout_ms), blocks_(blocks) {}
  ~NcclComm();
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;

  /** On the current device. */
  Status join(const nccl::Id& id, int ranks, int rank);
  Status borrow(nccl::Comm comm);

  const NcclLibrary& library() const { return library_; }
  nccl::Comm get() const { return comm_; }

  /** What a call of NCCL returned, once it is through: a communicator that does not block returns
   *  it later. Other failures than TIMEOUT and ABORTED are BACKEND with NCCL's error string. */
  Status through(nccl::Result result, const char* call);
  /** An error that NCCL found meanwhile. */
  Status check();
  /** Ends what is under way, from any thread, without waiting. A borrowed one is its owner's to
   *  abort. */
  void give_up();
  /** give_up() for signal handlers: done by the next check(), or by the thread that waits in
   *  through(). */
  void abort_later() { aborted_.store(true, std::memory_order_release); }
  bool is_own() const { return owner_ == Owner::us; }
  bool blocks() const { return blocks_; }
  /** After its abort or destruction has begun: false if that takes NCCL more than 5 seconds. */
  bool wait_for_end() const;
  bool was_aborted() const { return aborted_.load(std::memory_order_acquire); }

 private:
  enum class Owner { none, caller, us };
  /** Calls `function` on a thread of its own, with the communicator's device current: else NCCL
   *  would restore device 0 there, which makes a context of some 500 MiB on it. */
  void end_by(nccl::Result (*function)(nccl::Comm));

  struct Ending {
    std::atomic<bool> done{false};
    uint64_t deadline_us = 0;
  };

  const Device& device_;
  const NcclLibrary& library_;
  const int64_t timeout_ms_;
  const bool blocks_;
  int32_t ordinal_ = 0;  ///< of an own communicator
  nccl::Comm comm_ = nullptr;
  Owner owner_ = Owner::none;
  std::atomic<bool> aborted_{false};
  std::atomic<bool> given_up_{false};  // NCCL has been called
  std::shared_ptr<Ending> ending_;
};

}  // namespace gq

#endif
