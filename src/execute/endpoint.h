// One rank's end of a group, and one call on it, as the executor sees them.
#ifndef GQ_EXECUTE_ENDPOINT_H
#define GQ_EXECUTE_ENDPOINT_H

#include <stdint.h>

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/codec/random.h"
#include "kernels/stages.h"
#include "src/execute/call_kinds.h"
#include "src/execute/message_checks.h"
#include "src/plan/auto_choice.h"
#include "src/plan/plan.h"
#include "src/schedule/nodes.h"
#include "src/support/clock.h"
#include "src/support/counter.h"
#include "src/support/first_failure.h"
#include "src/support/log.h"
#include "src/support/names.h"
#include "src/transport/host_transport.h"

namespace gq {

class ShortCalls;
class Workers;

/** Calls on more than one buffer: values are numbered as if the segments lay one after the other,
 *  each from a multiple of the format's value alignment on. Values between them do not exist. */
struct Segments {
  std::vector<Part> parts;
  uint64_t hash = 0;  ///< of the lengths of the segments
};

/** The values of one segment of a call in the caller's memory; a pointer is null where this
 *  rank has nothing to read or to write. */
struct Place {
  const void* send = nullptr;
  void* recv = nullptr;
};

struct Places {
  std::vector<Place> of;  ///< each segment
  bool in_place = false;
};

/** The arguments of one collective on this rank. */
struct Call {
  Operation operation = Operation::allreduce;
  Format format;
  const void* send = nullptr;
  void* recv = nullptr;
  uint64_t value_count = 0;
  int32_t dtype = GQSGD_FLOAT32;
  int32_t op = GQSGD_MEAN;
  int32_t schedule_id = GQSGD_SCHEDULE_AUTO;
  SentAs sent_as = SentAs::codes;  ///< AUTO's choice, which `format` follows
  uint32_t asked_fields = 0;       ///< where that is floats: those of the requested format
  uint64_t step = 0;
  uint64_t index = 0;
  bool counts_later = false;  ///< `step` is the communicator's next one, not taken yet
  bool captured = false;      ///< its stream is: a rank that refuses it notifies no other rank
  gqsgd_status refused_with = GQSGD_OK;  ///< of gqsgd_comm_refuse: what other ranks read
  /** On a device: where the step, and behind it the index, are when the stream reaches the call. */
  const uint32_t* step_at = nullptr;
  const Segments* segments = nullptr;  ///< with `places` instead of send and recv; else both null
  const Places* places = nullptr;
  void* stream = nullptr;  ///< where buffers are a device's

  bool in_place() const { return places != nullptr ? places->in_place : send == recv; }
  /** Values of all segments, without gaps between them. */
  uint64_t given_value_count() const {
    if (segments == nullptr) return value_count;
    uint64_t count = 0;
    for (const Part& part : segments->parts) count += part.value_count;
    return count;
  }
  /** Where value `first_value` of the call, which lies in `segment`, is read; null if it is not. */
  const void* send_at(uint64_t first_value, size_t segment = 0) const {
    const auto* base = static_cast<const unsigned char*>(places ? places->of[segment].send : send);
    return base == nullptr ? nullptr : base + bytes_into(first_value, segment);
  }
  void* recv_at(uint64_t first_value, size_t segment = 0) const {
    auto* base = static_cast<unsigned char*>(places ? places->of[segment].recv : recv);
    return base == nullptr ? nullptr : base + bytes_into(first_value, segment);
  }

 private:
  size_t bytes_into(uint64_t first_value, size_t segment) const {
    const uint64_t begin = segments ? segments->parts[segment].first_value : 0;
    return static_cast<size_t>(first_value - begin) * dtype_size_bytes(dtype);
  }
};

/** What a call on more than one buffer points to. */
struct SegmentedBuffers {
  Segments segments;
  Places places;

  void attach_to(Call* call) const {
    call->segments = &segments;
    call->places = &places;
  }
};

/** The newest call that has ended alike on all ranks, or will. */
struct EndedCall {
  bool has_result = false;  ///< false: a failure that all ranks share
  bool in_place = false;
  size_t result_bytes = 0;  ///< 0 unless it was an allreduce of one array
  /** The result is in the arena as codes, until all ranks have sent the next control message. */
  bool is_kept = false;
  bool is_short = false;  ///< kept by the endpoint's short_calls
  Call call;
  float norm = 0;
  unsigned char* arena = nullptr;
};

/** Operands of one peer in a call, on transports that copy. */
struct OperandCounts {
  uint64_t expected = 0;
  uint64_t received = 0;
  uint64_t merged = 0;  ///< at most one less than received
};

/** What ranks compare in the call after (docs/FORMAT.md, section 18). */
struct ResultDigest {
  bool on = false;  ///< else it stays 0
  uint64_t digest = 0;
  uint64_t sequence = 0;  ///< the call's
};

struct Endpoint {
  std::unique_ptr<HostTransport> host;  ///< null where all calls are on streams
  MessageChecks messages;               ///< words that host moves
  Transport* transport = nullptr;       ///< host, or else the end on streams, which is borrowed
  const Stages* stages = nullptr;
  Workers* workers = nullptr;  ///< that the stages' work is divided among; borrowed
  uint32_t stream_id = 0;
  uint64_t chunk_value_count = 0;
  uint64_t stream_chunk_value_count = 0;  ///< of calls on memory of a device
  uint64_t nontemporal_bytes =
      0;  ///< words of at least this that peers read are stored with non-temporal stores; 0: none
  AutoChoice choice;  ///< what schedule AUTO is here
  Clock clock;        ///< that costs are measured by
  Nodes nodes;        ///< as the communicator's options have them, else its transport
  std::atomic<int64_t> timeout_ms{0};  ///< -1: for ever
  uint64_t sequence = 0;  ///< number of the newest control message; sparse calls have two
  std::vector<const uint32_t*> operands;  ///< one per rank, so that reduce_many allocates nothing
  std::vector<RankEntries> rank_entries;  ///< the same for add_sparse
  std::vector<OperandCounts> operand_counts;

