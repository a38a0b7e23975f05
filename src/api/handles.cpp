// The locks that fork() must find free.
#include "src/api/handles.h"

#include <pthread.h>

namespace gq {
namespace {

// Three tables exist; a spare place costs nothing.
constexpr int kMutexesMax = 4;
std::mutex guard;  // of what follows: a table may be made while another thread forks
std::mutex* mutexes[kMutexesMax];
int mutex_count = 0;
bool handles_forks = false;

void before_fork() {
  guard.lock();
  for (int i = 0; i < mutex_count; ++i) mutexes[i]->lock();
}

void after_fork() {
  for (int i = mutex_count; i > 0; --i) mutexes[i - 1]->unlock();
  guard.unlock();
}

}  // namespace

void hold_across_fork(std::mutex* mutex) {
  const std::lock_guard<std::mutex> lock(guard);
  if (!handles_forks) handles_forks = pthread_atfork(before_fork, after_fork, after_fork) == 0;
  if (mutex_count < kMutexesMax) mutexes[mutex_count++] = mutex;
}

}  // namespace gq
