// The shared memory of one rank of a group of processes, in two sealed, nameless files: one that
// its peers read, with its control block, what it shows of its memory on a device, and its arena;
// and a page that they write, with the words that it sleeps on.
#ifndef GQ_TRANSPORT_PROCESS_SEGMENT_H
#define GQ_TRANSPORT_PROCESS_SEGMENT_H

#include <stddef.h>
#include <stdint.h>

#include <utility>

#include "src/transport/process/descriptor.h"
#include "src/transport/process/mapping.h"
#include "src/transport/shared_memory/control.h"
#include "src/transport/stream/ipc_arena.h"

namespace gq {

/** What peers write of a rank. All zero at the start. */
struct PeerPage {
  Wakeup wakeup;
  alignas(64) uint64_t leave;  ///< its fused kernels exit once it is not 0 (kernels/fused.h)
};

/** One machine's processes; 4 descriptors a peer at most while a group forms, 2 afterwards. */
inline constexpr uint32_t kProcessRanksMax = 1024;

/** The own segment. Its length never changes, because peers would fault at the end of a file that
 * shrinks; its memory is committed before it is touched, so that a machine that is full gives a
 * status instead of a signal. Every mapping through which the owner writes is made before the file
 * is sealed against further ones; the arena's then grows. A forked child does not keep the file: it
 * would keep the memory of a group that has ended. */
class OwnSegment {
 public:
  Status make(uint32_t ranks);
  Status grow_arena(size_t size_bytes);

  int descriptor() const { return file_.number(); }
  /** The page that peers write; mapped here, so that the descriptor is theirs. */
  Descriptor take_wakeup_file() { return std::move(wakeup_file_); }
  /** On kernels before 5.1 the file that peers read is not sealed against their writing. */
  int seals() const { return seals_; }
  PeerPage* page() const { return reinterpret_cast<PeerPage*>(wakeup_.base()); }
  Control* control() const { return reinterpret_cast<Control*>(control_.base()); }
  IpcArena* ipc_arena() const {
    return reinterpret_cast<IpcArena*>(control_.base() + ipc_offset_bytes_);
  }
  unsigned char* arena() const { return arena_.base(); }
  size_t arena_bytes() const { return committed_bytes_; }
  void abandon();

 private:
  Status make_wakeup_file();

  Descriptor file_;
  Descriptor wakeup_file_;
  int seals_ = 0;
  uint64_t length_bytes_ = 0;
  uint64_t arena_offset_bytes_ = 0;
  size_t ipc_offset_bytes_ = 0;  // from the control block
  size_t committed_bytes_ = 0;   // of the arena
  Mapping wakeup_;
  Mapping control_;
  Mapping arena_;
};

/** The two files of a peer. */
struct SegmentFiles {
  Descriptor memory;
  Descriptor wakeup;
};

/** A peer's segment: its wakeup may be raised, everything else is read only. A forked child does
 *  not keep its file either. */
class PeerSegment {
 public:
  /** Checks that `files` are what rank `rank` of `ranks` would make: kind, owner, seals, length.
   *  `seals`: of the own segment, which the same kernel has sealed. */
  Status attach(SegmentFiles files, uint32_t rank, uint32_t ranks, int seals);
  /** Makes bytes up to `end_bytes` of the arena readable; the peer has published that it committed
   *  `committed_bytes`. PROTOCOL if there are fewer. */
  Status reach(uint64_t end_bytes, uint64_t committed_bytes);

  PeerPage* page() const { return reinterpret_cast<PeerPage*>(wakeup_.base()); }
  const Control* control() const { return reinterpret_cast<const Control*>(control_.base()); }
  const IpcArena* ipc_arena() const {
    return reinterpret_cast<const IpcArena*>(control_.base() + ipc_offset_bytes_);
  }
  const unsigned char* arena() const { return arena_.base(); }
  void abandon();

 private:
  Status check_committed(uint64_t committed_bytes) const;

  Descriptor file_;
  uint32_t rank_ = 0;
  uint64_t length_bytes_ = 0;
  uint64_t arena_offset_bytes_ = 0;
  size_t ipc_offset_bytes_ = 0;  // from the control block
  Mapping wakeup_;
  Mapping control_;
  Mapping arena_;
};

}  // namespace gq

#endif
