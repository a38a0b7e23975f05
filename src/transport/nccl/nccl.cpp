// The seam of streams on NCCL: a gather, grouped sends and receives, a sum.
#include "src/transport/nccl/nccl.h"

#include <inttypes.h>
#include <string.h>

#include <algorithm>
#include <new>
#include <vector>

#include "src/gpu/device/buffer.h"
#include "src/support/clock.h"
#include "src/support/fnv1a.h"
#include "src/support/log.h"
#include "src/transport/boot_id.h"
#include "src/transport/nccl/nccl_memory.h"
#include "src/transport/nccl/nccl_watch.h"

namespace gq {
namespace {

// Behind NCCL's 128 bytes of a unique id.
constexpr char kMark[] = "gqsgd: a unique id of NCCL";
constexpr size_t kMarkBytes = sizeof(nccl::Id);

// In the word that each rank shows when the group forms, beside a digest of its host: it can
// register memory with NCCL.
constexpr uint64_t kRegisters = 1;

/** Of the given name, or of what this machine is called. */
uint64_t digest_of_host(const std::string& host_id) {
  char name[64] = "";
  if (host_id.empty()) read_boot_id("", name, sizeof name);
  const char* const named = host_id.empty() ? name : host_id.c_str();
  Fnv1a64 digest;
  digest.add_bytes(named, strlen(named));
  return digest.hash();
}

class NcclTransport final : public StreamTransport, private StreamSums {
 public:
  NcclTransport(const Device& device, const NcclLibrary& library, const NcclOptions& options)
      : StreamTransport(device),
        comm_(device, library, options.timeout_ms, options.blocks),
        timeout_ms_(options.timeout_ms),
        wants_to_block_(options.blocks),
        host_(digest_of_host(options.host_id) & ~kRegisters),
        memory_(&comm_) {}
  ~NcclTransport() override;

  Status join(const gqsgd_unique_id& unique_id, uint32_t rank, uint32_t size);
  Status borrow(void* nccl_comm);

  Status gather(const void* own, void* all, size_t size_bytes, StreamHandle stream) override;
  Status exchange(unsigned char* arena, const Transfer* transfers, size_t transfer_count,
                  StreamHandle stream) override;
  Status share(unsigned char* arena, const Transfer* transfers, size_t transfer_count,
               const SharedBlocks& blocks, StreamHandle stream) override;
  StreamMemory& memory() override { return memory_; }
  StreamSums* sums() override { return this; }
  uint32_t node_of(uint32_t rank) const override { return nodes_[rank]; }
  bool operations_block() const override { return wants_to_block_; }
  void set_timeout(int64_t timeout_ms) override { comm_.set_timeout(timeout_ms); }
  Status check_stream(StreamHandle stream) const override;

  Status check() override { return comm_.check(); }
  void abort_group(gqsgd_status, uint32_t) override {
    broken_.set();
    comm_.give_up();
  }
  void abort() override {
    broken_.set();
    comm_.abort_later();
  }
  void finish_abort() override { comm_.give_up(); }
  TransportCounters counters() const override { return counters_; }

 private:
  Status sum(Addend addend, void* words, uint64_t addend_count, uint64_t value_count,
             StreamHandle stream) override;
  Status watch();
  Status warm();
  void leak_unless_passed(EventHandle event, StreamHandle stream);
  Status exchange_hosts(StreamHandle stream);
  Status find_nodes();
  uint64_t shown_word();
  void decide_registration();
  Status gather_blocks(const void* own, void* all, size_t size_bytes, StreamHandle stream);
  Status transfer(unsigned char* arena, const Transfer& transfer, StreamHandle stream);

