// Control blocks in segments of several processes; deaths are seen on their liveness pipes.
#include "src/transport/process/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <new>

#include "src/support/clock.h"
#include "src/support/posix/fork.h"
#include "src/transport/bootstrap/bootstrap.h"
#include "src/transport/bootstrap/random_bytes.h"
#include "src/transport/process/descriptor_limit.h"
#include "src/transport/process/liveness_pipe.h"
#include "src/transport/process/segment.h"
#include "src/transport/shared_memory/shared_memory_transport.h"
#include "src/transport/stream/ipc_lent_memory.h"
#include "src/transport/stream/ipc_streams.h"
#include "src/transport/system_failure.h"

namespace gq {
namespace {

// Descriptors of one rank: a file, its copy, the file with the words it sleeps on, two ends of the
// liveness pipe, one socket; then what each member brings, and for rank 0 a socket a member.
constexpr uint32_t kOwnDescriptors = 6;

Status check_limit(const JoinToken& join_token) {
  const uint32_t per_member = kMemberDescriptors + (join_token.rank == 0 ? 1 : 0);
  return check_descriptor_limit(kOwnDescriptors + per_member * join_token.size, join_token.size);
}

/** poll() takes no more descriptors than the process may have open by now, also where its limit was
 *  lowered when they were. A pipe into which nothing is written has an end to read, or nothing. */
bool has_hung_up(int liveness_pipe) {
  char byte;
  return liveness_pipe >= 0 && read(liveness_pipe, &byte, sizeof byte) == 0;
}

Status bootstrap_alone(Member own, GroupMembers* group) {
  group->members.reset(new (std::nothrow) Member[1]);
  if (!group->members) return fail(GQSGD_NO_MEMORY, "no memory for a group of 1 rank");
  group->members[0] = std::move(own);
  return random_bytes(&group->tag, sizeof group->tag);
}

class ProcessTransport final : public SharedMemoryTransport, private StreamOpener {
 public:
  ~ProcessTransport() override;

  Status join(const JoinToken& join_token, const Status& own);
  Status arena(size_t size_bytes, unsigned char** base) override;
  bool has_met_all() const override { return true; }
  StreamOpener* streams() override { return this; }

 protected:
  Status reach(uint32_t origin, uint64_t end_bytes) override {
    if (origin == rank()) return Status();
    return peers_[origin].reach(end_bytes, arena_bytes_of(origin));
  }
  const unsigned char* arena_base(uint32_t origin) const override {
    return origin == rank() ? own_.arena() : peers_[origin].arena();
  }
  void find_dead() override;
  Status make_name(gqsgd_unique_id* name) override { return make_unique_id(name); }

 private:
  Status open_streams(const StreamConfig& config, std::unique_ptr<StreamTransport>* out) override;
  static void stop_kernels_of_all(void* self);
  PeerPage* page_of(uint32_t rank_there) const {
    return rank_there == rank() ? own_.page() : peers_[rank_there].page();
  }
  Status bring(const JoinToken& join_token, Member* member);
  Status attach(const JoinToken& join_token, GroupMembers* group);

