// How ranks agree on the way of words, and what is different where it is the direct one.
#include "src/transport/stream/ipc_streams.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <algorithm>
#include <new>
#include <utility>

#include "src/support/log.h"

namespace gq {
namespace {

using Why = char[sizeof IpcReply::why];

/** False, and why, unless all ranks agreed. */
bool all_say_yes(const std::vector<const IpcArena*>& all, IpcReply IpcArena::*reply, Why* why) {
  for (const IpcArena* arena : all) {
    if ((arena->*reply).is_yes()) continue;
    (arena->*reply).copy_why(*why);
    return false;
  }
  return true;
}

bool are_of_one_domain(const std::vector<const IpcArena*>& all, Why* why) {
  for (uint32_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank]->domain.load(std::memory_order_relaxed) ==
        all[0]->domain.load(std::memory_order_relaxed)) {
      continue;
    }
    snprintf(*why, sizeof *why, "rank %u is in another PID namespace than rank 0", rank);
    return false;
  }
  return true;
}

}  // namespace

void IpcReply::say_no(const Status& reason) {
  snprintf(why, sizeof why, "%s", reason.sentence());
  answer.store(IpcAnswer::no, std::memory_order_release);
}

void IpcReply::copy_why(char (&text)[sizeof why]) const {
  memcpy(text, why, sizeof text);
  text[sizeof text - 1] = '\0';
  for (char* letter = text; *letter != '\0'; ++letter) {
    if (*letter < ' ' || *letter > '~') *letter = '?';
  }
}

IpcStreams::~IpcStreams() {
  if (leaked_) return;  // streams may still read from there
  OnDevice here(device());
  if (here.enter(ordinal()).ok()) close_all();
}

Status IpcStreams::attach() {
  GQ_TRY(StagedStreams::attach());
  opened_.resize(size());
  export_count_ = own_.generation.load(std::memory_order_relaxed);
  lent_.device = &device();
  lent_.ordinal = ordinal();
  free_returned();
  if (size() == 1) return Status();
  if (device().ipc == nullptr) {
    own_.exports.say_no(fail(GQSGD_UNSUPPORTED,
                             "the device of rank %u shares no memory between processes", rank()));
    return Status();
  }
  own_.domain.store(device().ipc->domain(), std::memory_order_relaxed);
  exports_ = true;
  own_.exports.say_yes();
  return Status();
}

Status IpcStreams::begin_call() {
  for (; told_count_ > 0; --told_count_) lent_.memory.pop_front();
  told_count_ = lent_.memory.size();
  if (size() == 1 || way_ == Way::staged) return Status();
  if (way_ == Way::undecided) return choose_way();
  for (uint32_t peer = 0; peer < size(); ++peer) {
    const uint64_t newest = all_[peer]->generation.load(std::memory_order_acquire);
    if (opened_[peer].generation != newest) close(&opened_[peer]);
  }
  return Status();
}

Status IpcStreams::choose_way() {
  Why why = "";
  bool direct = all_say_yes(all_, &IpcArena::exports, &why) && are_of_one_domain(all_, &why);
  if (direct) {
    tried_ = true;
    const Status opened = open_all();
    if (opened.ok()) own_.opens.say_yes();
    if (!opened.ok()) own_.opens.say_no(opened);
    GQ_TRY(wait_for_hosts("open the memory of others"));
    direct = all_say_yes(all_, &IpcArena::opens, &why);
  }
  way_ = direct ? Way::direct : Way::staged;
  if (direct) return Status();
  close_all();
  fused_.refuse();
  log_line(GQSGD_LOG_WARN, LogSubject{tag(), rank()},
           "packed codes of %s device %d go to other processes through host memory: %s",
           device().name, ordinal(), why);
  return Status();
}

Status IpcStreams::open_all() {
  for (uint32_t peer = 0; peer < size(); ++peer) {
    if (peer != rank()) GQ_TRY(open(peer));
  }
  return Status();
}

/** Only while the peer waits for this rank: its next export takes the place of the handle. */
Status IpcStreams::open(uint32_t peer) {
  const IpcArena& theirs = *all_[peer];
  Opened& opened = opened_[peer];
  const uint64_t newest = theirs.generation.load(std::memory_order_acquire);
  if (opened.generation == newest && opened.memory != nullptr) return Status();
  close(&opened);
  void* memory = nullptr;
  const Status status = device().ipc->open_memory(theirs.handle, &memory);
  if (!status.ok()) {
    return fail(status.code(), "rank %u cannot open the memory of rank %u: %s", rank(), peer,
                status.sentence());
  }
  opened = {newest, memory, theirs.size_bytes.load(std::memory_order_relaxed)};
  return Status();
}

