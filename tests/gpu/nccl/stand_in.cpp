// A stand-in of libnccl.so.2: NCCL's functions between threads of one process, on streams of the
// device that tests have (tests/support/host_device/host_device.h). Groups of sends and receives
// are executed together, in an unspecified order; what does not match waits until it is aborted. A
// communicator ends when its kernels have, and graphs that hold some. Compiled with other macros it
// is old, or lacks a function.
#include "tests/gpu/nccl/stand_in.h"

#include <atomic>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "src/transport/nccl/nccl_types.h"
#include "tests/support/host_device/host_stream.h"

#ifndef STAND_IN_VERSION
#define STAND_IN_VERSION 22304
#endif

namespace {

using namespace gq::nccl;
using gq::test::HostStream;

constexpr Result kRemoteError = 6;

/** A message that waits for its receiver. */
struct Sent {
  const unsigned char* from;
  bool registered;
  size_t size_bytes;
  bool* done;
};

/** One collective, while ranks come to it. */
struct Meeting {
  std::vector<const void*> from;
  size_t registered = 0;
  size_t size_bytes = 0;
  uint32_t come = 0;
  uint32_t left = 0;
};

struct Group {
  std::mutex mutex;
  std::condition_variable changed;
  int ranks = 0;
  int joined = 0;
  std::vector<std::pair<Comm*, Comm>> written_later;  // of communicators that do not block
  std::map<std::pair<int, int>, std::deque<Sent>> sent;
  std::map<uint64_t, Meeting> barriers;
};

}  // namespace

namespace gq::nccl {
struct OpaqueComm {
  std::shared_ptr<OpaqueComm> own;  // until it is destroyed or aborted: after that, kernels' alone
  std::shared_ptr<Group> group;
  int rank = 0;
  bool blocking = true;
  std::atomic<bool> aborted{false};
  std::atomic<bool> in_group_end{false};
  std::atomic<int> threads_inside{0};
  std::atomic<int> polls_left{0};
  uint64_t collectives = 0;  // carried out, under the group's mutex
  uint64_t faults_set = 0;   // what was set when exchanges were last counted
  int exchanges = 0;         // groups of messages since then
  std::string last_error;
  std::map<const unsigned char*, size_t> registered;  // sizes, under the mutex of the process
};
}  // namespace gq::nccl

namespace {

std::mutex mutex;
// Never destroyed: a rank may wait for it for ever.
std::condition_variable& rank_has_joined = *new std::condition_variable;
StandInFaults faults{};
uint64_t faults_set = 0;  // how often
std::map<std::string, std::shared_ptr<Group>> groups;
std::map<Comm, bool> live_comms;
StandInRegistrations registrations{};
std::atomic<int> comms{0}, aborts{0}, aborts_inside{0};
std::atomic<int> sends{0}, gathers{0}, crowds{0};
std::atomic<uint64_t> ids{0};
std::atomic<void*> default_stream{nullptr};

struct Transfer {
  bool sends;
  int peer;
  void* place;
  size_t size_bytes;
};

/** What a thread has put into the group that it began. */
struct Pending {
  int depth = 0;
  Comm comm = nullptr;
  Stream stream = nullptr;
  std::vector<Transfer> transfers;
};
thread_local Pending pending;

size_t bytes_of(DataType type) {
  return type == kUint64 ? 8 : type == kFloat32 ? 4 : type == kBfloat16 ? 2 : 1;
}

/** The result of a call that enqueues, if a test wants it to fail. */
bool fails(Comm comm, Result* result) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (faults.fail_call <= 0 || --faults.fail_call > 0) return false;
  comm->last_error = "the stand-in was told to fail";
  *result = faults.fail_result;
  return true;
}

/** Memory that NCCL knows of this communicator. */
bool is_registered(Comm comm, const void* place) {
  const std::lock_guard<std::mutex> lock(mutex);
  const auto* const byte = static_cast<const unsigned char*>(place);
  auto found = comm->registered.upper_bound(byte);
  if (found == comm->registered.begin()) return false;
  --found;
  return byte < found->first + found->second;
}

void violate() {
  const std::lock_guard<std::mutex> lock(mutex);
  registrations.violations += 1;
}

