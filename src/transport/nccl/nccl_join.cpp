// ncclCommInitRankConfig on a thread that is left behind if it takes too long.
#include "src/transport/nccl/nccl_join.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <new>

#include "src/support/clock.h"
#include "src/transport/nccl/nccl_aside.h"

namespace gq {
namespace {

/** One rank's way into a group, shared with the thread that NCCL keeps. */
class Joining {
 public:
  Joining(const Device& device, const NcclLibrary& library, const NcclPlace& place,
          const std::shared_ptr<nccl::Comm>& comm)
      : device_(device), library_(library), place_(place), comm_(comm) {}

  /** On that thread. */
  void run() {
    (void)device_.set_current(place_.ordinal).ok();
    nccl::Config config;
    config.blocking = place_.blocks ? 1 : 0;
    const nccl::Result result =
        library_.init(comm_.get(), place_.rank_count, place_.id, place_.rank, &config);
    std::unique_lock<std::mutex> lock(mutex_);
    result_ = result;
    returned_ = true;
    changed_.notify_all();
    const bool is_late = left_;
    lock.unlock();
    nccl::Comm const comm = std::atomic_ref<nccl::Comm>(*comm_).load();
    if (is_late && comm != nullptr) (void)library_.abort(comm);
  }

  /** False if it has not returned by `deadline_us`. */
  bool wait(uint64_t deadline_us, nccl::Result* result) {
    constexpr uint64_t kWaitUs = 1000000;
    std::unique_lock<std::mutex> lock(mutex_);
    for (uint64_t now_us = monotonic_us(); !returned_ && now_us < deadline_us;
         now_us = monotonic_us()) {
      changed_.wait_for(lock, std::chrono::microseconds(std::min(kWaitUs, deadline_us - now_us)));
    }
    left_ = !returned_;
    *result = result_;
    return returned_;
  }

 private:
  const Device& device_;
  const NcclLibrary& library_;
  const NcclPlace place_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool left_ = false;
  bool returned_ = false;
  const std::shared_ptr<nccl::Comm> comm_;
  nccl::Result result_ = nccl::kSuccess;
};

}  // namespace

Status join_aside(const Device& device, const NcclLibrary& library, const NcclPlace& place,
                  uint64_t deadline_us, const std::shared_ptr<nccl::Comm>& comm,
                  nccl::Result* result) {
  std::shared_ptr<Joining> joining;
  try {
    joining = std::make_shared<Joining>(device, library, place, comm);
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "no memory for rank %d to join by NCCL", place.rank);
  }
  if (!run_aside([joining] { joining->run(); })) {
    return fail(GQSGD_NO_RESOURCE, "rank %d: no thread to join by NCCL on", place.rank);
  }
  if (joining->wait(deadline_us, result)) return Status();
  return fail(GQSGD_TIMEOUT, "NCCL has not returned");
}

}  // namespace gq
