// How ranks find out whether each has a device of its own that reaches the others, and the kernels
// of those that do.
#include "src/transport/stream/ipc_fused.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "src/support/log.h"

namespace gq {
namespace {

size_t page_bytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

void* page_of(uint64_t* word) {
  return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(word) & ~(page_bytes() - 1));
}

bool same(const DeviceIdentity& a, const DeviceIdentity& b) {
  return memcmp(a.bytes, b.bytes, sizeof a.bytes) == 0;
}

}  // namespace

IpcFused::~IpcFused() {
  shared_memory().watch_device({});
  if (leaked_) {
    share_.keep();
    memory_.forget();
    return;
  }
  OnDevice here(device());
  if (here.enter(ordinal()).ok()) close_all();
  give_up();
  device().end_event(done_);
}

Status IpcFused::reserve() {
  if (state_ != State::unknown) return Status();
  GQ_TRY(show());
  state_ = State::shown;
  return Status();
}

Status IpcFused::prepare(uint64_t, StreamHandle) { return reserve(); }

/** May have failed in the middle before: for want of memory, which callers learn. What else a
 *  device lacks is an answer. */
Status IpcFused::show() {
  if (done_ == nullptr) GQ_TRY(device().make_event(&done_));
  GQ_TRY(make_buffers());
  const Status found = find_kernels();
  if (found.ok()) own_.has_kernels.say_yes();
  if (!found.ok()) own_.has_kernels.say_no(found);
  return Status();
}

/** Peers write flags there once they have this rank's control message, so it is clear by then. */
Status IpcFused::make_buffers() {
  const size_t unit_count = (sizeof(FusedBuffers) + kExportUnitBytes - 1) / kExportUnitBytes;
  GQ_TRY(memory_.reserve(device(), unit_count * kExportUnitBytes));
  StreamHandle stream = nullptr;
  GQ_TRY(device().make_stream(&stream));
  Status cleared = clear(memory_.as<FusedBuffers>(), stream);
  if (cleared.ok()) cleared = device().record(done_, stream);
  if (cleared.ok()) cleared = streams().wait_for_device(done_);
  device().end_stream(stream);
  return cleared;
}

Status IpcFused::find_kernels() {
  const Ipc& ipc = *device().ipc;
  GQ_TRY(ipc.identity(ordinal(), &own_.device));
  FusedPlace place;
  GQ_TRY(FusedPlace::of(device(), ordinal(), &place));
  uint32_t block_count = 0;
  GQ_TRY(share_.block_count(device(), {&place, 1}, &block_count));
  if (block_count == 0) {
    return fail(GQSGD_UNSUPPORTED,
                "kernels that wait have no room on the device of rank %u: other groups have it, or "
                "CUDA_LAUNCH_BLOCKING is set",
                rank());
  }
  own_.block_count.store(block_count, std::memory_order_relaxed);
  for (uint32_t peer = 0; peer < size(); ++peer) {
    if (leave_on_device_[peer] != nullptr) continue;
    void* page = nullptr;
    GQ_TRY(ipc.register_page(page_of(leave_[peer]), page_bytes(), &page));
    const size_t within = reinterpret_cast<uintptr_t>(leave_[peer]) % page_bytes();
    leave_on_device_[peer] =
        reinterpret_cast<uint64_t*>(static_cast<unsigned char*>(page) + within);
  }
  return ipc.export_memory(memory_.data(), &own_.buffers);
}

Status IpcFused::block_count(uint32_t* count) {
  if (state_ == State::shown) {
    GQ_TRY(decide());
    state_ = State::decided;
  }
  *count = block_count_;
  return Status();
}