/** The communicator is no more; NCCL's abort deregisters by itself. */
void end_comm(Comm comm, bool aborted) {
  const std::lock_guard<std::mutex> lock(mutex);
  registrations.live -= static_cast<int>(comm->registered.size());
  if (!aborted && !comm->registered.empty()) registrations.violations += 1;
  live_comms.erase(comm);
  std::erase_if(comm->group->written_later, [=](const auto& one) { return one.second == comm; });
}

bool flips() {
  const std::lock_guard<std::mutex> lock(mutex);
  return faults.flip_a_bit > 0 && --faults.flip_a_bit == 0;
}

/** What the next exchange of `comm` takes. */
int exchange_time_ms(Comm comm) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (comm->faults_set != faults_set) comm->exchanges = 0;
  comm->faults_set = faults_set;
  comm->exchanges += 1;
  const bool slow = faults.slow_exchange == 0 || faults.slow_exchange == comm->exchanges;
  return slow ? faults.exchange_time_ms : 0;
}

bool is_stuck(Comm comm) {
  const std::lock_guard<std::mutex> lock(mutex);
  return comm->blocking && faults.stuck_group > 0 && --faults.stuck_group == 0;
}

/** A thread's time with a communicator that does not block, where it must be alone. */
class Alone {
 public:
  explicit Alone(Comm comm) : comm_(comm->own) {
    if (comm_->threads_inside.fetch_add(1) > 0 && !comm_->blocking) crowds += 1;
  }
  ~Alone() { comm_->threads_inside.fetch_sub(1); }

 private:
  const std::shared_ptr<OpaqueComm> comm_;  // an abort may end it meanwhile
};

/** The variable of NCCL's that overrides what is wanted. */
bool blocks(const Config& config) {
  const char* const forced = std::getenv("NCCL_COMM_BLOCKING");
  return forced == nullptr ? config.blocking != 0 : forced[0] == '1';
}

/** A thread's time there. */
class InGroupEnd {
 public:
  explicit InGroupEnd(Comm comm) : comm_(comm) {
    comm->in_group_end = true;
    std::unique_lock<std::mutex> lock(mutex);
    const int time_ms = faults.enqueue_time_ms;
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::milliseconds(time_ms));
  }
  ~InGroupEnd() { comm_->in_group_end = false; }

 private:
  Comm comm_;
};

Result accepted(Comm comm) {
  if (comm->blocking) return kSuccess;
  const std::lock_guard<std::mutex> lock(mutex);
  comm->polls_left = faults.in_progress_polls;
  return comm->polls_left > 0 ? kInProgress : kSuccess;
}

template <typename Work>
void push(Stream stream, void (*work)(void*), const Work& argument) {
  auto* const host = static_cast<HostStream*>(stream == nullptr ? default_stream.load() : stream);
  host->push(
      host, work, [](void* argument) { delete static_cast<Work*>(argument); }, new Work(argument));
}

struct Exchange {
  std::shared_ptr<OpaqueComm> comm;
  std::vector<Transfer> transfers;
  int time_ms;
};

/** One receive, if its message is there. */
bool receive(Comm comm, const Transfer& transfer) {
  Group& group = *comm->group;
  const int self = comm->rank;
  auto& queue = group.sent[{transfer.peer, self}];
  // Sizes that differ never match, as in NCCL, where the one that waits for more waits for ever.
  if (queue.empty() || queue.front().size_bytes != transfer.size_bytes) return false;
  if (queue.front().registered != is_registered(comm, transfer.place)) violate();
  std::memcpy(transfer.place, queue.front().from, transfer.size_bytes);
  if (transfer.size_bytes > 0 && flips()) static_cast<unsigned char*>(transfer.place)[0] ^= 1;
  *queue.front().done = true;
  queue.pop_front();
  group.changed.notify_all();
  return true;
}

/** Sends are offered, receives taken in an order of chance among peers; a group is through when all
 *  of them are. */