  uint64_t generation_ = fork_generation();
  OwnSegment own_;
  LivenessPipe liveness_pipe_;
  std::unique_ptr<PeerSegment[]> peers_;
  std::unique_ptr<PeerControl[]> places_;
  std::unique_ptr<Descriptor[]> liveness_pipes_;  // what is watched of each peer
  std::unique_ptr<pollfd[]> watched_;             // rank r at r; the own one is never open
  std::unique_ptr<LentMemory> lent_;              // null before the first call on a stream
  bool attached_ = false;
};

ProcessTransport::~ProcessTransport() {
  if (generation_ == fork_generation()) {
    if (attached_) detach();
    if (lent_ && !lent_->memory.empty()) {
      lent_->liveness_pipes = std::move(liveness_pipes_);
      lent_->ranks = size();
      keep_until_returned(std::move(lent_));
    }
    return;
  }
  // In a child the group is the parent's, and the memory is not even mapped.
  own_.abandon();
  for (uint32_t peer = 0; attached_ && peer < size(); ++peer) peers_[peer].abandon();
}

Status ProcessTransport::join(const JoinToken& join_token, const Status& own) {
  Member member;
  const Status brought = own.ok() ? bring(join_token, &member) : own;
  GroupMembers group;
  if (join_token.size == 1) {
    GQ_TRY(brought);
    GQ_TRY(bootstrap_alone(std::move(member), &group));
    return attach(join_token, &group);
  }
  std::unique_ptr<Bootstrap> bootstrap;
  GQ_TRY(open_bootstrap(join_token, &bootstrap));
  GQ_TRY(bootstrap->gather(brought, std::move(member), &group));
  return bootstrap->conclude(attach(join_token, &group));
}

Status ProcessTransport::bring(const JoinToken& join_token, Member* member) {
  GQ_TRY(check_limit(join_token));
  GQ_TRY(own_.make(join_token.size));
  GQ_TRY(liveness_pipe_.make(&member->liveness_pipe));
  member->wakeup = own_.take_wakeup_file();
  ForkHold hold;
  const int second = fcntl(own_.descriptor(), F_DUPFD_CLOEXEC, 0);
  if (second < 0) return system_failure(errno, "a second descriptor of the shared memory");
  member->memory.attach(second);
  return Status();
}

Status ProcessTransport::attach(const JoinToken& join_token, GroupMembers* group) {
  const uint32_t ranks = join_token.size;
  peers_.reset(new (std::nothrow) PeerSegment[ranks]);
  places_.reset(new (std::nothrow) PeerControl[ranks]);
  liveness_pipes_.reset(new (std::nothrow) Descriptor[ranks]);
  watched_.reset(new (std::nothrow) pollfd[ranks]);
  if (!peers_ || !places_ || !liveness_pipes_ || !watched_) {
    return fail(GQSGD_NO_MEMORY, "no memory for what rank %u knows of %u ranks", join_token.rank,
                ranks);
  }
  for (uint32_t peer = 0; peer < ranks; ++peer) {
    watched_[peer] = {-1, 0, 0};
    if (peer == join_token.rank) {
      places_[peer] = {&own_.page()->wakeup, own_.control()};
      continue;
    }
    Member& member = group->members[peer];
    GQ_TRY(peers_[peer].attach({std::move(member.memory), std::move(member.wakeup)}, peer, ranks,
                               own_.seals()));
    places_[peer] = {&peers_[peer].page()->wakeup, peers_[peer].control()};
    liveness_pipes_[peer] = std::move(member.liveness_pipe);
    watched_[peer].fd = liveness_pipes_[peer].number();
  }
  GQ_TRY(SharedMemoryTransport::attach(
      {join_token.rank, ranks, WakeupScope::machine, own_.control(), places_.get()}, group->tag,
      {stop_kernels_of_all, this}));
  attached_ = true;
  return Status();
}

Status ProcessTransport::arena(size_t size_bytes, unsigned char** base) {
  GQ_TRY(intact());
  GQ_TRY(own_.grow_arena(size_bytes));
  own_.control()->arena_bytes.store(own_.arena_bytes(), std::memory_order_release);
  *base = own_.arena();
  return Status();
}

Status ProcessTransport::open_streams(const StreamConfig& config,
                                      std::unique_ptr<StreamTransport>* out) {
  try {
    if (!lent_) lent_ = std::make_unique<LentMemory>();
    IpcPlaces places{own_.ipc_arena(), {}, {}, lent_.get()};
    for (uint32_t peer = 0; peer < size(); ++peer) {
      places.all.push_back(peer == rank() ? own_.ipc_arena() : peers_[peer].ipc_arena());
      places.leave.push_back(&page_of(peer)->leave);
    }
    return open_ipc_streams(*this, config, std::move(places), out);
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "no memory for calls of rank %u on streams", rank());
  }
}

/** This rank has broken the group, or learnt that it is broken. */
void ProcessTransport::stop_kernels_of_all(void* self) {
  const ProcessTransport& broken = *static_cast<const ProcessTransport*>(self);
  for (uint32_t peer = 0; peer < broken.size(); ++peer) stop_kernels(&broken.page_of(peer)->leave);
}

void ProcessTransport::find_dead() {
  const int found = poll(watched_.get(), size(), 0);
  if (found == 0) return;
  for (uint32_t peer = 0; peer < size(); ++peer) {
    const bool is_gone = found > 0
                             ? (watched_[peer].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0
                             : has_hung_up(watched_[peer].fd);
    if (!is_gone) continue;
    mark_gone(peer);
    watched_[peer] = {-1, 0, 0};
    liveness_pipes_[peer].reset();
  }
}

}  // namespace

Status create_process(const gqsgd_unique_id& id, uint32_t rank, uint32_t size,
                      const Deadline& deadline, std::unique_ptr<HostTransport>* out,
                      const Status& own) {
  JoinToken join_token{{}, rank, size, deadline};
  GQ_TRY(read_unique_id(id, &join_token.id));
  if (size == 0 || size > kProcessRanksMax) {
    return fail(GQSGD_INVALID_ARGUMENT, "a group of processes has 1 to %u ranks, not %u",
                kProcessRanksMax, size);
  }
  if (rank >= size) {
    return fail(GQSGD_INVALID_ARGUMENT, "rank %u of a group of %u: ranks are 0 to %u", rank, size,
                size - 1);
  }
  GQ_TRY(watch_forks());
  std::unique_ptr<ProcessTransport> transport(new (std::nothrow) ProcessTransport);
  if (!transport) return fail(GQSGD_NO_MEMORY, "no memory for rank %u of %u", rank, size);
  GQ_TRY(transport->join(join_token, own));
  *out = std::move(transport);
  return Status();
}

}  // namespace gq
