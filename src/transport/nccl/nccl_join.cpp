// ncclCommInitRankConfig on a thread that is left behind if it takes too long.
#include "src/transport/nccl/nccl_join.h"

#include <algorithm>
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
  Joining(const Device& device, const NcclLibrary& library, const NcclPlace& place)
      : device_(device), library_(library), place_(place) {}

  /** On that thread. */
  void run() {
    (void)device_.set_current(place_.ordinal).ok();
    nccl::Config config;
    config.blocking = 1;
    nccl::Comm comm = nullptr;
    const nccl::Result result =
        library_.init(&comm, place_.rank_count, place_.id, place_.rank, &config);
    std::unique_lock<std::mutex> lock(mutex_);
    comm_ = comm;
    result_ = result;
    changed_.notify_all();
    const bool is_late = left_;
    lock.unlock();
    if (is_late && comm != nullptr) (void)library_.abort(comm);
  }

  /** After it `result` is kInProgress if there was none by `deadline_us`. */
  void wait(uint64_t deadline_us, nccl::Comm* comm, nccl::Result* result) {
    constexpr uint64_t kWaitUs = 1000000;
    std::unique_lock<std::mutex> lock(mutex_);
    for (uint64_t now_us = monotonic_us(); result_ == nccl::kInProgress && now_us < deadline_us;
         now_us = monotonic_us()) {
      changed_.wait_for(lock, std::chrono::microseconds(std::min(kWaitUs, deadline_us - now_us)));
    }
    left_ = result_ == nccl::kInProgress;
    *comm = comm_;
    *result = result_;
  }

 private:
  const Device& device_;
  const NcclLibrary& library_;
  const NcclPlace place_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool left_ = false;
  nccl::Comm comm_ = nullptr;
  nccl::Result result_ = nccl::kInProgress;
};

}  // namespace

Status join_blocking(const Device& device, const NcclLibrary& library, const NcclPlace& place,
                     uint64_t deadline_us, nccl::Comm* comm, nccl::Result* result) {
  std::shared_ptr<Joining> joining;
  try {
    joining = std::make_shared<Joining>(device, library, place);
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "no memory for rank %d to join by NCCL", place.rank);
  }
  if (!run_aside([joining] { joining->run(); })) {
    return fail(GQSGD_NO_RESOURCE, "rank %d: no thread to join by NCCL on", place.rank);
  }
  joining->wait(deadline_us, comm, result);
  return Status();
}

}  // namespace gq