  NcclComm comm_;
  const int64_t timeout_ms_;
  const bool wants_to_block_;    ///< equal on all ranks, whatever NCCL made of it
  const uint64_t host_;          ///< a digest of its name, but for the bit kRegisters
  PinnedBuffer hosts_;           ///< of all ranks
  std::vector<uint32_t> nodes_;  ///< the same, numbered
  NcclMemory memory_;
  DeviceBuffer first_words_;  // CUDA may wait for the whole device, and peers on it, to free them
  TransportCounters counters_;
  NcclWatch watch_;
};

/** What a kernel of NCCL that does not end may still use is never freed: CUDA would wait for that
 *  kernel, without a deadline, and it ends when the communicator is aborted, by its owner. */
NcclTransport::~NcclTransport() {
  watch_.end();
  if (!memory_.is_leaked()) return;
  broken_.forget();
  hosts_.forget();
  first_words_.forget();
}

Status NcclTransport::join(const gqsgd_unique_id& unique_id, uint32_t rank, uint32_t size) {
  int32_t ordinal = 0;
  GQ_TRY(device().current(&ordinal));
  set_ordinal(ordinal);
  GQ_TRY(broken_.open(device()));
  nccl::Id id;
  memcpy(id.internal, unique_id.bytes, sizeof id.internal);
  uint32_t tag = 0;
  for (const char byte : id.internal) tag = tag * 31 + static_cast<unsigned char>(byte);
  set_group_rank({rank, size, tag});
  GQ_TRY(comm_.join(id, static_cast<int>(size), static_cast<int>(rank)));
  GQ_TRY(watch());
  return warm();
}

/** While the program waits for a stream, or NCCL keeps its thread, this one ends the group: streams
 *  complete then and write nothing. */
Status NcclTransport::watch() {
  const auto look = [](void* self) {
    NcclTransport& transport = *static_cast<NcclTransport*>(self);
    const Status found = transport.comm_.look();
    if (!found.ok()) transport.abort_group(found.code(), transport.rank());
    return found.ok();
  };
  return watch_.begin(look, this, rank());
}

Status NcclTransport::borrow(void* nccl_comm) {
  GQ_TRY(comm_.borrow(static_cast<nccl::Comm>(nccl_comm)));
  const NcclLibrary& library = comm_.library();
  int rank = 0, size = 0, ordinal = 0;
  GQ_TRY(comm_.through(library.count(comm_.get(), &size), "ncclCommCount"));
  GQ_TRY(comm_.through(library.user_rank(comm_.get(), &rank), "ncclCommUserRank"));
  GQ_TRY(comm_.through(library.device(comm_.get(), &ordinal), "ncclCommCuDevice"));
  set_group_rank({static_cast<uint32_t>(rank), static_cast<uint32_t>(size)});
  set_ordinal(ordinal);
  OnDevice here(device());
  GQ_TRY(here.enter(ordinal));
  GQ_TRY(broken_.open(device()));
  return warm();
}

/** A word of each rank, its host, by every kind of operation that calls use. */
Status NcclTransport::exchange_hosts(StreamHandle stream) {
  constexpr size_t kWordBytes = sizeof(uint64_t);
  std::unique_ptr<Transfer[]> transfers(new (std::nothrow) Transfer[2 * size_t{size()}]);
  if (!transfers) return fail(GQSGD_NO_MEMORY, "no memory for a group of %u ranks", size());
  size_t count = 0;
  for (uint32_t peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    transfers[count++] = {peer, true, rank() * kWordBytes, kWordBytes};
    transfers[count++] = {peer, false, peer * kWordBytes, kWordBytes};
  }
  GQ_TRY(first_words_.reserve(device(), (size() + 1) * kWordBytes));
  GQ_TRY(hosts_.reserve(device(), size() * kWordBytes));
  *hosts_.as<uint64_t>() = shown_word();
  unsigned char* const words = first_words_.data();
  unsigned char* const own = words + size() * kWordBytes;
  GQ_TRY(device().copy(own, hosts_.data(), kWordBytes, stream));
  GQ_TRY(gather(own, words, kWordBytes, stream));
  GQ_TRY(exchange(words, transfers.get(), count, stream));
  GQ_TRY(device().copy(hosts_.data(), words, size() * kWordBytes, stream));
  return sum(Addend::uint64, words, 1, 0, stream);
}

/** Made before the first message: what is registered for a moment must not be in one. */
uint64_t NcclTransport::shown_word() {
  const Status tried = memory_.try_to_register(first_words_);
  if (tried.ok()) return host_ | kRegisters;
  log_line(GQSGD_LOG_INFO, "rank %u: NCCL does not know the workspace: %s", rank(),
           tried.sentence());
  return host_;
}

void NcclTransport::decide_registration() {
  uint64_t* const hosts = hosts_.as<uint64_t>();
  const auto can_not = [](uint64_t word) { return (word & kRegisters) == 0; };
  const bool all_can = std::none_of(hosts, hosts + size(), can_not);
  memory_.decide(all_can);
  if (!all_can && !can_not(hosts[rank()])) {
    log_line(GQSGD_LOG_INFO, "rank %u: NCCL does not know the workspace: rank %zd cannot register",
             rank(), std::find_if(hosts, hosts + size(), can_not) - hosts);
  }
  for (uint32_t peer = 0; peer < size(); ++peer) hosts[peer] &= ~kRegisters;
}

/** A node has the number of its first rank. */
Status NcclTransport::find_nodes() {
  const uint64_t* const hosts = hosts_.as<const uint64_t>();
  try {
    nodes_.resize(size());
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "no memory for the nodes of %u ranks", size());
  }
  for (uint32_t rank = 0; rank < size(); ++rank) {
    nodes_[rank] = static_cast<uint32_t>(std::find(hosts, hosts + rank, hosts[rank]) - hosts);
  }
  return Status();
}

/** After a failure: whether an aborted communicator ends its kernels soon. */
void NcclTransport::leak_unless_passed(EventHandle event, StreamHandle stream) {
  constexpr int64_t kGraceMs = 1000;
  bool passed = false;
  Status waited = device().record(event, stream);
  if (waited.ok()) {
    waited = wait_for(device(), event, deadline_after_ms(kGraceMs), nullptr, nullptr, &passed);
  }
  if (!waited.ok() || !passed) memory_.leak_in_use();
}

/** NCCL connects two ranks at their first message, which takes long: here, and not in a first call.
 */
Status NcclTransport::warm() {
  struct Own {
    explicit Own(const Device& used) : device(used) {}
    ~Own() {
      device.end_event(event);
      device.end_stream(stream);
    }
    const Device& device;
    StreamHandle stream = nullptr;
    EventHandle event = nullptr;
  } own(device());
  GQ_TRY(device().make_stream(&own.stream));
  GQ_TRY(device().make_event(&own.event));
  const auto look = [](void* self) { return static_cast<NcclTransport*>(self)->check(); };
  bool done = false;
  Status status = exchange_hosts(own.stream);
  if (status.ok()) status = device().record(own.event, own.stream);
  if (status.ok()) {
    status = wait_for(device(), own.event, deadline_after_ms(timeout_ms_), look, this, &done);
  }
  counters_ = TransportCounters();
  if (status.ok() && done) decide_registration();
  if (status.ok() && done) return find_nodes();
  abort_group(GQSGD_TIMEOUT, rank());
  leak_unless_passed(own.event, own.stream);
  GQ_TRY(status);
  return fail(GQSGD_TIMEOUT,
              "rank %u waited %" PRId64
              " ms for a first word of all %u ranks: one of them did not get as far (timeout_ms "
              "sets the limit)",
              rank(), timeout_ms_, size());
}

/** NCCL enqueues for a communicator that does not block on threads of its own, for which this
 *  handle is another stream. */
Status NcclTransport::check_stream(StreamHandle stream) const {
  if (comm_.blocks() || stream != kStreamPerThread) return Status();
  return fail(GQSGD_UNSUPPORTED,
              "stream is cudaStreamPerThread, and this communicator does not block: NCCL would "
              "take the stream of another thread; use a stream that was created, or a "
              "communicator without nccl_blocking=off");
}

Status NcclTransport::gather(const void* own, void* all, size_t size_bytes, StreamHandle stream) {
  counters_.header_bytes_sent += size_bytes;
  return gather_blocks(own, all, size_bytes, stream);
}

/** NCCL finds the ways: between nodes a block passes each link once, where messages would carry it
 *  there once for every rank behind it. */
Status NcclTransport::share(unsigned char* arena, const Transfer* transfers, size_t transfer_count,
                            const SharedBlocks& blocks, StreamHandle stream) {
  for (size_t k = 0; k < transfer_count; ++k) {
    if (transfers[k].sends) counters_.count_sent(transfers[k].size_bytes, transfers[k].value_count);
  }
  return gather_blocks(arena + blocks.own_bytes, arena + blocks.all_bytes, blocks.size_bytes,
                       stream);
}

Status NcclTransport::gather_blocks(const void* own, void* all, size_t size_bytes,
                                    StreamHandle stream) {
  const NcclComm::Operation operation(&comm_, "ncclAllGather");
  GQ_TRY(operation.begun());
  return comm_.through(
      comm_.library().all_gather(own, all, size_bytes, nccl::kUint8, comm_.get(), stream),
      "ncclAllGather");
}

Status NcclTransport::transfer(unsigned char* arena, const Transfer& transfer,
                               StreamHandle stream) {
  unsigned char* const words = arena + transfer.here_bytes;
  const int peer = static_cast<int>(transfer.peer);
  const NcclLibrary& library = comm_.library();
  // In a group a call is through when the group is.
  const auto accepted = [&](nccl::Result result, const char* call) {
    return result == nccl::kInProgress ? Status() : comm_.through(result, call);
  };
  if (!transfer.sends) {
    return accepted(
        library.receive(words, transfer.size_bytes, nccl::kUint8, peer, comm_.get(), stream),
        "ncclRecv");
  }
  counters_.count_sent(transfer.size_bytes, transfer.value_count);
  return accepted(library.send(words, transfer.size_bytes, nccl::kUint8, peer, comm_.get(), stream),
                  "ncclSend");
}

/** A group that was begun is ended whatever happens: it belongs to the thread. */
Status NcclTransport::exchange(unsigned char* arena, const Transfer* transfers,
                               size_t transfer_count, StreamHandle stream) {
  const NcclLibrary& library = comm_.library();
  const NcclComm::Operation operation(&comm_, "ncclGroupEnd");
  GQ_TRY(operation.begun());
  GQ_TRY(comm_.through(library.group_start(), "ncclGroupStart"));
  Status status;
  for (size_t k = 0; k < transfer_count && status.ok(); ++k) {
    status = transfer(arena, transfers[k], stream);
  }
  const nccl::Result ended = library.group_end();
  return status.ok() ? comm_.through(ended, "ncclGroupEnd") : status;
}

Status NcclTransport::sum(Addend addend, void* words, uint64_t addend_count, uint64_t value_count,
                          StreamHandle stream) {
  const nccl::DataType type = addend == Addend::uint64 ? nccl::kUint64 : nccl::kFloat32;
  counters_.count_sent(addend_count * addend_bytes(addend), value_count);
  const NcclComm::Operation operation(&comm_, "ncclAllReduce");
  GQ_TRY(operation.begun());
  return comm_.through(comm_.library().all_reduce(words, words, static_cast<size_t>(addend_count),
                                                  type, nccl::kSum, comm_.get(), stream),
                       "ncclAllReduce");
}

Status make_transport(const Device& device, const NcclLibrary& library,
                      const NcclOptions& options, std::unique_ptr<NcclTransport>* out) {
  out->reset(new (std::nothrow) NcclTransport(device, library, options));
  return *out ? Status() : fail(GQSGD_NO_MEMORY, "no memory for a rank on NCCL");
}

}  // namespace