void exchange(void* argument) {
  const auto* const work = static_cast<const Exchange*>(argument);
  Group& group = *work->comm->group;
  const int self = work->comm->rank;
  if (work->time_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(work->time_ms));
  std::unique_lock<std::mutex> lock(group.mutex);
  std::deque<bool> sent;
  std::map<int, std::deque<Transfer>> receives;
  for (const Transfer& transfer : work->transfers) {
    if (transfer.sends) {
      sent.push_back(false);
      group.sent[{self, transfer.peer}].push_back(
          {static_cast<const unsigned char*>(transfer.place),
           is_registered(work->comm.get(), transfer.place), transfer.size_bytes, &sent.back()});
    } else {
      receives[transfer.peer].push_back(transfer);
    }
  }
  group.changed.notify_all();
  for (;;) {
    bool through = true, moved = false;
    for (auto& [peer, queue] : receives) {
      if (!queue.empty() && receive(work->comm.get(), queue.front())) {
        queue.pop_front();
        moved = true;
      }
      through = through && queue.empty();
    }
    for (const bool done : sent) through = through && done;
    if (through) return;
    if (work->comm->aborted) {
      for (auto& [ends, queue] : group.sent) {
        if (ends.first == self) queue.clear();
      }
      return;
    }
    if (!moved) group.changed.wait_for(lock, std::chrono::milliseconds(5));
  }
}

struct Collective {
  std::shared_ptr<OpaqueComm> comm;
  const void* from;
  void* to;
  size_t count;
  DataType type;
  bool adds;
};

template <typename Number>
void add(const Collective& work, const std::vector<const void*>& from, std::vector<char>* out) {
  auto* const sums = reinterpret_cast<Number*>(out->data());
  for (const void* addends : from) {
    for (size_t k = 0; k < work.count; ++k) sums[k] += static_cast<const Number*>(addends)[k];
  }
}

/** The upper half of a float; sums are truncated. */
struct Bfloat16 {
  float value() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
  void operator+=(Bfloat16 other) {
    bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(value() + other.value()) >> 16);
  }

  uint16_t bits;
};

/** Every rank comes; who came last wakes the others; memory is given up when all have read it. */
void collective(void* argument) {
  const auto* const work = static_cast<const Collective*>(argument);
  Group& group = *work->comm->group;
  const size_t size_bytes = work->count * bytes_of(work->type);
  const auto ranks = static_cast<uint32_t>(group.ranks);
  std::unique_lock<std::mutex> lock(group.mutex);
  Meeting& barrier = group.barriers[work->comm->collectives++];
  barrier.from.resize(ranks);
  barrier.from[static_cast<size_t>(work->comm->rank)] = work->from;
  const bool fits = barrier.come == 0 || barrier.size_bytes == size_bytes;
  barrier.size_bytes = size_bytes;
  barrier.come += fits ? 1 : 0;
  barrier.registered += is_registered(work->comm.get(), work->from) ? 1 : 0;
  group.changed.notify_all();
  while (!work->comm->aborted && barrier.come < ranks) {
    group.changed.wait_for(lock, std::chrono::milliseconds(5));
  }
  if (work->comm->aborted) return;
  if (barrier.registered != 0 && barrier.registered != ranks) violate();
  std::vector<char> out(work->adds ? size_bytes : size_bytes * ranks);
  if (!work->adds) {
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      std::memcpy(out.data() + rank * size_bytes, barrier.from[rank], size_bytes);
    }
  } else if (work->type == kUint64) {
    add<uint64_t>(*work, barrier.from, &out);
  } else if (work->type == kBfloat16) {
    add<Bfloat16>(*work, barrier.from, &out);
  } else {
    add<float>(*work, barrier.from, &out);
  }
  barrier.left += 1;
  group.changed.notify_all();
  while (!work->comm->aborted && barrier.left < ranks) {
    group.changed.wait_for(lock, std::chrono::milliseconds(5));
  }
  std::memcpy(work->to, out.data(), out.size());
}

Result enqueue_collective(const Collective& made, Stream stream) {
  const Alone here(made.comm.get());
  Result result = kSuccess;
  if (fails(made.comm.get(), &result)) return result;
  push(stream, collective, made);
  return accepted(made.comm.get());
}

