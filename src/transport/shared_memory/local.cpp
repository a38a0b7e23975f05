// Control blocks in plain heap memory. The group's memory lives until the last rank has left, so
// that no rank ever reads what another has freed.
#include "src/transport/shared_memory/local.h"

#include <string.h>

#include <algorithm>
#include <atomic>
#include <new>

#include "src/transport/bootstrap/random_bytes.h"
#include "src/transport/page_memory.h"
#include "src/transport/shared_memory/local_join.h"
#include "src/transport/shared_memory/shared_memory_transport.h"
#include "src/transport/shared_memory/virtual_sums.h"
#include "src/transport/stream/local_streams.h"

namespace gq {
namespace {

/** An arena that was outgrown while peers might still read it. */
struct Outgrown {
  PageMemory memory;
  uint64_t controls_sent = 0;  // the owner's newest control message when it was outgrown
  std::unique_ptr<Outgrown> next;
};

struct Arena {
  std::atomic<unsigned char*> base{nullptr};  // what peers read
  PageMemory memory;
  std::unique_ptr<Outgrown> outgrown;
};

struct Group {
  std::atomic<uint32_t> members{0};
  uint32_t ranks = 0;
  PageMemory controls;
  std::unique_ptr<Wakeup[]> wakeups;
  std::unique_ptr<PeerControl[]> places;
  std::unique_ptr<Arena[]> arenas;
  FusedShare fused;                               // before the members, whose kernels it counts
  std::unique_ptr<LocalMember[]> stream_members;  // of calls on memory of devices
  std::unique_ptr<VirtualSums> sums;              // of virtual ranks
};

void leave(Group* group) {
  if (group->members.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  forget_leaked(group->stream_members.get(), group->ranks, &group->fused);
  delete group;
}

/** A rank of the group has broken it. */
void stop_kernels_of(void* group) {
  const Group& broken = *static_cast<const Group*>(group);
  stop_kernels(broken.stream_members.get(), broken.ranks);
}

class LocalTransport final : public SharedMemoryTransport, private HostSums, private StreamOpener {
 public:
  ~LocalTransport() override {
    if (group_ == nullptr) return;
    detach();
    leave(group_);
  }

  Status join(Group* group, uint32_t rank, uint32_t ranks, uint32_t tag) {
    auto* memory = group->controls.base() + rank * control_bytes(ranks);
    control_ = reinterpret_cast<Control*>(memory);
    GQ_TRY(attach({rank, ranks, WakeupScope::process, control_, group->places.get()}, tag,
                  {stop_kernels_of, group}));
    group->members.fetch_add(1, std::memory_order_relaxed);
    group_ = group;
    return Status();
  }

  Status arena(size_t size_bytes, unsigned char** base) override;
  HostSums* sums() override { return group_->sums != nullptr ? this : nullptr; }
  StreamOpener* streams() override { return this; }

 protected:
  Status reach(uint32_t origin, uint64_t end_bytes) override {
    const uint64_t there_bytes = arena_bytes_of(origin);
    if (end_bytes <= there_bytes) return Status();
    return fail(GQSGD_INTERNAL,
                "rank %u was sent bytes up to %llu of the arena of rank %u, which has %llu", rank(),
                static_cast<unsigned long long>(end_bytes), origin,
                static_cast<unsigned long long>(there_bytes));
  }
  const unsigned char* arena_base(uint32_t origin) const override {
    return group_->arenas[origin].base.load(std::memory_order_acquire);
  }
  void find_dead() override {}  // a thread does not die alone
  Status make_name(gqsgd_unique_id* name) override { return make_local_id(name); }

 private:
  Status begin_sum(const Sum& sum) override {
    return group_->sums->begin(rank(), sum, group_->arenas[rank()].memory.base() + sum.here_bytes);
  }
  Status end_sum(bool* done) override {
    *done = group_->sums->done(rank());
    return Status();
  }
  Status open_streams(const StreamConfig& config, std::unique_ptr<StreamTransport>* out) override {
    return open_local_streams(*this, config, group_->stream_members.get(), &group_->fused, out);
  }
  size_t least_growth_bytes(const Arena& arena) const;
  Status keep_until_read(Arena* arena);

  Group* group_ = nullptr;
  Control* control_ = nullptr;
};

Status LocalTransport::arena(size_t size_bytes, unsigned char** base) {
  GQ_TRY(intact());
  Arena& own = group_->arenas[rank()];
  const size_t old_bytes = control_->arena_bytes.load(std::memory_order_relaxed);
  *base = own.memory.base();
  if (size_bytes <= old_bytes) return Status();
  PageMemory grown;
  GQ_TRY(grown.allocate(rank(), std::max(size_bytes, least_growth_bytes(own))));
  // A peer that still reads the last operation finds the same words at either place.
  if (old_bytes > 0) memcpy(grown.base(), own.memory.base(), old_bytes);
  GQ_TRY(keep_until_read(&own));
  own.memory = std::move(grown);
  own.base.store(own.memory.base(), std::memory_order_release);
  control_->arena_bytes.store(own.memory.size_bytes(), std::memory_order_release);
  *base = own.memory.base();
  return Status();
}

/** An arena that grows by little at a time, without a call between, would leave one behind at every
 *  step: from the second step on it grows by half. */
size_t LocalTransport::least_growth_bytes(const Arena& arena) const {
  const uint64_t controls_sent = control_->controls_sent.load(std::memory_order_relaxed);
  if (!arena.outgrown || arena.outgrown->controls_sent != controls_sent) return 0;
  const size_t old_bytes = control_->arena_bytes.load(std::memory_order_relaxed);
  return old_bytes + old_bytes / 2;
}

// A rank that has sent a control message of this rank's newest operation has finished with the one
// before, so arenas outgrown before that control message are not read any more.
Status LocalTransport::keep_until_read(Arena* arena) {
  const uint64_t controls_sent = control_->controls_sent.load(std::memory_order_relaxed);
  std::unique_ptr<Outgrown>* link = &arena->outgrown;
  while (*link) {
    if ((*link)->controls_sent < controls_sent) {
      *link = std::move((*link)->next);
    } else {
      link = &(*link)->next;
    }
  }
  // No rank reads an arena of which it was sent nothing.
  if (arena->memory.size_bytes() == 0 || counters().messages_sent == 0) return Status();
  std::unique_ptr<Outgrown> kept(new (std::nothrow) Outgrown);
  if (!kept) return fail(GQSGD_NO_MEMORY, "rank %u: no memory to keep an old arena", rank());
  kept->memory = std::move(arena->memory);
  kept->controls_sent = controls_sent;
  kept->next = std::move(arena->outgrown);
  arena->outgrown = std::move(kept);
  return Status();
}

Status make_group(uint32_t ranks, std::unique_ptr<Group>* out) {
  std::unique_ptr<Group> group(new (std::nothrow) Group);
  const size_t size_bytes = ranks * control_bytes(ranks);
  bool has_controls = false;
  if (group) {
    has_controls = group->controls.allocate(0, size_bytes).ok();
    group->wakeups.reset(new (std::nothrow) Wakeup[ranks]);
    group->places.reset(new (std::nothrow) PeerControl[ranks]);
    group->arenas.reset(new (std::nothrow) Arena[ranks]);
    group->stream_members.reset(new (std::nothrow) LocalMember[ranks]);
  }
  if (!group || !has_controls || !group->wakeups || !group->places || !group->arenas ||
      !group->stream_members) {
    return fail(GQSGD_NO_MEMORY, "no memory for a local group of %u ranks (%zu bytes)", ranks,
                size_bytes);
  }
  group->ranks = ranks;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    auto* control = new (group->controls.base() + rank * control_bytes(ranks)) Control;
    for (uint32_t peer = 0; peer < ranks; ++peer) {
      new (posted_of(control) + peer) std::atomic<uint64_t>(0);
    }
    group->places[rank] = {&group->wakeups[rank], control};
  }
  *out = std::move(group);
  return Status();
}

Status attach_all(Group* group, uint32_t ranks, std::unique_ptr<HostTransport>* transports) {
  uint32_t tag = 0;
  GQ_TRY(random_bytes(&tag, sizeof tag));
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    std::unique_ptr<LocalTransport> transport(new (std::nothrow) LocalTransport);
    if (!transport) return fail(GQSGD_NO_MEMORY, "no memory for rank %u of %u", rank, ranks);
    GQ_TRY(transport->join(group, rank, ranks, tag));
    transports[rank] = std::move(transport);
  }
  return Status();
}

Status make_sums(uint32_t ranks, Group* group) {
  group->sums.reset(new (std::nothrow) VirtualSums);
  if (group->sums && group->sums->resize(ranks)) return Status();
  return fail(GQSGD_NO_MEMORY, "no memory for a local group of %u ranks", ranks);
}

Status create(uint32_t ranks, bool in_turn, std::unique_ptr<HostTransport>* transports) {
  if (ranks == 0 || ranks > kLocalRanksMax) {
    return fail(GQSGD_INVALID_ARGUMENT, "a local group has 1 to %u ranks, not %u", kLocalRanksMax,
                ranks);
  }
  std::unique_ptr<Group> made;
  GQ_TRY(make_group(ranks, &made));
  if (in_turn) GQ_TRY(make_sums(ranks, made.get()));
  Group* group = made.release();
  group->members.store(1, std::memory_order_relaxed);  // this function's own hold
  const Status status = attach_all(group, ranks, transports);
  if (!status.ok()) {
    for (uint32_t rank = 0; rank < ranks; ++rank) transports[rank].reset();
  }
  leave(group);
  return status;
}

}  // namespace

Status create_local(uint32_t ranks, std::unique_ptr<HostTransport>* transports) {
  return create(ranks, false, transports);
}

Status create_virtual(uint32_t ranks, std::unique_ptr<HostTransport>* transports) {
  return create(ranks, true, transports);
}

}  // namespace gq
