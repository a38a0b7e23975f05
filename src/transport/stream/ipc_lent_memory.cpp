// The process-wide registry of memory that is still lent: one of the library's few registries,
// guarded by a mutex.
#include "src/transport/stream/ipc_lent_memory.h"

#include <poll.h>

#include <mutex>
#include <new>
#include <utility>

#include "src/support/immortal.h"

namespace gq {
namespace {

struct Register {
  std::mutex mutex;
  std::unique_ptr<LentMemory> first;
};

Register& all_lent() { return immortal<Register>(); }  // CUDA may be gone before static objects

bool has_hung_up(Descriptor* liveness_pipe) {
  if (!liveness_pipe->is_open()) return true;
  pollfd watched{liveness_pipe->number(), 0, 0};
  if (poll(&watched, 1, 0) <= 0) return false;
  liveness_pipe->reset();
  return true;
}

bool is_returned(LentMemory* lent) {
  if (lent->made_in != fork_generation()) return false;  // the parent's
  bool returned = true;
  for (uint32_t rank = 0; rank < lent->ranks; ++rank) {
    returned &= has_hung_up(&lent->liveness_pipes[rank]);
  }
  return returned;
}

}  // namespace

LentMemory::~LentMemory() {
  if (memory.empty()) return;
  OnDevice here(*device);
  (void)here.enter(ordinal).ok();
  memory.clear();
}

void LentMemory::take(DeviceBuffer* lent) {
  try {
    memory.push_back(std::move(*lent));
  } catch (const std::bad_alloc&) {
    lent->forget();  // no rank would see when it is returned
  }
}

void keep_until_returned(std::unique_ptr<LentMemory> lent) {
  {
    Register& all = all_lent();
    const std::lock_guard<std::mutex> lock(all.mutex);
    lent->next = std::move(all.first);
    all.first = std::move(lent);
  }
  free_returned();
}

void free_returned() {
  Register& all = all_lent();
  std::unique_ptr<LentMemory> returned;  // freed without the lock: that may take a while
  const std::lock_guard<std::mutex> lock(all.mutex);
  std::unique_ptr<LentMemory>* link = &all.first;
  while (*link) {
    if (!is_returned(link->get())) {
      link = &(*link)->next;
      continue;
    }
    std::unique_ptr<LentMemory> found = std::move(*link);
    *link = std::move(found->next);
    found->next = std::move(returned);
    returned = std::move(found);
  }
}

}  // namespace gq