void IpcStreams::close(Opened* opened) {
  if (opened->memory != nullptr) device().ipc->close_memory(opened->memory);
  *opened = Opened();
}

void IpcStreams::close_all() {
  for (Opened& opened : opened_) close(&opened);
}

Status IpcStreams::reserve(const Device& device, DeviceBuffer* memory, size_t size_bytes) {
  if (size_bytes <= memory->size_bytes()) return Status();
  transfer_ownership(memory);
  if (!exports_ || way_ == Way::staged) return memory->reserve(device, size_bytes);
  const size_t unit_count = (size_bytes + kExportUnitBytes - 1) / kExportUnitBytes;
  GQ_TRY(memory->reserve(device, unit_count * kExportUnitBytes));
  const Status exported = export_memory(*memory);
  if (exported.ok()) return Status();
  if (way_ == Way::undecided) {
    exports_ = false;
    own_.exports.say_no(exported);
    return Status();
  }
  DeviceBuffer().swap(*memory);
  return exported;
}

Status IpcStreams::export_memory(const DeviceBuffer& memory) {
  IpcHandle handle;
  const Status status = device().ipc->export_memory(memory.data(), &handle);
  if (!status.ok()) {
    return fail(status.code(), "rank %u cannot export its memory: %s", rank(), status.sentence());
  }
  arena_ = memory.data();
  arena_bytes_ = memory.size_bytes();
  own_.handle = handle;
  own_.size_bytes.store(memory.size_bytes(), std::memory_order_relaxed);
  own_.generation.store(++export_count_, std::memory_order_release);
  return Status();
}

void IpcStreams::transfer_ownership(DeviceBuffer* memory) {
  if (!tried_ || arena_ == nullptr || memory->data() != arena_) return;
  arena_ = nullptr;
  lent_.take(memory);
}

void IpcStreams::leak_in_use() {
  StagedStreams::leak_in_use();
  fused_.leak_in_use();
  leaked_ = true;
}

Status IpcStreams::show(const unsigned char* base, const Transfer* transfers, size_t transfer_count,
                        StreamHandle stream) {
  // Control messages are not in the arena, and small: they go through host memory.
  direct_ = way_ == Way::direct && is_exported(base);
  if (!direct_) return StagedStreams::show(base, transfers, transfer_count, stream);
  own_.shown_bytes.store(static_cast<uint64_t>(base - arena_), std::memory_order_relaxed);
  const auto sends = [](const Transfer& transfer) { return transfer.sends; };
  if (std::none_of(transfers, transfers + transfer_count, sends)) return Status();
  return wait_until_passed(stream);
}

Status IpcStreams::begin_fetching(uint32_t peer, size_t end_bytes, StreamHandle stream) {
  if (!direct_) return StagedStreams::begin_fetching(peer, end_bytes, stream);
  GQ_TRY(open(peer));
  const Opened& theirs = opened_[peer];
  const uint64_t shown_bytes = all_[peer]->shown_bytes.load(std::memory_order_relaxed);
  if (shown_bytes > theirs.size_bytes || end_bytes > theirs.size_bytes - shown_bytes) {
    abort_group(GQSGD_PROTOCOL, peer);
    return fail(GQSGD_PROTOCOL,
                "rank %u: rank %u shows %zu bytes at %" PRIu64 " of its memory, which has %" PRIu64
                "; its shared memory has been overwritten",
                rank(), peer, end_bytes, shown_bytes, theirs.size_bytes);
  }
  set_shown(static_cast<const unsigned char*>(theirs.memory) + shown_bytes);
  return Status();
}

Status open_ipc_streams(SharedMemoryTransport& shared_memory, const StreamConfig& config,
                        IpcPlaces places, std::unique_ptr<StreamTransport>* out) {
  try {
    auto made = std::make_unique<IpcStreams>(shared_memory, config, std::move(places));
    GQ_TRY(made->attach());
    *out = std::move(made);
    return Status();
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "no memory for calls of rank %u on streams", shared_memory.rank());
  }
}

}  // namespace gq