  std::shared_ptr<ShortCalls> short_calls;  ///< null before the first

  ResultDigest result;            ///< of the newest call that succeeded
  std::vector<uint64_t> digests;  ///< of all ranks, as the control messages of a call have them

  uint64_t ended_calls = 0;  ///< that have ended like `newest_ended`
  EndedCall newest_ended;
  /** Of the call that has begun and not ended like `newest_ended`; 0 if there is none, or if it is
   *  not of one array. */
  size_t newest_result_bytes = 0;
  int32_t newest_dtype = GQSGD_FLOAT32;  ///< of that
  FirstFailure failure;  ///< what broke the communicator: no call is made after it

  // What gqsgd_comm_stat reads while calls go on, beside the transport's own. A caller may allocate
  // workspace or wait for a stream while the request thread runs a call.
  Counter calls;
  Counter nonfinite_blocks;
  SharedCounter workspace_bytes;
  SharedCounter wait_ns;
  Counter native_float_calls;

  /** Called by a thread that has found nothing while it waits, where no thread of the library makes
   *  progress. True if more than this endpoint is waited for. */
  bool (*while_waiting)(const Endpoint* waiting) = nullptr;

  LogSubject subject;      ///< of lines in the log
  CallKinds logged_kinds;  ///< used by the thread that makes the call at hand
  /** Writes the specification of a format, as snprintf does; null: the log has none. */
  size_t (*write_spec)(const Format& format, char* spec, size_t capacity_bytes) = nullptr;

  /** Takes the group's end on host memory. May throw std::bad_alloc. */
  void set_transport(std::unique_ptr<HostTransport> taken) {
    set_transport(taken.get());
    host = std::move(taken);
    messages.open(host.get(), ChecksumKind::off);
  }
  /** Borrows the end of a group whose calls are all on streams. Allocates the state of each rank:
   *  may throw std::bad_alloc. */
  void set_transport(Transport* borrowed) {
    operands.resize(borrowed->size());
    rank_entries.resize(borrowed->size());
    operand_counts.resize(borrowed->size());
    digests.resize(borrowed->size());
    transport = borrowed;
  }

  /** OK, or what broke the communicator. What an abort in a signal handler has left to be done is
   *  done here. */
  Status intact() {
    const Status broken = failure.get();
    if (!broken.ok() && failure.was_abort()) transport->finish_abort();
    return broken;
  }

  uint32_t rank() const { return transport->rank(); }
  uint32_t size() const { return transport->size(); }
  bool has_streams_only() const { return host == nullptr; }
  /** Whether callers' threads make all progress, and no thread of the library. */
  bool on_callers_threads() const { return host != nullptr && host->callers_thread_only(); }
  bool reads_in_place() const { return host != nullptr && host->reads_in_place(); }
};

inline const char* operation_name(const Call& call) {
  return name_in(names_of(kOperationList), static_cast<size_t>(call.operation));
}

/** Values of a message, equal on all ranks. */
inline uint64_t chunk_value_count_of(const Endpoint& endpoint, const Call& call) {
  return call.stream == nullptr ? endpoint.chunk_value_count : endpoint.stream_chunk_value_count;
}

/** Where this rank's random words of a call are; hop 0 but for reductions. */
inline RandomSite random_site(const Endpoint& endpoint, const Call& call, uint32_t hop) {
  return RandomSite{random_key(call.format.seed, endpoint.stream_id),
                    static_cast<uint32_t>(call.step),
                    static_cast<uint32_t>(call.index),
                    endpoint.rank(),
                    hop,
                    call.step_at};
}

/** The same for a move that adds. */
inline RandomSite random_site(const Endpoint& endpoint, const Call& call, const Move& move) {
  RandomSite site = random_site(endpoint, call, move.hop);
  if (move.addends == Addends::node) {
    site.node = endpoint.nodes.node_of(endpoint.rank());
    site.nodes = endpoint.nodes.count();
  }
  return site;
}

}  // namespace gq

#endif
