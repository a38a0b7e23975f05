// The process-wide registry of guarded descriptors and the handlers around fork(), and the locks
// that fork() must find free. It is one of the documented registries: descriptors are process-wide,
// and so must be the knowledge of them.
#include "src/support/posix/fork.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <utility>

namespace gq {
namespace {

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
ForkGuard* first_guard = nullptr;      // under the mutex
ForkSockets* first_sockets = nullptr;  // under the mutex
bool watching = false;                 // under the mutex
std::atomic<uint64_t> generation{0};

void before_fork() { pthread_mutex_lock(&mutex); }
void after_fork_in_parent() { pthread_mutex_unlock(&mutex); }

// Five registries exist: three tables of handles, the groups of threads that are forming, and the
// listeners of networks.
constexpr int kHeldMax = 8;
std::mutex held_guard;  // of what follows: a registry may be made while another thread forks
std::mutex* held[kHeldMax];
int held_count = 0;
bool holds = false;

void lock_held() {
  held_guard.lock();
  for (int i = 0; i < held_count; ++i) held[i]->lock();
}

void unlock_held() {
  for (int i = held_count; i > 0; --i) held[i - 1]->unlock();
  held_guard.unlock();
}

}  // namespace

// Runs between fork() and whatever the child does first: system calls and plain stores only.
void close_guarded_in_child() {
  generation.fetch_add(1, std::memory_order_relaxed);
  for (ForkGuard* guard = first_guard; guard != nullptr; guard = guard->next_) {
    close(guard->descriptor_);
    guard->descriptor_ = -1;
  }
  first_guard = nullptr;
  for (ForkSockets* sockets = first_sockets; sockets != nullptr; sockets = sockets->next_) {
    sockets->close_in_child();
  }
  first_sockets = nullptr;
  pthread_mutex_unlock(&mutex);
}

Status watch_forks() {
  ForkHold hold;
  if (watching) return Status();
  if (pthread_atfork(before_fork, after_fork_in_parent, close_guarded_in_child) != 0) {
    return fail(GQSGD_NO_MEMORY, "pthread_atfork has no memory for this library's handlers");
  }
  watching = true;
  return Status();
}

uint64_t fork_generation() { return generation.load(std::memory_order_relaxed); }

namespace {
// As the library is loaded: at a first use the lock itself could be held as another thread forks.
// If there is no memory then, the next call tries again.
[[maybe_unused]] const bool is_watched_at_load = watch_forks().ok();
}  // namespace

void hold_across_fork(std::mutex* mutex) {
  const std::lock_guard<std::mutex> lock(held_guard);
  if (!holds) holds = pthread_atfork(lock_held, unlock_held, unlock_held) == 0;
  if (held_count < kHeldMax) held[held_count++] = mutex;
}

ForkHold::ForkHold() { pthread_mutex_lock(&mutex); }
ForkHold::~ForkHold() { pthread_mutex_unlock(&mutex); }

void ForkGuard::attach(int descriptor) {
  descriptor_ = descriptor;
  previous_ = nullptr;
  next_ = first_guard;
  if (next_ != nullptr) next_->previous_ = this;
  first_guard = this;
}

/** With the lock. */
int ForkGuard::unlist() {
  if (previous_ != nullptr) previous_->next_ = next_;
  if (previous_ == nullptr) first_guard = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
  return std::exchange(descriptor_, -1);
}

void ForkGuard::close_now() {
  ForkHold hold;
  if (is_open()) close(unlist());
}

void ForkGuard::take_from(ForkGuard* other) {
  ForkHold hold;
  if (other->is_open()) attach(other->unlist());
}

ForkGuard& ForkGuard::operator=(ForkGuard&& other) noexcept {
  if (this == &other) return *this;
  close_now();
  take_from(&other);
  return *this;
}

void ForkSockets::set(const std::vector<int>& descriptors) {
  std::vector<Socket> found;
  for (const int descriptor : descriptors) {
    struct stat state;
    if (fstat(descriptor, &state) != 0 || !S_ISSOCK(state.st_mode)) continue;
    found.push_back({descriptor, state.st_ino});
  }
  ForkHold hold;
  sockets_ = std::move(found);
  if (is_listed_) return;
  is_listed_ = true;
  next_ = first_sockets;
  if (next_ != nullptr) next_->previous_ = this;
  first_sockets = this;
}

void ForkSockets::close_in_child() {
  is_listed_ = false;
  for (const Socket& socket : sockets_) {
    struct stat state;
    if (fstat(socket.descriptor, &state) != 0 || !S_ISSOCK(state.st_mode)) continue;
    if (state.st_ino == socket.inode) close(socket.descriptor);
  }
}

ForkSockets::~ForkSockets() {
  ForkHold hold;
  if (!is_listed_) return;
  if (previous_ != nullptr) previous_->next_ = next_;
  if (previous_ == nullptr) first_sockets = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
}

}  // namespace gq