/** The same on all ranks: what each has shown came before its control message. */
Status IpcFused::decide() {
  char why[sizeof IpcReply::why] = "";
  bool all = all_have_kernels(why);
  if (all) {
    const Status opened = open_all();
    if (opened.ok()) own_.opens.say_yes();
    if (!opened.ok()) own_.opens.say_no(opened);
    // No kernel is enqueued before: CUDA may wait for a device while it opens memory.
    GQ_TRY(streams().wait_for_hosts("open the memory of others"));
    for (const IpcArena* arena : all_) {
      if (!all || arena->fused.opens.is_yes()) continue;
      all = false;
      arena->fused.opens.copy_why(why);
    }
  }
  if (!all) {
    refuse();
    log_line(GQSGD_LOG_INFO, LogSubject{shared_memory().tag(), rank()},
             "calls on %s device %d are made by stages and not by one kernel: %s", device().name,
             ordinal(), why);
    return Status();
  }
  block_count_ = kFusedBlocksMax;
  for (const IpcArena* arena : all_) {
    block_count_ = std::min(block_count_, arena->fused.block_count.load(std::memory_order_relaxed));
  }
  shared_memory().watch_device({waits, this});
  log_line(GQSGD_LOG_INFO, LogSubject{shared_memory().tag(), rank()},
           "calls on %s device %d that can be are one kernel of each rank, of %u blocks",
           device().name, ordinal(), block_count_);
  return Status();
}

bool IpcFused::all_have_kernels(char (&why)[sizeof IpcReply::why]) const {
  for (uint32_t peer = 0; peer < size(); ++peer) {
    const IpcFusedPart& part = all_[peer]->fused;
    if (!part.has_kernels.is_yes()) {
      part.has_kernels.copy_why(why);
      return false;
    }
    if (is_device_of_others(peer)) {
      snprintf(why, sizeof why, "rank %u shares its device with another one", peer);
      return false;
    }
  }
  return true;
}

bool IpcFused::is_device_of_others(uint32_t peer) const {
  uint32_t found = 0;
  for (const IpcArena* arena : all_) {
    found += same(arena->fused.device, all_[peer]->fused.device) ? 1 : 0;
  }
  return found > 1;
}

Status IpcFused::open_all() {
  tried_ = true;
  buffers_[rank()] = memory_.as<FusedBuffers>();
  for (uint32_t peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    void* memory = nullptr;
    const Status status = device().ipc->open_memory(all_[peer]->fused.buffers, &memory);
    if (!status.ok()) {
      return fail(status.code(), "rank %u cannot open the memory of rank %u: %s", rank(), peer,
                  status.sentence());
    }
    buffers_[peer] = static_cast<FusedBuffers*>(memory);
  }
  return Status();
}

void IpcFused::close_all() {
  for (uint32_t peer = 0; peer < size(); ++peer) {
    FusedBuffers* const buffers = std::exchange(buffers_[peer], nullptr);
    if (peer != rank() && buffers != nullptr) device().ipc->close_memory(buffers);
    uint64_t* const leave = std::exchange(leave_on_device_[peer], nullptr);
    if (leave != nullptr) device().ipc->unregister_page(page_of(leave_[peer]));
  }
}

void IpcFused::refuse() {
  close_all();
  give_up();
  block_count_ = 0;
  state_ = State::decided;
}

void IpcFused::give_up() {
  if (!tried_ || memory_.data() == nullptr) return DeviceBuffer().swap(memory_);
  lent_.take(&memory_);
}

Status IpcFused::launch(uint64_t, FusedArgs* args, TakeStepArgs* step, StreamHandle stream) {
  GQ_TRY(enqueue(args, step, stream));
  count_traffic(*args);
  GQ_TRY(device().record(done_, stream));
  if (args->timeout_ns != UINT64_MAX) return Status();
  GQ_TRY(streams().wait_for_device(done_));
  return late_failure();  // the kernel may have left, because another rank saw a death first
}

void IpcFused::know_peers(FusedArgs* args) const {
  for (uint32_t peer = 0; peer < size(); ++peer) {
    args->buffers[peer] = buffers_[peer];
    args->leave[peer] = leave_on_device_[peer];
  }
}

/** Asked when a peer has died: whether a kernel of this rank may be waiting for one of its. */
bool IpcFused::waits(void* self) {
  const IpcFused& fused = *static_cast<const IpcFused*>(self);
  bool done = false;
  OnDevice here(fused.device());  // the thread may have another one, or none
  if (!here.enter(fused.ordinal()).ok()) return true;
  return !fused.device().query(fused.done_, &done).ok() || !done;
}

}  // namespace gq