Result put(Comm comm, Stream stream, const Transfer& transfer) {
  Result result = kSuccess;
  if (fails(comm, &result)) return result;
  if (pending.depth == 0) return kInvalidArgument;  // this library always groups
  pending.comm = comm;
  pending.stream = stream;
  pending.transfers.push_back(transfer);
  return kSuccess;
}

void abort_all_waits(Comm comm) {
  comm->aborted = true;
  comm->group->changed.notify_all();
}

/** NCCL writes a communicator once more where its caller wanted it, when its group has formed. */
void write_comms(Group* group) {
  for (const auto& [place, comm] : group->written_later) {
    const bool is_there = std::atomic_ref<Comm>(*place).exchange(comm) == comm;
    registrations.violations += is_there ? 0 : 1;  // it has become other memory
  }
  group->written_later.clear();
}

/** Kernels have it, and graphs that kernels are in. */
void wait_for_kernels(Comm comm) {
  const std::weak_ptr<OpaqueComm> kernels = comm->own;
  comm->own.reset();
  while (!kernels.expired()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  comms -= 1;
}

}  // namespace

extern "C" {

void stand_in_set(const StandInFaults* wanted) {
  const std::lock_guard<std::mutex> lock(mutex);
  faults = *wanted;
  faults_set += 1;
}
void stand_in_default_stream(void* stream) { default_stream = stream; }
int stand_in_comms(void) { return comms; }
int stand_in_aborts(void) { return aborts; }
int stand_in_aborts_inside(void) { return aborts_inside; }
int stand_in_crowds(void) { return crowds; }
StandInTraffic stand_in_traffic(void) { return {sends, gathers}; }
StandInRegistrations stand_in_registrations(void) {
  const std::lock_guard<std::mutex> lock(mutex);
  return registrations;
}

Result ncclGetVersion(int* version) {
  *version = STAND_IN_VERSION;
  return kSuccess;
}

Result ncclGetUniqueId(Id* id) {
  std::memset(id, 0, sizeof *id);
  const uint64_t number = ++ids;
  std::memcpy(id->internal, &number, sizeof number);
  return kSuccess;
}

Result ncclCommInitRankConfig(Comm* comm, int ranks, Id id, int rank, Config* config) {
  const auto made = std::make_shared<OpaqueComm>();
  made->own = made;
  *comm = made.get();
  std::unique_lock<std::mutex> lock(mutex);
  std::shared_ptr<Group>& group = groups[std::string(id.internal, sizeof id.internal)];
  if (!group) group = std::make_shared<Group>();
  group->ranks = ranks;
  group->joined += 1;
  (*comm)->group = group;
  (*comm)->rank = rank;
  (*comm)->blocking = blocks(*config);
  live_comms[*comm] = true;
  comms += 1;
  rank_has_joined.notify_all();
  if (!made->blocking) group->written_later.emplace_back(comm, made.get());
  if (group->joined >= group->ranks) write_comms(group.get());
  if (!made->blocking) return kInProgress;
  rank_has_joined.wait(lock, [&group] { return group->joined >= group->ranks; });
  return kSuccess;
}

Result ncclCommDestroy(Comm comm) {
  end_comm(comm, false);
  wait_for_kernels(comm);
  return kSuccess;
}

Result ncclCommAbort(Comm comm) {
  aborts += 1;
  aborts_inside += comm->in_group_end ? 1 : 0;
  abort_all_waits(comm);
  for (bool deaf = true; deaf;) {
    const std::lock_guard<std::mutex> lock(mutex);
    deaf = faults.deaf_abort != 0;
  }
  end_comm(comm, true);
  wait_for_kernels(comm);
  return kSuccess;
}

#ifndef STAND_IN_LACKS_REGISTRATION
Result ncclCommRegister(Comm comm, void* buffer, size_t size_bytes, void** handle) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (faults.fail_register > 0 && --faults.fail_register == 0) {
    comm->last_error = "the stand-in was told not to register";
    return 1;
  }
  const auto* const first = static_cast<const unsigned char*>(buffer);
  if (!comm->registered.emplace(first, size_bytes).second) registrations.violations += 1;
  registrations.registered += 1;
  registrations.live += 1;
  *handle = buffer;
  return kSuccess;
}

