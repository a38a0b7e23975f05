// Making, committing, sealing, checking and mapping segments. Layout: whole pages with the control
// block and, behind it, what is shown of a device's memory, then the arena.
#include "src/transport/process/segment.h"

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
// program whose timers fire within the time of a piece gets shorter ones, until they fit between.
constexpr uint64_t kCommitPieceBytes = uint64_t{64} << 20;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
// No write, no writable mapping and no hole from now on, but through mappings that are there: since
// kernel 5.1, and in no header older than that.
constexpr int kSealFutureWrite = 0x0010;

constexpr uint64_t kStatBlockBytes = 512;  // the unit of st_blocks, whatever the file system

uint64_t page_bytes() { return static_cast<uint64_t>(sysconf(_SC_PAGESIZE)); }

uint64_t whole_pages(uint64_t size_bytes) {
  const uint64_t page = page_bytes();
  return (size_bytes + page - 1) / page * page;
}

uint64_t arena_offset(uint32_t ranks) {
  return whole_pages(control_bytes(ranks) + sizeof(IpcArena));
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

Status make_file(const char* name, uint64_t length_bytes, Descriptor* file) {
  {
    ForkHold hold;
    const int made = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (made < 0) return system_failure(errno, "memfd_create for shared memory");
    file->attach(made);
  }
  if (ftruncate(file->number(), static_cast<off_t>(length_bytes)) == 0) return Status();
  return system_failure(errno, "a shared-memory file of %llu bytes",
                        static_cast<unsigned long long>(length_bytes));
}

Status seal(int file, int seals) {
  if (fcntl(file, F_ADD_SEALS, seals) == 0) return Status();
  return system_failure(errno, "sealing shared memory");
}

/** Peers can map `file` for reading only from now on, where the kernel knows how. */
Status seal_against_writing(int file, int* seals) {
  *seals = kSeals | kSealFutureWrite;
  if (fcntl(file, F_ADD_SEALS, *seals) == 0) return Status();
  if (errno != EINVAL) return system_failure(errno, "sealing shared memory");
  *seals = kSeals;
  return seal(file, *seals);
}

Status check_file(int file, uint32_t rank, int due_seals, uint64_t shortest_bytes,
                  uint64_t* length_bytes) {
  struct stat about;
  if (fstat(file, &about) != 0) {
    return system_failure(errno, "looking at the shared memory of rank %u", rank);
  }
  const int seals = fcntl(file, F_GET_SEALS);
  if (seals < 0 && errno != EINVAL) {  // EINVAL: a file that cannot be sealed
    return system_failure(errno, "looking at the seals of rank %u", rank);
  }
  const bool sealed = seals >= 0 && (seals & due_seals) == due_seals;
  if (!S_ISREG(about.st_mode) || !sealed || about.st_uid != geteuid()) {
    return fail(GQSGD_PROTOCOL,
                "what rank %u sent is not its shared memory: mode %o, seals %#x of %#x, user %u",
                rank, about.st_mode, static_cast<unsigned>(seals), static_cast<unsigned>(due_seals),
                about.st_uid);
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
  const uint64_t first_bytes = arena_offset_bytes_ + page_bytes();
  if (length_bytes_ < first_bytes) return refuse_length(first_bytes, length_bytes_);
  GQ_TRY(make_file("gqsgd", length_bytes_, &file_));
  const int file = file_.number();
  GQ_TRY(commit(file, 0, arena_offset_bytes_));
  GQ_TRY(control_.map(file, 0, arena_offset_bytes_, Access::read_write));
  GQ_TRY(arena_.map(file, arena_offset_bytes_, page_bytes(), Access::read_write));
  GQ_TRY(seal_against_writing(file, &seals_));
  GQ_TRY(make_wakeup_file());
  new (wakeup_.base()) PeerPage{};
  new (control_.base()) Control;
  for (uint32_t peer = 0; peer < ranks; ++peer) {
    new (posted_of(control()) + peer) std::atomic<uint64_t>(0);
  }
  new (ipc_arena()) IpcArena;
  return Status();
}

Status OwnSegment::make_wakeup_file() {
  GQ_TRY(make_file("gqsgd-wakeup", page_bytes(), &wakeup_file_));
  const int file = wakeup_file_.number();
  GQ_TRY(seal(file, kSeals));
  GQ_TRY(commit(file, 0, page_bytes()));
  return wakeup_.map(file, 0, page_bytes(), Access::read_write);
}

/** Its first page was mapped before the seal: the mapping grows, and no other one is needed. */
Status OwnSegment::grow_arena(size_t size_bytes) {
  const uint64_t workspace_bytes = length_bytes_ - arena_offset_bytes_;
  if (size_bytes > workspace_bytes) return refuse_length(size_bytes, workspace_bytes);
  const uint64_t new_bytes = whole_pages(size_bytes);
  const uint64_t old_bytes = committed_bytes_;
  if (new_bytes <= old_bytes) return Status();
  GQ_TRY(commit(file_.number(), arena_offset_bytes_ + old_bytes, new_bytes - old_bytes));
  GQ_TRY(arena_.grow(new_bytes));
  committed_bytes_ = new_bytes;
  return Status();
}

void OwnSegment::abandon() {
  wakeup_.abandon();
  control_.abandon();
  arena_.abandon();
}

Status PeerSegment::attach(SegmentFiles files, uint32_t rank, uint32_t ranks, int seals) {
  rank_ = rank;
  arena_offset_bytes_ = arena_offset(ranks);
  ipc_offset_bytes_ = control_bytes(ranks);
  uint64_t wakeup_bytes = 0;
  const int wakeup = files.wakeup.number();
  GQ_TRY(check_file(wakeup, rank, kSeals, page_bytes(), &wakeup_bytes));
  GQ_TRY(check_file(files.memory.number(), rank, seals, arena_offset_bytes_, &length_bytes_));
  file_ = std::move(files.memory);
  GQ_TRY(wakeup_.map(wakeup, 0, page_bytes(), Access::read_write));
  return control_.map(file_.number(), 0, arena_offset_bytes_, Access::read);
}

Status PeerSegment::reach(uint64_t end_bytes, uint64_t committed_bytes) {
  if (end_bytes <= arena_.size_bytes()) return Status();
  if (end_bytes > committed_bytes || committed_bytes > length_bytes_ - arena_offset_bytes_) {
    return fail(GQSGD_PROTOCOL,
                "rank %u sent bytes up to %llu of its arena, which has %llu of at most %llu", rank_,
                static_cast<unsigned long long>(end_bytes),
                static_cast<unsigned long long>(committed_bytes),
                static_cast<unsigned long long>(length_bytes_ - arena_offset_bytes_));
  }
  GQ_TRY(check_committed(committed_bytes));
  const uint64_t size_bytes = whole_pages(committed_bytes);
  if (arena_.size_bytes() > 0) return arena_.grow(size_bytes);
  return arena_.map(file_.number(), arena_offset_bytes_, size_bytes, Access::read);
}

/** Beyond what is committed a read would take memory, or end in a signal where there is none. What
 *  is sealed against writing has no holes later, either. */
Status PeerSegment::check_committed(uint64_t committed_bytes) const {
  struct stat about;
  if (fstat(file_.number(), &about) != 0) {
    return system_failure(errno, "looking at the shared memory of rank %u", rank_);
  }
  const uint64_t found_bytes = static_cast<uint64_t>(about.st_blocks) * kStatBlockBytes;
  if (found_bytes >= arena_offset_bytes_ + committed_bytes) return Status();
  return fail(GQSGD_PROTOCOL,
              "rank %u says that its arena has %llu bytes, but its shared memory has %llu in all",
              rank_, static_cast<unsigned long long>(committed_bytes),
              static_cast<unsigned long long>(found_bytes));
}

void PeerSegment::abandon() {
  wakeup_.abandon();
  control_.abandon();
  arena_.abandon();
}

}  // namespace gq
