// Handles fork(): the library detects that it runs in the child, and the child does not keep open
// the parent's descriptors: memory of a group, and those by which peers see that it is alive.
#ifndef GQ_SUPPORT_POSIX_FORK_H
#define GQ_SUPPORT_POSIX_FORK_H

#include <stdint.h>
#include <sys/types.h>

#include <mutex>
#include <vector>

#include "src/support/status.h"

namespace gq {

/** Call before anything that a fork must not share is made; repeated calls cost nothing. NO_MEMORY
 * if the process cannot register another fork handler. */
Status watch_forks();

/** Number of forks between the process that first watched them and this one: what was made in
 * another generation belongs to an ancestor. */
uint64_t fork_generation();

/** Registers the lock of a registry, for the life of the process: fork() waits until no thread
 * holds it, so that a child never inherits one that is held. A thread that holds one takes no
 * other. */
void hold_across_fork(std::mutex* mutex);

/** Holds back forks of other threads while it lives, so that a descriptor is never made in one
 * process and guarded in another. */
class ForkHold {
 public:
  ForkHold();
  ~ForkHold();
  ForkHold(const ForkHold&) = delete;
  ForkHold& operator=(const ForkHold&) = delete;
};

/** A descriptor that children of this process close as soon as they exist. */
class ForkGuard {
 public:
  ForkGuard() = default;
  ForkGuard(ForkGuard&& other) noexcept { take_from(&other); }
  ForkGuard& operator=(ForkGuard&& other) noexcept;
  ~ForkGuard() { close_now(); }

  /** Takes over an open descriptor. Made and attached under one ForkHold. */
  void attach(int descriptor);
  /** Closes it; in a child, where that is done already, nothing happens. */
  void close_now();
  /** -1 if there is none, and in a child. */
  int number() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }

 private:
  friend void close_guarded_in_child();
  int unlist();
  void take_from(ForkGuard* other);

  int descriptor_ = -1;
  ForkGuard* next_ = nullptr;
  ForkGuard* previous_ = nullptr;
};

/** Sockets that children of this process close as soon as they exist. They stay open here: their
 *  owner closes them. */
class ForkSockets {
 public:
  ForkSockets() = default;
  ~ForkSockets();
  ForkSockets(const ForkSockets&) = delete;
  ForkSockets& operator=(const ForkSockets&) = delete;

  /** In place of those before. Descriptors that are no sockets are left out. May throw
   *  std::bad_alloc. */
  void set(const std::vector<int>& descriptors);

 private:
  friend void close_guarded_in_child();
  /** Its owner may close it, and its number be another file's then: the inode tells. */
  struct Socket {
    int descriptor;
    ino_t inode;
  };

  void close_in_child();

  std::vector<Socket> sockets_;
  bool is_listed_ = false;
  ForkSockets* next_ = nullptr;
  ForkSockets* previous_ = nullptr;
};

}  // namespace gq

#endif
