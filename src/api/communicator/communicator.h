// The communicator behind a handle, and the guard that lets one thread in.
#ifndef GQ_API_COMMUNICATOR_COMMUNICATOR_H
#define GQ_API_COMMUNICATOR_COMMUNICATOR_H

#include <atomic>
#include <memory>
#include <string>

#include "src/api/communicator/options_string.h"
#include "src/call/continuation.h"
#include "src/call/request_queue.h"
#include "src/execute/endpoint.h"
#include "src/execute/workers.h"
#include "src/gpu/enqueue/stream_calls.h"

namespace gq {

/** The thread inside a communicator: in a call, or one that waits in another communicator and looks
 *  at requests here meanwhile, without waiting (other_requests.h). */
enum class Occupant : uint8_t { none, caller, helper };

struct Communicator {
  Workers workers;
  Endpoint endpoint;
  /** The group's end on streams; where there is host memory as well, null before the first call
   *  on a stream. */
  std::unique_ptr<StreamTransport> device_end;
  RequestQueue requests{&endpoint};
  std::atomic<Occupant> occupant{Occupant::none};
  std::atomic<uint64_t> next_step{0};  ///< gqsgd_comm_counter, unless a device counts
  uint64_t fork_generation = 0;
  gqsgd_comm handle = nullptr;
  std::string transport_name;
  CommOptions options;                                 ///< as it was made
  bool was_followed = false;  ///< gqsgd_comm_shrink has decided about it
  std::unique_ptr<StreamCalls> on_streams;             ///< null before the first call on a stream
  std::atomic<StreamCalls*> seen_on_streams{nullptr};  ///< the same, for threads that only query

  /** True if there is no host memory: all calls are on streams, and NULL is one of them. */
  bool has_streams_only() const { return endpoint.has_streams_only(); }
  /** What executes a call on `stream`; null for calls on host memory. */
  StreamCalls* calls_on(const void* stream) const {
    return stream != nullptr || has_streams_only() ? on_streams.get() : nullptr;
  }
};

/** Gets a communicator that works on host memory as well ready for a call on `stream`, on the
 *  current device. UNSUPPORTED if there is none, or in the first such call if the stream is being
 *  captured. */
Status use_stream(void* stream, Communicator* communicator);

/** Whether `stream` is being captured, in a group that works on host memory as well; false of one
 *  that is none. */
bool is_captured(const Communicator& communicator, void* stream);

/** A handle for one rank's end; *comm stays as it was after a failure. `name` is that of
 *  gqsgd_comm_transport, and is copied. */
Status add_communicator(std::unique_ptr<HostTransport> transport, const char* name,
                        const CommOptions& options, gqsgd_comm* comm);
/** The same of a group that continues an old one, in a collective of its own. */
Status add_communicator(std::unique_ptr<HostTransport> transport, const char* name,
                        const CommOptions& options, const Continuation* continued,
                        gqsgd_comm* comm);
/** The same of a group that continues an old one at `step`, and that agrees on nothing more. */
Status add_survivor(std::unique_ptr<HostTransport> transport, const char* name,
                    const CommOptions& options, uint64_t step, gqsgd_comm* comm);
/** The same of a group whose calls are all on streams. */
Status add_communicator(std::unique_ptr<StreamTransport> transport, const char* name,
                        const CommOptions& options, gqsgd_comm* comm);

/** The step of the next call that takes it from the counter. */
uint64_t counter_of(const Communicator& communicator);

/** Takes a handle out of use, and returns when no thread has shared access any more; the
 *  communicator ends when its last user is done. Null if another thread has taken it. */
std::shared_ptr<Communicator> remove_communicator(gqsgd_comm comm);

/** Lets any thread make queries that do not wait, concurrently with the thread inside a call. It is
 *  no owner of the communicator: the last owner's thread would close the transport, which only the
 *  thread that destroys it may do, before destroy returns. */
class SharedAccess {
 public:
  SharedAccess() = default;
  ~SharedAccess();
  SharedAccess(const SharedAccess&) = delete;
  SharedAccess& operator=(const SharedAccess&) = delete;

  /** BAD_HANDLE, or FORKED in a child of the process that made the communicator. */
  Status begin(gqsgd_comm comm);
  /** The same without a sentence and without a lock: for signal handlers. */
  gqsgd_status find(gqsgd_comm comm);
  Communicator& operator*() const { return *communicator_; }
  Communicator* operator->() const { return communicator_; }

 private:
  Communicator* communicator_ = nullptr;
  std::atomic<uint32_t>* visits_ = nullptr;
};

/** Lets one thread into a communicator for as long as it lives; BUSY to a second one. One that only
 *  looks at requests is waited for. */
class ExclusiveAccess {
 public:
  ExclusiveAccess() = default;
  ~ExclusiveAccess();
  ExclusiveAccess(const ExclusiveAccess&) = delete;
  ExclusiveAccess& operator=(const ExclusiveAccess&) = delete;

  Status enter(gqsgd_comm comm);
  /** The same where the communicator is known, also if its handle is out of use by now. */
  Status enter(std::shared_ptr<Communicator> communicator);
  const std::shared_ptr<Communicator>& shared() const { return communicator_; }
  Communicator& operator*() const { return *communicator_; }
  Communicator* operator->() const { return communicator_.get(); }

 private:
  std::shared_ptr<Communicator> communicator_;
  bool entered_ = false;
};

/** An endpoint on `transport`, which is endpoint->host or, without one, borrowed; with the stages
 * of this machine, which `workers` share. */
Status fill_endpoint(Transport* transport, const CommOptions& options, Workers* workers,
                     Endpoint* endpoint);

}  // namespace gq

#endif
