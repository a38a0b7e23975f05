// Each thread remembers where it has started requests.
#include "src/api/other_requests.h"

#include <pthread.h>

#include <algorithm>
#include <memory>
#include <new>
#include <vector>

#include "src/support/immortal.h"

namespace gq {
namespace {

/** By handles: a thread is no owner of a communicator that another one may destroy. */
using Started = std::vector<gqsgd_comm>;

/** A thread's own. No thread_local object: without memory to register its destructor the C library
 *  ends the process, and destructors of static objects, which may make calls, run behind it. */
class StartedByThread {
 public:
  StartedByThread() : is_made_(pthread_key_create(&key_, free) == 0) {}

  /** Null before make(). */
  Started* get() const {
    return is_made_ ? static_cast<Started*>(pthread_getspecific(key_)) : nullptr;
  }
  /** Throws std::bad_alloc. */
  Started* make() const {
    auto made = std::make_unique<Started>();
    if (!is_made_ || pthread_setspecific(key_, made.get()) != 0) throw std::bad_alloc();
    return made.release();
  }

 private:
  static void free(void* started) { delete static_cast<Started*>(started); }

  pthread_key_t key_ = 0;
  bool is_made_;
};

const StartedByThread& started_by_thread() { return immortal<StartedByThread>(); }

/** Whether requests are left, which another thread may be in. */
bool makes_progress(Communicator& communicator) {
  Occupant found = Occupant::none;
  if (!communicator.occupant.compare_exchange_strong(found, Occupant::helper,
                                                     std::memory_order_acquire)) {
    return true;
  }
  communicator.requests.look();
  const bool has_more = !communicator.requests.is_empty();
  communicator.occupant.store(Occupant::none, std::memory_order_release);
  return has_more;
}

}  // namespace

void note_request(const Communicator& communicator) {
  Started* started = started_by_thread().get();
  if (started == nullptr) started = started_by_thread().make();
  bool is_noted = false;
  std::erase_if(*started, [&](gqsgd_comm noted) {
    SharedAccess access;
    const bool is_gone = access.find(noted) != GQSGD_OK;
    is_noted = is_noted || noted == communicator.handle;
    return is_gone;
  });
  if (!is_noted) started->push_back(communicator.handle);
}

bool progress_other_requests(const Endpoint* waiting) {
  Started* const started = started_by_thread().get();
  if (started == nullptr) return false;
  bool has_others = false;
  std::erase_if(*started, [&](gqsgd_comm noted) {
    SharedAccess access;
    if (access.find(noted) != GQSGD_OK) return true;  // it is destroyed, or of a parent
    if (&access->endpoint == waiting) return false;
    const bool has_more = makes_progress(*access);
    has_others = has_others || has_more;
    return !has_more;
  });
  return has_others;
}

}  // namespace gq
