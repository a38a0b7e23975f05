// The locks that fork() must find free.
#include "src/api/handles.h"

#include <pthread.h>

namespace gq {
namespace {

// Three tables exist; a spare place costs nothing.
constexpr int kMutexesMax = 4;
std::mutex* mutexes[kMutexesMax];
int mutex_count = 0;

void before_fork() {
  for (int i = 0; i < mutex_count; ++i) mutexes[i]->lock();
}

void after_fork() {
  for (int i = mutex_count; i > 0; --i) mutexes[i - 1]->unlock();
}

}  // namespace

void hold_across_fork(std::mutex* mutex) {
  static std::mutex guard;
  const std::lock_guard<std::mutex> lock(guard);
  if (mutex_count == 0) pthread_atfork(before_fork, after_fork, after_fork);
  if (mutex_count < kMutexesMax) mutexes[mutex_count++] = mutex;
}

}  // namespace gq
