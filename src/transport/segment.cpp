// Making, committing, checking and mapping segments. Layout: one page with the bell, whole pages
// with the control block and, behind it, what is shown of a device's memory, then the arena.
#include "src/transport/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <new>

#include "src/transport/system_failure.h"

namespace gq {
namespace {

// Sparse: the length only bounds the arena, memory is what has been committed.
constexpr uint64_t kLengthBytes = uint64_t{1} << 40;
// Committed in pieces, because a signal makes the kernel give back a piece it has not finished: a
// program whose timers strike sooner than a piece takes gets shorter ones, until they fit between.
constexpr uint64_t kCommitPieceBytes = uint64_t{64} << 20;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

uint64_t page_bytes() { return static_cast<uint64_t>(sysconf(_SC_PAGESIZE)); }

uint64_t whole_pages(uint64_t size_bytes) {
  const uint64_t page = page_bytes();
  return (size_bytes + page - 1) / page * page;
}

uint64_t arena_offset(uint32_t ranks) {
  return page_bytes() + whole_pages(control_bytes(ranks) + sizeof(IpcArena));
}

/** The logical length, less where the process may not make so long a file: asking for more would
 *  raise a signal. */
uint64_t allowed_length() {
  rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= kLengthBytes) return kLengthBytes;
  return limit.rlim_cur / page_bytes() * page_bytes();
}

Status refuse_length(uint64_t wanted_bytes, uint64_t length_bytes) {
  return fail(GQSGD_NO_RESOURCE,
              "shared memory of %llu bytes, where at most %llu are allowed (ulimit -f limits it)",
              static_cast<unsigned long long>(wanted_bytes),
              static_cast<unsigned long long>(length_bytes));
}

/** More than the machine has would end some process, not this call. */
bool exceeds_machine(uint64_t size_bytes) {
  struct sysinfo info;
  if (sysinfo(&info) != 0) return false;
  return size_bytes / info.mem_unit > info.totalram + info.totalswap;
}

Status commit(int file, uint64_t offset_bytes, uint64_t size_bytes) {
  if (exceeds_machine(size_bytes)) {
    return system_failure(ENOMEM, "committing %llu bytes of shared memory",
                          static_cast<unsigned long long>(size_bytes));
  }
  uint64_t longest_bytes = kCommitPieceBytes;
  for (uint64_t done = 0; done < size_bytes;) {
    const uint64_t piece = std::min(size_bytes - done, longest_bytes);
    if (fallocate(file, 0, static_cast<off_t>(offset_bytes + done), static_cast<off_t>(piece)) ==
        0) {
      done += piece;
      continue;
    }
    if (errno != EINTR) {
      return system_failure(errno, "committing %llu bytes of shared memory",
                            static_cast<unsigned long long>(size_bytes));
    }
    longest_bytes = std::max(page_bytes(), whole_pages(piece / 2));
  }
  return Status();
}

Status check_file(int file, uint32_t rank, uint64_t shortest_bytes, uint64_t* length_bytes) {
  struct stat about;
  if (fstat(file, &about) != 0) {
    return system_failure(errno, "looking at the shared memory of rank %u", rank);
  }
  const int seals = fcntl(file, F_GET_SEALS);
  if (seals < 0 && errno != EINVAL) {  // EINVAL: a file that cannot be sealed
    return system_failure(errno, "looking at the seals of rank %u", rank);
  }
  const bool sealed = seals >= 0 && (seals & kSeals) == kSeals;
  if (!S_ISREG(about.st_mode) || !sealed || about.st_uid != geteuid()) {
    return fail(GQSGD_PROTOCOL,
                "what rank %u sent is not its shared memory: mode %o, seals %#x, user %u", rank,
                about.st_mode, static_cast<unsigned>(seals), about.st_uid);
  }
  *length_bytes = static_cast<uint64_t>(about.st_size);
  if (*length_bytes >= shortest_bytes) return Status();
  return fail(GQSGD_PROTOCOL, "the shared memory of rank %u has %llu bytes, at least %llu are due",
              rank, static_cast<unsigned long long>(*length_bytes),
              static_cast<unsigned long long>(shortest_bytes));
}

}  // namespace

