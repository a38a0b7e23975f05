// A thread that looks after a communicator while no other thread of the program is in the library.
#ifndef GQ_TRANSPORT_NCCL_NCCL_WATCH_H
#define GQ_TRANSPORT_NCCL_NCCL_WATCH_H

#include <stdint.h>

#include <condition_variable>
#include <mutex>

#include "src/support/posix/quiet_thread.h"

namespace gq {

class NcclWatch {
 public:
  NcclWatch() = default;
  ~NcclWatch() { end(); }
  NcclWatch(const NcclWatch&) = delete;
  NcclWatch& operator=(const NcclWatch&) = delete;

  /** Calls look(user) every 100 ms until it returns false. NO_RESOURCE without a thread. */
  Status begin(bool (*look)(void* user), void* user, uint32_t rank);
  /** Returns when no look is under way and none will come. */
  void end();

 private:
  static void* run(void* self);

  QuietThread thread_;
  bool (*look_)(void* user) = nullptr;
  void* user_ = nullptr;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool ends_ = false;
};

}  // namespace gq

#endif