Result ncclCommDeregister(Comm comm, void* handle) {
  const std::lock_guard<std::mutex> lock(mutex);
  const bool lives = live_comms.count(comm) > 0;
  if (!lives || comm->registered.erase(static_cast<const unsigned char*>(handle)) == 0) {
    registrations.violations += 1;
    return kInvalidArgument;
  }
  registrations.deregistered += 1;
  registrations.live -= 1;
  return kSuccess;
}

Result ncclMemAlloc(void** memory, size_t size_bytes) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (faults.has_memory == 0) return 1;
  *memory = std::malloc(size_bytes);
  std::memset(*memory, 0xA5, size_bytes);
  registrations.allocated += 1;
  return kSuccess;
}

Result ncclMemFree(void* memory) {
  const std::lock_guard<std::mutex> lock(mutex);
  for (const auto& [comm, lives] : live_comms) {
    registrations.violations += static_cast<int>(
        comm->registered.count(static_cast<const unsigned char*>(memory)));
  }
  registrations.allocated -= 1;
  std::free(memory);
  return kSuccess;
}
#endif

Result ncclCommGetAsyncError(Comm comm, Result* error) {
  const Alone here(comm);
  std::unique_lock<std::mutex> lock(mutex);
  const int time_ms = comm->blocking ? 0 : faults.look_time_ms;
  lock.unlock();
  std::this_thread::sleep_for(std::chrono::milliseconds(time_ms));
  lock.lock();
  *error = faults.async_error;
  if (*error != kSuccess) comm->last_error = "the stand-in found an error later";
  if (*error == kSuccess && comm->group->joined < comm->group->ranks) *error = kInProgress;
  if (*error == kSuccess && comm->polls_left > 0 && --comm->polls_left > 0) *error = kInProgress;
  return kSuccess;
}

Result ncclCommCount(Comm comm, int* count) {
  *count = comm->group->ranks;
  return kSuccess;
}
Result ncclCommUserRank(Comm comm, int* rank) {
  *rank = comm->rank;
  return kSuccess;
}
Result ncclCommCuDevice(Comm, int* device) {
  *device = 0;
  return kSuccess;
}

const char* ncclGetErrorString(Result result) {
  return result == 1 ? "unhandled cuda error" : result == 6 ? "remote process exited" : "an error";
}
const char* ncclGetLastError(Comm comm) { return comm == nullptr ? "" : comm->last_error.c_str(); }

Result ncclGroupStart() {
  pending.depth += 1;
  return kSuccess;
}

Result ncclGroupEnd() {
  if (--pending.depth > 0) return kSuccess;
  const Pending group = std::move(pending);
  pending = Pending();
  if (group.comm == nullptr) return kSuccess;
  const std::shared_ptr<OpaqueComm> kept = group.comm->own;  // an abort may end it meanwhile
  const Alone alone(kept.get());
  const InGroupEnd here(kept.get());
  if (is_stuck(group.comm)) {
    while (!kept->aborted) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return kRemoteError;
  }
  push(group.stream, exchange,
       Exchange{group.comm->own, group.transfers, exchange_time_ms(group.comm)});
  return accepted(group.comm);
}

Result ncclSend(const void* from, size_t count, DataType type, int peer, Comm comm, Stream stream) {
  sends += 1;
  return put(comm, stream, {true, peer, const_cast<void*>(from), count * bytes_of(type)});
}

Result ncclRecv(void* to, size_t count, DataType type, int peer, Comm comm, Stream stream) {
  return put(comm, stream, {false, peer, to, count * bytes_of(type)});
}

#ifndef STAND_IN_LACKS_ALL_GATHER
Result ncclAllGather(const void* own, void* all, size_t count, DataType type, Comm comm,
                     Stream stream) {
  gathers += 1;
  return enqueue_collective({comm->own, own, all, count, type, false}, stream);
}
#endif

Result ncclAllReduce(const void* from, void* to, size_t count, DataType type, ReduceOp, Comm comm,
                     Stream stream) {
  return enqueue_collective({comm->own, from, to, count, type, true}, stream);
}
}
