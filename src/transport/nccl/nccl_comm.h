// One ncclComm_t: its results as statuses, its waits with a deadline, its end on a thread of its
// own, because NCCL may take its time over that.
#ifndef GQ_TRANSPORT_NCCL_NCCL_COMM_H
#define GQ_TRANSPORT_NCCL_NCCL_COMM_H

#include <stdint.h>

#include <atomic>
#include <memory>
#include <mutex>

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
  nccl::Comm get() const { return std::atomic_ref<nccl::Comm>(ending_->comm).load(); }

  /** A thread's time inside of NCCL. An abort frees the communicator, so it waits until all of them
   *  have ended, but not longer than a moment: what NCCL waits for may only come by the abort. */
  class Inside {
   public:
    explicit Inside(NcclComm* comm);
    ~Inside();
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
    /** What ended the communicator before, which must not be used then. */
    Status begun() const { return begun_; }

   protected:
    NcclComm& comm_;

   private:
    Status begun_;
  };

  /** The same of an operation, which one thread makes at a time. It is under watch: look() ends it
   *  at the deadline. */
  class Operation : public Inside {
   public:
    Operation(NcclComm* comm, const char* call);
    ~Operation() { comm_.since_us_.store(0, std::memory_order_release); }

   private:
    std::unique_lock<std::mutex> alone_;  // where other threads may not even ask
  };

  /** What a call of NCCL returned, once it is through: a communicator that does not block returns
   *  it later. Other failures than TIMEOUT and ABORTED are BACKEND with NCCL's error string. */
  Status through(nccl::Result result, const char* call);
  /** An error that NCCL found meanwhile. OK where a thread that is inside asks by itself. */
  Status check();
  /** What broke the communicator, if an abort, an error or an operation past its deadline did: it
   *  is kept, and returned by what comes later. From the thread that watches. */
  Status look();
  /** Ends what is under way, from any thread, without waiting. A borrowed one is its owner's to
   *  abort. */
  void give_up();
  /** give_up() for signal handlers: done by the next check() or look(), or by the thread that waits
   *  in through(). */
  void abort_later() { aborted_.store(true); }
  /** Of operations from now on, and of the one under way. From any thread. */
  void set_timeout(int64_t timeout_ms) { timeout_ms_.store(timeout_ms); }
  bool is_own() const { return owner_ == Owner::us; }
  /** Whether NCCL's functions return when their work is enqueued. */
  bool blocks() const { return blocks_; }
  /** After its abort or destruction has begun: false if that takes NCCL more than 5 seconds. */
  bool wait_for_end() const;
  bool was_aborted() const { return aborted_.load(); }

 private:
  enum class Owner { none, caller, us };
  /** Shared with the threads that make and end the communicator. */
  struct Ending {
    nccl::Comm comm = nullptr;  ///< NCCL writes it again when the group has formed
    std::atomic<int> inside{0};
    std::atomic<bool> done{false};
    std::atomic<bool> failed{false};  ///< the system has no thread to give
  };

  Status make_ending();
  Status init(const nccl::Id& id, int ranks, int rank);
  /** Once, on a thread of its own, with the communicator's device current: else NCCL would restore
   *  device 0 there, which makes a context of some 500 MiB on it. */
  void end_by(nccl::Result (*function)(nccl::Comm));
  /** To ask a communicator that does not block for errors is to end the thread that NCCL made for
   *  its last operation: two threads at once would free that twice. A communicator that is lent may
   *  be of either kind. */
  bool is_asked_alone() const { return !blocks_ || owner_ == Owner::caller; }
  /** What was kept, else ABORTED. */
  Status ended(const char* call);
  Status timed_out(const char* call) const;

  const Device& device_;
  const NcclLibrary& library_;
  std::atomic<int64_t> timeout_ms_;
  bool blocks_;          // as wanted; from init() on as NCCL does it
  int32_t ordinal_ = 0;  ///< of an own communicator
  Owner owner_ = Owner::none;
  std::atomic<bool> aborted_{false};
  std::atomic<uint64_t> end_deadline_us_{0};  // of its abort or destruction; 0: not begun
  std::shared_ptr<Ending> ending_;
  std::mutex alone_;  // of operations and checks, where is_asked_alone()
  std::atomic<uint64_t> since_us_{0};  // of the operation under way; 0: none
  std::atomic<const char*> call_{""};  // its name
  std::mutex kept_mutex_;
  Status kept_;
};

}  // namespace gq

#endif
