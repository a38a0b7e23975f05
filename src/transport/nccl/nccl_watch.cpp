// A look every 100 ms, and an end without a wait for the next one.
#include "src/transport/nccl/nccl_watch.h"

#include <chrono>

namespace gq {
namespace {

constexpr std::chrono::milliseconds kPeriod(100);

}  // namespace

Status NcclWatch::begin(bool (*look)(void* user), void* user, uint32_t rank) {
  look_ = look;
  user_ = user;
  return thread_.begin(run, this, rank, "that watches over its NCCL communicator");
}

void NcclWatch::end() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ends_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

void* NcclWatch::run(void* self) {
  NcclWatch& watch = *static_cast<NcclWatch*>(self);
  std::unique_lock<std::mutex> lock(watch.mutex_);
  while (!watch.ended_.wait_for(lock, kPeriod, [&] { return watch.ends_; })) {
    lock.unlock();
    const bool goes_on = watch.look_(watch.user_);
    lock.lock();
    if (!goes_on) break;
  }
  return nullptr;
}

}  // namespace gq