Status OwnSegment::make(uint32_t ranks) {
  arena_offset_bytes_ = arena_offset(ranks);
  ipc_offset_bytes_ = control_bytes(ranks);
  length_bytes_ = allowed_length();
  if (length_bytes_ < arena_offset_bytes_) {
    return refuse_length(arena_offset_bytes_, length_bytes_);
  }
  file_.reset(memfd_create("gqsgd", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file_.is_open()) return system_failure(errno, "memfd_create for shared memory");
  const int file = file_.number();
  if (ftruncate(file, static_cast<off_t>(length_bytes_)) != 0) {
    return system_failure(errno, "a shared-memory file of %llu bytes",
                          static_cast<unsigned long long>(length_bytes_));
  }
  if (fcntl(file, F_ADD_SEALS, kSeals) != 0) return system_failure(errno, "sealing shared memory");
  GQ_TRY(commit(file, 0, arena_offset_bytes_));
  GQ_TRY(bell_.map(file, 0, page_bytes(), Access::read_write));
  GQ_TRY(control_.map(file, page_bytes(), arena_offset_bytes_ - page_bytes(), Access::read_write));
  new (bell_.base()) Bell;
  new (control_.base()) Control;
  for (uint32_t peer = 0; peer < ranks; ++peer) {
    new (posted_of(control()) + peer) std::atomic<uint64_t>(0);
  }
  new (ipc_arena()) IpcArena;
  return Status();
}

Status OwnSegment::grow_arena(size_t size_bytes) {
  const uint64_t room_bytes = length_bytes_ - arena_offset_bytes_;
  if (size_bytes > room_bytes) return refuse_length(size_bytes, room_bytes);
  const uint64_t new_bytes = whole_pages(size_bytes);
  const uint64_t old_bytes = arena_.size_bytes();
  if (new_bytes <= old_bytes) return Status();
  GQ_TRY(commit(file_.number(), arena_offset_bytes_ + old_bytes, new_bytes - old_bytes));
  if (old_bytes > 0) return arena_.grow(new_bytes);
  return arena_.map(file_.number(), arena_offset_bytes_, new_bytes, Access::read_write);
}

void OwnSegment::abandon() {
  bell_.abandon();
  control_.abandon();
  arena_.abandon();
}

Status PeerSegment::attach(Descriptor file, uint32_t rank, uint32_t ranks) {
  rank_ = rank;
  arena_offset_bytes_ = arena_offset(ranks);
  ipc_offset_bytes_ = control_bytes(ranks);
  GQ_TRY(check_file(file.number(), rank, arena_offset_bytes_, &length_bytes_));
  file_ = std::move(file);
  const uint64_t control_offset_bytes = page_bytes();
  GQ_TRY(bell_.map(file_.number(), 0, page_bytes(), Access::read_write));
  return control_.map(file_.number(), control_offset_bytes,
                      arena_offset_bytes_ - control_offset_bytes, Access::read);
}

Status PeerSegment::reach(uint64_t end_bytes, uint64_t committed_bytes) {
  if (end_bytes <= arena_.size_bytes()) return Status();
  // Beyond what is committed a read would take memory, or end in a signal where there is none.
  if (end_bytes > committed_bytes || committed_bytes > length_bytes_ - arena_offset_bytes_) {
    return fail(GQSGD_PROTOCOL,
                "rank %u sent bytes up to %llu of its arena, which has %llu of at most %llu", rank_,
                static_cast<unsigned long long>(end_bytes),
                static_cast<unsigned long long>(committed_bytes),
                static_cast<unsigned long long>(length_bytes_ - arena_offset_bytes_));
  }
  const uint64_t size_bytes = whole_pages(committed_bytes);
  if (arena_.size_bytes() > 0) return arena_.grow(size_bytes);
  return arena_.map(file_.number(), arena_offset_bytes_, size_bytes, Access::read);
}

void PeerSegment::abandon() {
  bell_.abandon();
  control_.abandon();
  arena_.abandon();
}

}  // namespace gq
