// Each thread remembers where it has started requests.
#include "src/api/other_requests.h"

#include <algorithm>
#include <vector>

namespace gq {
namespace {

/** Of the calling thread: `started` is no more. Destructors of static objects, which may make
 *  calls, run behind those of thread_local ones. */
thread_local bool is_destroyed = false;

/** By handles: this thread is no owner of a communicator that another one may destroy. */
struct Started {
  ~Started() { is_destroyed = true; }

  std::vector<gqsgd_comm> comms;
};

thread_local Started started;

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
  if (is_destroyed) return;
  bool is_noted = false;
  std::erase_if(started.comms, [&](gqsgd_comm noted) {
    SharedAccess access;
    const bool is_gone = access.find(noted) != GQSGD_OK;
    is_noted = is_noted || noted == communicator.handle;
    return is_gone;
  });
  if (!is_noted) started.comms.push_back(communicator.handle);
}

bool progress_other_requests(const Endpoint* waiting) {
  if (is_destroyed) return false;
  bool has_others = false;
  std::erase_if(started.comms, [&](gqsgd_comm noted) {
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