Status make_nccl_id(const NcclLibrary& library, gqsgd_unique_id* unique_id) {
  nccl::Id id;
  const nccl::Result result = library.get_unique_id(&id);
  if (result != nccl::kSuccess) {
    return fail(GQSGD_BACKEND, "ncclGetUniqueId: NCCL error %d (%s) [%s]", result,
                library.error_string(result), library.path);
  }
  memset(unique_id->bytes, 0, sizeof unique_id->bytes);
  memcpy(unique_id->bytes, id.internal, sizeof id.internal);
  memcpy(unique_id->bytes + kMarkBytes, kMark, sizeof kMark);
  return Status();
}

Status create_nccl(const Device& device, const NcclLibrary& library,
                   const gqsgd_unique_id& unique_id, uint32_t rank, uint32_t size,
                   const NcclOptions& options, std::unique_ptr<StreamTransport>* out) {
  if (memcmp(unique_id.bytes + kMarkBytes, kMark, sizeof kMark) != 0) {
    return fail(GQSGD_INVALID_ARGUMENT,
                "unique_id is none of NCCL's: gqsgd_nccl_unique_id_create makes them");
  }
  std::unique_ptr<NcclTransport> made;
  GQ_TRY(make_transport(device, library, options, &made));
  GQ_TRY(made->join(unique_id, rank, size));
  *out = std::move(made);
  return Status();
}

Status borrow_nccl(const Device& device, const NcclLibrary& library, void* nccl_comm,
                   const NcclOptions& options, std::unique_ptr<StreamTransport>* out) {
  std::unique_ptr<NcclTransport> made;
  GQ_TRY(make_transport(device, library, options, &made));
  GQ_TRY(made->borrow(nccl_comm));
  *out = std::move(made);
  return Status();
}

}  // namespace gq
